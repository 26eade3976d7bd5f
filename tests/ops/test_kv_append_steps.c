/* kv_append's steps before the store: norm, rotary, offset and rotation, and where rows go: rings, a past elsewhere,
 * packed projections. All byte for byte. */
#include "append_problem.h"
#include "indices.h"
#include "tests/reference/formats.h"
#include "tests/reference/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void finish(struct append_problem *p)
{
    EXPECT_NONE(append_check(p), append_label(p));
    append_free(p);
}

/* ---- steps ------------------------------------------------------------------------------------------ */

enum { NORM = 1, ROTARY = 2, OFFSET = 4, ROTATION = 8, ALL_STEPS = 16 };
static const int64_t dims[][2] = {{64, 64}, {48, 96}, {37, 33}, {1, 1}, {2, 3}, {1024, 1000}, {80, 128}};

static int32_t turned_of(int index, int64_t head_dim)
{
    int32_t even = (int32_t)head_dim & ~1, half = even / 2 & ~1;
    return index % 3 == 2 && half ? half : even;
}

static struct append_setup setup_of(int index, unsigned steps)
{
    struct append_setup setup = {.dtype = float_types[index % COUNT(float_types)],
                                 .k = index % COUNT(stored_types),
                                 .v = (index + 7) % COUNT(stored_types),
                                 .head_dim = dims[index % COUNT(dims)][0],
                                 .v_head_dim = dims[index % COUNT(dims)][1],
                                 .interleaved = index / 2 % 2,
                                 .seed = (uint64_t)index};
    if (steps & NORM)
        setup.norm = float_types[index / 3 % COUNT(float_types)];
    if (steps & ROTARY && setup.head_dim > 1) {
        setup.rotary = (tdm_rotary){.dtype = float_types[index / 2 % COUNT(float_types)],
                                    .dim = turned_of(index, setup.head_dim),
                                    .interleaved = index % 2};
        setup.positions = index / 4 % 2;
    }
    setup.offset = steps & OFFSET;
    setup.rotate_k = steps & ROTATION;
    setup.rotate_v = (steps & ROTATION) && index % 2;
    return setup;
}

/* Every set of steps before every type of cache. */
TEST_EACH(kv_append_steps, steps, COUNT(stored_types))
{
    for (unsigned steps = 0; steps < ALL_STEPS; steps++) {
        struct append_setup setup = setup_of((int)steps * 5 + *at, steps);
        setup.k = *at;
        finish(append_new(&setup));
    }
}

/* Every head size with every step, and a rotation of the values. */
TEST_EACH(kv_append_steps, head_dims, COUNT(dims))
{
    for (int i = 0; i < COUNT(stored_types); i++) {
        struct append_setup setup = setup_of(*at + i * COUNT(dims), ALL_STEPS - 1);
        setup.rotate_v = true;
        finish(append_new(&setup));
    }
}

/* A NaN or an infinity in one channel, through all steps; and rows of zeros and of tiny numbers. */
TEST_EACH(kv_append_steps, odd_values, COUNT(stored_types))
{
    static const double values[] = {NAN, INFINITY, -INFINITY, 3e38, 1e-45, 0};
    for (int i = 0; i < COUNT(values); i++) {
        struct append_setup setup = setup_of(i * 2 + *at, (unsigned)(i % 2 ? ROTARY | ROTATION : ALL_STEPS - 1));
        setup.k = *at;
        setup.dtype = TDM_F32;
        struct append_problem *p = append_new(&setup);
        for (int64_t c = 0; c < setup.head_dim; c += values[i] == 0 || values[i] < 1e-40 ? 1 : 29)
            format_encode(TDM_F32, tensor_row(&p->desc.k, p->args.k, 0, 1, 4), c, values[i]);
        finish(p);
    }
}

/* Rows of integers are turned without rounding where the block is a power of four. */
Test(kv_append_steps, exact_rotation)
{
    struct append_setup setup = {.dtype = TDM_F32, .head_dim = 64, .v_head_dim = 64, .rotate_k = true};
    struct append_problem *p = append_new(&setup);
    memset(p->k.data, 0, p->k.bytes);
    for (int64_t c = 0; c < 64; c++)
        format_encode(TDM_F32, tensor_row(&p->desc.k, p->args.k, 0, 0, 0), c, c == 5 ? 24 : 0);
    EXPECT_NONE(append_check(p), append_label(p));
    for (int64_t c = 0; c < 64; c++) { /* row 5 of the Hadamard matrix: +-1 by the parity of c & 5, over 8 */
        double sign = ((c & 1) != 0) == ((c >> 2 & 1) != 0) ? 1 : -1;
        double got = format_decode(TDM_F32, tensor_row(&p->desc.cache.k, p->args.cache.k, 0, 0, 0), c);
        cr_expect_eq(got, sign * 3, "[%d]: %g", (int)c, got);
    }
    append_free(p);
}

/* ---- rings --------------------------------------------------------------------------------------------- */

/* Before, at and long after the first turn; the most tokens that fit; into the sinks and past them at once. */
TEST_EACH(kv_append_steps, rings, COUNT(stored_types))
{
    static const int32_t sinks[] = {0, 3, 11, 19};
    static const int32_t pos[][BATCH] = {{0, 19, 20, 21}, {0, 2, 17, 1000}, {11, 5, 29, 2000000000}, {0, 18, 19, 40}};
    static const int32_t new_len[][BATCH] = {{9, 0, 9, 8}, {9, 5, 7, 9}, {9, 9, 9, 9}, {1, 1, 1, 0}};
    for (int i = 0; i < COUNT(sinks); i++) {
        struct append_setup setup = setup_of(*at + i, i % 2 ? ROTATION | OFFSET : 0);
        setup.k = *at;
        setup.ring = true;
        setup.ring_sinks = sinks[i];
        setup.pos = pos[i];
        setup.new_len = new_len[i];
        finish(append_new(&setup));
    }
}

/* ---- a past in another buffer ----------------------------------------------------------------------------- */

static const int32_t past_pos[BATCH] = {0, 20, 11, 5}, past_new[BATCH] = {9, 0, 9, 1};

TEST_EACH(kv_append_steps, past, COUNT(stored_types))
{
    for (int i = 0; i < 4; i++) {
        struct append_setup setup = setup_of(*at * 3 + i, i % 2 ? ALL_STEPS - 1 : 0);
        setup.k = *at;
        setup.past = true;
        setup.pos = past_pos;
        setup.new_len = past_new;
        finish(append_new(&setup));
    }
}

/* The rows in place and the rows from a past make the same cache. */
static const char *in_place_body(struct problem *problem, tdm_ctx *ctx, void *arg)
{
    struct append_problem *in_place = arg;
    const struct append_problem *moved = (const struct append_problem *)problem;
    const tdm_tensor *k = &moved->desc.cache.k;
    if (problem_run(&in_place->base, ctx))
        return tdm_last_error();
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t r = 0; r < past_pos[b] + past_new[b]; r++)
                if (memcmp(tensor_row(k, moved->args.cache.k, b, h, r), tensor_row(k, in_place->args.cache.k, b, h, r),
                           (size_t)format_bytes(k->dtype, k->dim[3])))
                    return "another row than in place";
    return NULL;
}

TEST_EACH(kv_append_steps, past_equals_in_place, COUNT(stored_types))
{
    struct append_setup setup = setup_of(*at, ALL_STEPS - 1);
    setup.k = *at;
    setup.pos = past_pos;
    setup.new_len = past_new;
    struct append_problem *in_place = append_new(&setup);
    setup.past = true;
    struct append_problem *moved = append_new(&setup);
    const tdm_tensor *from = &moved->desc.past.k, *to = &in_place->desc.cache.k;
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t r = 0; r < past_pos[b]; r++)
                memcpy(tensor_row(to, in_place->args.cache.k, b, h, r), tensor_row(from, moved->args.past.k, b, h, r),
                       (size_t)format_bytes(to->dtype, to->dim[3]));
    problem_keep(&in_place->base);
    EXPECT_NONE(problem_each_variant(&moved->base, 2, in_place_body, in_place), append_label(moved));
    append_free(in_place);
    append_free(moved);
}

/* ---- packed projections ------------------------------------------------------------------------------------ */

/* k and v inside [batch, tokens, (q_heads + 2 kv_heads) * head_dim] are read where they lie. */
TEST_EACH(kv_append_steps, packed, COUNT(float_types))
{
    enum { DIM = 40, Q_HEADS = 6, WIDTH = (Q_HEADS + 2 * HEADS) * DIM };
    tdm_dtype dtype = float_types[*at];
    int64_t element = format_bytes(dtype, 1);
    struct append_setup setup = {.dtype = dtype, .k = 7, .v = 10, .head_dim = DIM, .v_head_dim = DIM, .rotate_k = true};
    struct append_problem *p = append_new(&setup);
    struct guard packed = guard_new((size_t)(BATCH * MAX_NEW * WIDTH * element), 0xFF);
    tdm_tensor *halves[] = {&p->desc.k, &p->desc.v};
    const void **data[] = {&p->args.k, &p->args.v};
    for (int i = 0; i < 2; i++) {
        tdm_tensor inside = *halves[i];
        inside.stride[0] = MAX_NEW * WIDTH * element;
        inside.stride[1] = DIM * element;
        inside.stride[2] = WIDTH * element;
        char *first = (char *)packed.data + (Q_HEADS + i * HEADS) * DIM * element;
        for (int64_t b = 0; b < BATCH; b++)
            for (int64_t h = 0; h < HEADS; h++)
                for (int64_t r = 0; r < MAX_NEW; r++)
                    memcpy(tensor_row(&inside, first, b, h, r), tensor_row(halves[i], *data[i], b, h, r),
                           (size_t)(DIM * element));
        *halves[i] = inside;
        *data[i] = first;
    }
    EXPECT_NONE(append_check(p), "packed");
    append_free(p);
    guard_free(&packed);
}
