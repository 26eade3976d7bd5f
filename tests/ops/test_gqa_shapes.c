/* gqa against its reference over shapes: the shared table, lengths, windows and head sizes of its own. */
#include "gqa_problem.h"
#include "indices.h"
#include "types.h"

#define FLOATS(k, v)                     \
    {                                    \
        k, TDM_UNSCALED, v, TDM_UNSCALED \
    }

/* One of each kind; test_gqa_types.c has every pair. */
static const struct cache_type kinds[] = {
    FLOATS(TDM_F32, TDM_F32),
    FLOATS(TDM_F16, TDM_BF16),
    {TDM_I8, TDM_PER_TOKEN, TDM_I8, TDM_PER_TOKEN},
    {TDM_I8, TDM_PER_CHANNEL, TDM_I4, TDM_PER_TOKEN},
    {TDM_I4, TDM_PER_CHANNEL, TDM_I8, TDM_PER_TENSOR},
};

/* Check one shape with `runs` kinds of cache; which ones, and in which layout, turns with the index. */
static void check_kinds(struct gqa_setup setup, int index, int runs)
{
    for (int i = 0; i < runs; i++) {
        setup.cache = kinds[(index + i) % COUNT(kinds)];
        setup.dtype = float_types[(index / 2 + i) % COUNT(float_types)];
        setup.interleaved = (index + i) % 2;
        setup.seed = (uint64_t)(index * 16 + i);
        EXPECT_NONE(gqa_problem_check(&setup), gqa_problem_label(&setup));
    }
}

TEST_EACH(gqa_shapes, table, gqa_shape_count)
{
    if (gqa_shapes[*at].suites & SUITE_TESTS)
        check_kinds((struct gqa_setup){.shape = &gqa_shapes[*at]}, *at, COUNT(kinds));
}

/* ---- lengths ---------------------------------------------------------------------- */

static const int32_t key_counts[] = {1,   2,   15,  16,  31,  32,  33,  63,  64,   65,   127,  128,
                                     129, 255, 256, 257, 511, 512, 513, 767, 1023, 1024, 1025, 2049};

TEST_EACH(gqa_shapes, keys, COUNT(key_counts))
{
    for (int32_t q_len = 1; q_len <= 5; q_len += 4) {
        struct gqa_shape shape = {"keys", 0, 1, 4, 2, 40, 40, q_len, key_counts[*at], -1, 0, false};
        check_kinds((struct gqa_setup){.shape = &shape}, *at + q_len, 2);
    }
}

static const int32_t query_counts[] = {2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300};

TEST_EACH(gqa_shapes, queries, COUNT(query_counts))
{
    for (int past = 0; past <= 77; past += 77) {
        int32_t n = query_counts[*at];
        struct gqa_shape shape = {"queries", 0, 1, 3, 1, 32, 32, n, n + past, -1, 0, false};
        check_kinds((struct gqa_setup){.shape = &shape}, *at + past, 2);
    }
}

/* Sequences without keys, without queries, with more queries than keys, and ordinary ones beside them. */
TEST_EACH(gqa_shapes, odd_lengths, COUNT(kinds))
{
    static const int32_t q_len[] = {0, 0, 9, 5, 7, 1, 9}, kv_len[] = {0, 70, 3, 0, 70, 1, 9};
    static const struct gqa_shape shapes[] = {
        {"odd lengths", 0, 7, 4, 2, 24, 24, 9, 70, -1, 0, false},
        {"odd lengths, all keys", 0, 7, 4, 2, 24, 24, 9, 70, -1, -1, false},
        {"odd lengths, window", 0, 7, 4, 2, 24, 24, 9, 70, 2, 1, false},
    };
    for (int s = 0; s < COUNT(shapes); s++)
        check_kinds((struct gqa_setup){.shape = &shapes[s], .q_len = q_len, .kv_len = kv_len}, *at, 1);
}

TEST_EACH(gqa_shapes, one_token_beside_many, COUNT(kinds))
{
    static const struct gqa_shape shape = {"1 beside 8192", 0, 2, 2, 1, 64, 64, 1, 8192, -1, 0, true};
    check_kinds((struct gqa_setup){.shape = &shape}, *at, 1);
}

/* ---- windows ------------------------------------------------------------------------ */

static const int32_t lefts[] = {-1, 0, 1, 2, 31, 63, 64, 65, 129, 130, 131};

TEST_EACH(gqa_shapes, windows, COUNT(lefts))
{
    static const int32_t rights[] = {-1, 0, 1, 5, 64, 130, 2000000000};
    for (int r = 0; r < COUNT(rights); r++) {
        struct gqa_shape shape = {"window", 0, 3, 4, 2, 16, 16, 70, 130, lefts[*at], rights[r], true};
        check_kinds((struct gqa_setup){.shape = &shape}, *at + r, 1);
        shape.q_len = 1;
        check_kinds((struct gqa_setup){.shape = &shape}, *at + r, 1);
    }
}

/* ---- heads -------------------------------------------------------------------------- */

static const int32_t head_dims[][2] = {{1, 1},     {2, 5},     {8, 8},     {15, 17},   {37, 37},     {40, 40},
                                       {64, 40},   {64, 65},   {72, 72},   {100, 100}, {100, 3},     {128, 128},
                                       {192, 128}, {256, 256}, {512, 512}, {576, 512}, {1024, 1024}, {3, 1023}};

TEST_EACH(gqa_shapes, head_dims, COUNT(head_dims))
{
    struct gqa_shape shape = {"head dims", 0, 2, 4, 2, head_dims[*at][0], head_dims[*at][1], 3, 67, -1, 0, false};
    check_kinds((struct gqa_setup){.shape = &shape}, *at, COUNT(kinds));
    shape.q_len = 20;
    check_kinds((struct gqa_setup){.shape = &shape}, *at, 2);
}

static const int32_t groups[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 71};

TEST_EACH(gqa_shapes, groups, COUNT(groups))
{
    for (int32_t kv_heads = 1; kv_heads <= 3; kv_heads += 2) {
        struct gqa_shape shape = {"group", 0, 1, groups[*at] * kv_heads, kv_heads, 16, 16, 1, 41, -1, 0, false};
        check_kinds((struct gqa_setup){.shape = &shape}, *at, 2);
        shape.q_len = 6;
        check_kinds((struct gqa_setup){.shape = &shape}, *at, 2);
    }
}

/* More rotary positions than reach a GPU's kernel at once, of sequences that begin and end anywhere. */
TEST_EACH(gqa_shapes, many_positions, COUNT(kinds))
{
    static const int32_t q_len[] = {300, 1, 0, 700, 20}, kv_len[] = {300, 9, 9, 710, 700};
    static const struct gqa_shape shape = {"many positions", 0, 5, 2, 1, 16, 16, 700, 710, -1, 0, false};
    struct gqa_setup setup = {.shape = &shape, .q_len = q_len, .kv_len = kv_len};
    setup.with.rotary = (tdm_rotary){.dtype = TDM_F32, .dim = 16};
    setup.with.positions = true;
    check_kinds(setup, *at, 1);
}

Test(gqa_shapes, scale)
{
    static const struct gqa_shape shape = {"scale", 0, 2, 4, 2, 16, 16, 4, 41, -1, 0, true};
    static const float scales[] = {1, -0.5F, 0.037F, 1e-30F, 3};
    for (int s = 0; s < COUNT(scales); s++)
        check_kinds((struct gqa_setup){.shape = &shape, .scale = scales[s]}, s, COUNT(kinds));
}
