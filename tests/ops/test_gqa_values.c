/* gqa on values that are easy to get wrong: huge scores, equal scores, infinities, and NaN in places that some
 * rows see and others do not. */
#include "gqa_problem.h"
#include "indices.h"
#include "tests/reference/formats.h"
#include "tests/reference/tensor.h"
#include "types.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const struct cache_type f32_cache = {TDM_F32, TDM_UNSCALED, TDM_F32, TDM_UNSCALED};

static void finish(struct gqa_problem *problem, const char *label)
{
    gqa_problem_expect(problem);
    EXPECT_NONE(problem_all_variants(&problem->base), label);
    gqa_problem_free(problem);
}

/* Scores of either sign around 1e4 on every path: no overflow, and the bound still holds. */
TEST_EACH(gqa_values, large_scores, 3)
{
    static const struct gqa_shape shape = {"large scores", 0, 1, 4, 2, 64, 64, 20, 300, -1, 0, false};
    static const struct cache_type caches[] = {{TDM_F32, TDM_UNSCALED, TDM_F32, TDM_UNSCALED},
                                               {TDM_I8, TDM_PER_TOKEN, TDM_I8, TDM_PER_CHANNEL},
                                               {TDM_F16, TDM_UNSCALED, TDM_BF16, TDM_UNSCALED}};
    struct gqa_setup setup = {
        .shape = &shape, .cache = caches[*at], .dtype = float_types[*at], .magnitude = 60, .scale = 1};
    EXPECT_NONE(gqa_problem_check(&setup), gqa_problem_label(&setup));
}

/* Every key scores exactly -210560 (a power of two times an integer, in one channel): the result is the plain
 * average, here of integers over 256 keys and so exact. */
TEST_EACH(gqa_values, equal_huge_scores, COUNT(float_types))
{
    static const struct gqa_shape shape = {"equal scores", 0, 1, 2, 1, 128, 32, 1, 256, -1, -1, false};
    struct gqa_setup setup = {.shape = &shape, .cache = f32_cache, .dtype = float_types[*at], .scale = 0.25F};
    struct gqa_problem *p = gqa_problem_new(&setup);
    memset(p->q.data, 0, p->q.bytes);
    memset(p->k.data, 0, p->k.bytes);
    for (int h = 0; h < 2; h++)
        tensor_put(&p->desc.q, p->args.q, 0, h, 0, 5, 448);
    for (int j = 0; j < 256; j++) {
        tensor_put(&p->desc.cache.k, p->args.cache.k, 0, 0, j, 5, -1880);
        for (int c = 0; c < 32; c++)
            tensor_put(&p->desc.cache.v, p->args.cache.v, 0, 0, j, c, j % (c + 1) * 8.0);
    }
    p->expected.out = expected_new(64);
    p->expected.lse = expected_new(2);
    for (int h = 0; h < 2; h++)
        for (int c = 0; c < 32; c++)
            for (int j = 0; j < 256; j++)
                p->expected.out.value[h * 32 + c] += j % (c + 1) * 8.0 / 256;
    for (int h = 0; h < 2; h++) {
        p->expected.lse.value[h] = -210560 + log(256);
        p->expected.lse.bound[h] = 210560 * 0x1p-23;
    }
    EXPECT_NONE(problem_all_variants(&p->base), "equal scores");
    gqa_problem_free(p);
}

/* One key far above the others: its value comes out exactly, whatever the others hold. */
TEST_EACH(gqa_values, one_hot, COUNT(float_types))
{
    static const struct gqa_shape shape = {"one hot", 0, 1, 2, 1, 16, 16, 3, 150, -1, -1, false};
    struct gqa_setup setup = {.shape = &shape, .cache = f32_cache, .dtype = float_types[*at], .scale = 1};
    struct gqa_problem *p = gqa_problem_new(&setup);
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 3; i++)
            tensor_put(&p->desc.q, p->args.q, 0, h, i, 0, 16);
    for (int c = 0; c < 16; c++) {
        tensor_put(&p->desc.cache.k, p->args.cache.k, 0, 0, 77, c, c ? 0 : 64);
        tensor_put(&p->desc.cache.v, p->args.cache.v, 0, 0, 77, c, c - 7.5);
    }
    gqa_problem_expect(p);
    for (int i = 0; i < 2 * 3 * 16; i++) {
        p->expected.out.value[i] = i % 16 - 7.5;
        p->expected.out.bound[i] = 0;
    }
    EXPECT_NONE(problem_all_variants(&p->base), "one hot");
    gqa_problem_free(p);
}

/* ---- NaN and infinity ---------------------------------------------------------------- */

static const struct gqa_shape causal = {"causal", 0, 2, 4, 2, 24, 24, 40, 130, -1, 0, false};
static const struct gqa_shape window = {"window", 0, 2, 4, 2, 24, 24, 40, 130, 20, 3, false};
static const struct gqa_shape *const nan_shapes[] = {&causal, &window};
static const int nan_keys[] = {0, 91, 95, 100, 129};

/* The reference puts NaN where a row sees the slot, and the comparison wants it there and nowhere else. */
TEST_EACH(gqa_values, nan_key, COUNT(nan_keys) * 2)
{
    struct gqa_setup setup = {.shape = nan_shapes[*at % 2], .cache = f32_cache, .dtype = TDM_F32};
    struct gqa_problem *p = gqa_problem_new(&setup);
    tensor_put(&p->desc.cache.k, p->args.cache.k, 1, 0, nan_keys[*at / 2], 7, NAN);
    finish(p, "NaN in a key");
}

TEST_EACH(gqa_values, nan_value, COUNT(nan_keys) * 2)
{
    struct gqa_setup setup = {.shape = nan_shapes[*at % 2], .cache = f32_cache, .dtype = TDM_F16};
    struct gqa_problem *p = gqa_problem_new(&setup);
    tensor_put(&p->desc.cache.v, p->args.cache.v, 1, 1, nan_keys[*at / 2], 7, NAN);
    finish(p, "NaN in a value");
}

/* What append stores for a row with a NaN: PER_TOKEN scale NaN. */
TEST_EACH(gqa_values, nan_scale, COUNT(nan_keys) * 4)
{
    int64_t key = nan_keys[*at / 4];
    struct gqa_setup setup = {
        .shape = nan_shapes[*at % 2], .cache = {TDM_I8, TDM_PER_TOKEN, TDM_I4, TDM_PER_TOKEN}, .dtype = TDM_BF16};
    struct gqa_problem *p = gqa_problem_new(&setup);
    const tdm_tensor *tensor = *at / 2 % 2 ? &p->desc.cache.v : &p->desc.cache.k;
    float *scale = *at / 2 % 2 ? p->args.cache.v_scale : p->args.cache.k_scale;
    scale[tensor->dim[2] * (1 * tensor->dim[1] + 1) + key] = NAN;
    finish(p, "NaN scale of a token");
}

TEST_EACH(gqa_values, nan_query, 2)
{
    struct gqa_setup setup = {.shape = nan_shapes[*at], .cache = f32_cache, .dtype = TDM_F32};
    struct gqa_problem *p = gqa_problem_new(&setup);
    tensor_put(&p->desc.q, p->args.q, 0, 1, 17, 3, NAN);
    finish(p, "NaN in a query");
}

TEST_EACH(gqa_values, nan_value_in_last_slot, COUNT(nan_keys))
{
    static const struct gqa_shape prefill = {"prefill", 0, 1, 2, 1, 16, 16, 130, 130, -1, 0, false};
    struct gqa_setup setup = {.shape = &prefill, .cache = f32_cache, .dtype = TDM_F32};
    struct gqa_problem *p = gqa_problem_new(&setup);
    for (int c = 0; c < 16; c++) {
        tensor_put(&p->desc.cache.v, p->args.cache.v, 0, 0, nan_keys[*at], c, c % 2 ? NAN : INFINITY);
        tensor_put(&p->desc.cache.k, p->args.cache.k, 0, 0, nan_keys[*at], c, 0);
    }
    finish(p, "NaN and infinity in a later value");
}

/* Scores of minus infinity: such keys take no part, and a row that has no others gives 0. */
TEST_EACH(gqa_values, minus_infinity, 2)
{
    static const struct gqa_shape shape = {"minus infinity", 0, 1, 2, 1, 8, 8, 20, 150, 70, 0, false};
    struct gqa_setup setup = {.shape = &shape, .cache = f32_cache, .dtype = TDM_F32, .scale = 1};
    struct gqa_problem *p = gqa_problem_new(&setup);
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 20; i++)
            tensor_put(&p->desc.q, p->args.q, 0, h, i, 2, 1);
    for (int j = 0; j < 150; j++)
        if (*at == 0 || j % 3 || j < 100)
            tensor_put(&p->desc.cache.k, p->args.cache.k, 0, 0, j, 2, -INFINITY);
    finish(p, *at ? "some scores of minus infinity" : "all scores of minus infinity");
}

TEST_EACH(gqa_values, zero_scales, 2)
{
    static const struct gqa_shape shape = {"zero scales", 0, 2, 4, 2, 24, 24, 5, 90, -1, 0, false};
    struct gqa_setup setup = {.shape = &shape, .dtype = TDM_F32};
    setup.cache = *at ? (struct cache_type){TDM_I4, TDM_PER_TOKEN, TDM_I8, TDM_PER_TOKEN}
                      : (struct cache_type){TDM_I8, TDM_PER_CHANNEL, TDM_I4, TDM_PER_CHANNEL};
    struct gqa_problem *p = gqa_problem_new(&setup);
    for (int i = 0; i < tensor_scales(&p->desc.cache.k); i += 3)
        p->args.cache.k_scale[i] = 0;
    for (int i = 0; i < tensor_scales(&p->desc.cache.v); i += 4)
        p->args.cache.v_scale[i] = 0;
    finish(p, "scales of zero");
}

/* ---- slots that nobody sees ------------------------------------------------------------ */

struct refill {
    struct gqa_problem *problem;
    struct guard want;
};

static void fill_unused(struct gqa_problem *p, int fill)
{
    const tdm_tensor *halves[] = {&p->desc.cache.k, &p->desc.cache.v};
    void *const data[] = {p->args.cache.k, p->args.cache.v};
    float *const scales[] = {p->args.cache.k_scale, p->args.cache.v_scale};
    for (int i = 0; i < 2; i++)
        for (int64_t b = 0; b < halves[i]->dim[0]; b++)
            for (int64_t h = 0; h < halves[i]->dim[1]; h++)
                for (int64_t r = p->kv_len[b]; r < halves[i]->dim[2]; r++) {
                    memset(tensor_row(halves[i], data[i], b, h, r), fill,
                           (size_t)format_bytes(halves[i]->dtype, halves[i]->dim[3]));
                    if (halves[i]->scaling == TDM_PER_TOKEN)
                        memset(&scales[i][(b * halves[i]->dim[1] + h) * halves[i]->dim[2] + r], fill, sizeof(float));
                }
}

static const char *refill_body(struct problem *problem, tdm_ctx *ctx, void *arg)
{
    struct refill *refill = arg;
    const struct guard *out = &problem->output[0].memory;
    memcpy(refill->want.data, out->data, out->bytes);
    const char *bad = NULL;
    for (int fill = 0; fill <= 0x7F && !bad; fill += 0x7F) {
        fill_unused(refill->problem, fill);
        bad = problem_run(problem, ctx) ? tdm_last_error()
                                        : compare_bytes("unused slots", out->data, refill->want.data, out->bytes);
    }
    return bad;
}

TEST_EACH(gqa_values, unused_slots, 3)
{
    static const struct gqa_shape shape = {"unused slots", 0, 4, 4, 2, 33, 33, 20, 70, -1, -1, true};
    static const struct cache_type caches[] = {{TDM_F32, TDM_UNSCALED, TDM_F16, TDM_UNSCALED},
                                               {TDM_I8, TDM_PER_TOKEN, TDM_I4, TDM_PER_TOKEN},
                                               {TDM_I4, TDM_PER_CHANNEL, TDM_BF16, TDM_UNSCALED}};
    struct gqa_setup setup = {.shape = &shape, .cache = caches[*at], .dtype = TDM_F32};
    struct gqa_problem *p = gqa_problem_new(&setup);
    struct refill refill = {p, guard_new(p->base.output[0].memory.bytes, 0)};
    EXPECT_NONE(problem_each_variant(&p->base, 2, refill_body, &refill), gqa_problem_label(&setup));
    guard_free(&refill.want);
    gqa_problem_free(p);
}

/* ---- far apart -------------------------------------------------------------------------- */

/* Sequences and slots gigabytes apart in memory that is mostly never touched: offsets need 64 bits. */
Test(gqa_values, offsets_beyond_32_bits)
{
    static const struct gqa_shape shape = {"far apart", 0, 2, 2, 1, 16, 16, 2, 3, -1, 0, false};
    struct gqa_setup setup = {.shape = &shape, .cache = f32_cache, .dtype = TDM_F32};
    const int64_t slot = (int64_t)3 << 30, sequence = 6 * slot;
    size_t bytes = (size_t)(2 * sequence);
    struct gqa_problem *p = gqa_problem_new(&setup);
    char *map = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert(map != MAP_FAILED);
    gqa_problem_expect(p);
    tdm_tensor *halves[] = {&p->desc.cache.k, &p->desc.cache.v};
    void **data[] = {&p->args.cache.k, &p->args.cache.v};
    for (int i = 0; i < 2; i++) {
        tdm_tensor far = *halves[i];
        far.stride[0] = far.stride[1] = sequence;
        far.stride[2] = slot;
        for (int64_t b = 0; b < 2; b++)
            for (int64_t r = 0; r < 3; r++)
                memcpy(tensor_row(&far, map + (size_t)i * bytes, b, 0, r), tensor_row(halves[i], *data[i], b, 0, r),
                       64);
        *halves[i] = far;
        *data[i] = map + (size_t)i * bytes;
    }
    EXPECT_NONE(problem_all_variants(&p->base), "far apart");
    munmap(map, 2 * bytes);
    gqa_problem_free(p);
}
