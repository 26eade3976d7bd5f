/* What the storage of a cache must not change: rotated keys and values, keys less an offset. The data are small
 * integers and the blocks powers of four, so that the stored rows are exact and the results are those of the plain
 * cache, within the bound of the other. */
#include "gqa_problem.h"
#include "indices.h"
#include "tests/reference/prepare.h"
#include "tests/reference/tensor.h"
#include "types.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct cache_type f32_cache = {TDM_F32, TDM_UNSCALED, TDM_F32, TDM_UNSCALED};
static const struct cache_type f16_cache = {TDM_F16, TDM_UNSCALED, TDM_F16, TDM_UNSCALED};

enum { CHANNELS = 256 };

/* What channel c of a row holds before it is stored. */
static double integer(int64_t b, int64_t h, int64_t r, int64_t c)
{
    return (double)((b * 7 + h * 5 + r * 11 + c * c * 3 + r * c) % 13 - 6);
}

/* Fill one half of the cache with the rows, less an offset, rotated. */
static void fill(const tdm_tensor *half, void *data, const float *offset, bool rotate)
{
    float row[CHANNELS];
    int64_t n = half->dim[3];
    for (int64_t b = 0; b < half->dim[0]; b++)
        for (int64_t h = 0; h < half->dim[1]; h++)
            for (int64_t r = 0; r < half->dim[2]; r++) {
                for (int64_t c = 0; c < n; c++)
                    row[c] = (float)(integer(b, h, r, c) - (offset ? (double)offset[h * n + c] : 0));
                if (rotate)
                    prepare_rotation(row, n);
                for (int64_t c = 0; c < n; c++)
                    tensor_put(half, data, b, h, r, c, (double)row[c]);
            }
}

static struct gqa_problem *problem_of(const struct gqa_setup *setup)
{
    struct gqa_problem *p = gqa_problem_new(setup);
    for (int64_t i = 0; p->desc.cache.has_k_offset && i < p->desc.cache.k.dim[1] * p->desc.cache.k.dim[3]; i++)
        ((float *)p->args.cache.k_offset)[i] = (float)(i % 9 - 4);
    fill(&p->desc.cache.k, p->args.cache.k, p->args.cache.k_offset, p->desc.cache.rotate_k);
    fill(&p->desc.cache.v, p->args.cache.v, NULL, p->desc.cache.rotate_v);
    gqa_problem_expect(p);
    return p;
}

static void swap(struct expected *a, struct expected *b)
{
    double *value = a->value;
    a->value = b->value;
    b->value = value;
}

/* Features that see the whole score, and so must get the offset back. */
static const struct gqa_features others[] = {
    {.sink_tokens = 0},
    {.softcap = 15, .capture = TDM_CAPTURE_SCORES, .scores = TDM_F32},
    {.smooth_softmax = true, .capture = TDM_CAPTURE_PROBABILITIES, .scores = TDM_F32},
    {.head_sink = true, .bias = {TDM_F32, false, false, false}, .alibi = true},
    {.capture = TDM_CAPTURE_SCORES, .scores = TDM_F32, .mask = {TDM_BITS, false, true, false}},
    {.tree = true, .q_norm = TDM_F32, .rotary = {.dtype = TDM_F32, .dim = 16}},
};

/* Rotation of keys, of values, the offset: in every combination. */
enum { STORAGES = 8 };
static const int64_t dims[][2] = {{256, 16}, {80, 48}, {20, 4}, {64, 64}};

TEST_EACH(gqa_rotated, equals_plain, COUNT(others) * STORAGES)
{
    int how = *at % STORAGES;
    for (int i = *at / STORAGES % 2; i < COUNT(dims); i += 2)
        for (int32_t q_len = 1; q_len <= 9; q_len += 8) {
            struct gqa_shape shape = {"rotated", 0, 1, 4, 2, dims[i][0], dims[i][1], q_len, 140, -1, 0, false};
            struct gqa_setup setup = {.shape = &shape,
                                      .cache = i / 2 ? f16_cache : f32_cache,
                                      .with = others[*at / STORAGES],
                                      .dtype = float_types[(*at + i) % COUNT(float_types)]};
            struct gqa_problem *plain = problem_of(&setup);
            setup.with.rotate_k = how & 1;
            setup.with.rotate_v = how & 2;
            setup.with.offset = how & 4;
            struct gqa_problem *p = problem_of(&setup);
            swap(&p->expected.out, &plain->expected.out);
            swap(&p->expected.lse, &plain->expected.lse);
            swap(&p->expected.scores, &plain->expected.scores);
            EXPECT_NONE(problem_all_variants(&p->base), gqa_problem_label(&setup));
            gqa_problem_free(p);
            gqa_problem_free(plain);
        }
}

/* ---- equal scores ---------------------------------------------------------------------------------- */

/* With a query of zeros all scores are equal, whatever shifts, caps or moves them: the result is the plain average,
 * of integers over 256 keys and so exact. */
static const struct gqa_features equal[] = {
    {.sink_tokens = 0},
    {.rotate_k = true, .rotate_v = true},
    {.rotate_v = true, .offset = true},
    {.rotate_k = true, .offset = true, .softcap = 5},
    {.bias = {TDM_F32, true, true, true}},
    {.q_norm = TDM_F16, .rotary = {.dtype = TDM_F32, .dim = 64}},
};

/* A constant bias, even the lowest number there is: all of a score is rounded away beside it. */
static void flatten_bias(struct gqa_problem *p, double value)
{
    for (int64_t j = 0; j < p->desc.bias.dim[3]; j++)
        tensor_put(&p->desc.bias, p->args.bias, 0, 0, 0, j, value);
}

static void expect_average(struct gqa_problem *p, double score)
{
    int64_t rows = p->desc.q.dim[1] * p->desc.q.dim[2], group = p->desc.q.dim[1] / p->desc.cache.k.dim[1];
    gqa_expected_free(&p->expected);
    p->expected.out = expected_new(rows * 64);
    p->expected.lse = expected_new(rows);
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t c = 0; c < 64; c++)
            for (int64_t j = 0; j < 256; j++)
                p->expected.out.value[row * 64 + c] += integer(0, row / p->desc.q.dim[2] / group, j, c) / 256;
        p->expected.lse.value[row] = score + log(256);
        p->expected.lse.bound[row] = 0x1p-22 * log(256) + 0x1p-23 * (fabs(score) + 6);
    }
}

TEST_EACH(gqa_rotated, equal_scores, COUNT(equal) * 3)
{
    static const int32_t q_lens[] = {1, 5, 60};
    static const double biases[] = {0, 2.5, -3.4e38};
    struct gqa_shape shape = {"equal", 0, 1, 4, 2, 64, 64, q_lens[*at % 3], 256, -1, -1, false};
    struct gqa_setup setup = {.shape = &shape, .cache = f32_cache, .with = equal[*at / 3], .dtype = TDM_F32};
    struct gqa_problem *p = problem_of(&setup);
    bool biased = p->desc.bias.rank;
    gqa_problem_free(p);
    for (int i = 0; i < (biased ? COUNT(biases) : 1); i++) {
        p = gqa_problem_new(&setup);
        memset(p->q.data, 0, p->q.bytes);
        fill(&p->desc.cache.k, p->args.cache.k, NULL, false);
        fill(&p->desc.cache.v, p->args.cache.v, NULL, p->desc.cache.rotate_v);
        if (biased)
            flatten_bias(p, biases[i]);
        expect_average(p, (double)(float)biases[i]);
        EXPECT_NONE(problem_all_variants(&p->base), gqa_problem_label(&setup));
        gqa_problem_free(p);
    }
}
