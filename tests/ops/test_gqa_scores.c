/* What is done to scores, and what is kept of them: softcap, bias, slopes, sinks, capture. */
#include "gqa_problem.h"
#include "indices.h"
#include "tests/reference/tensor.h"
#include "types.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct cache_type f32_cache = {TDM_F32, TDM_UNSCALED, TDM_F32, TDM_UNSCALED};

static void finish(struct gqa_problem *problem, const char *label)
{
    gqa_problem_expect(problem);
    EXPECT_NONE(problem_all_variants(&problem->base), label);
    gqa_problem_free(problem);
}

/* One channel and a scale of 1: the score of key j is the key times the query, 1. */
static void put_scores(struct gqa_problem *p, double (*score)(int64_t j))
{
    for (int64_t h = 0; h < p->desc.q.dim[1]; h++)
        for (int64_t i = 0; i < p->desc.q.dim[2]; i++)
            tensor_put(&p->desc.q, p->args.q, 0, h, i, 0, 1);
    for (int64_t j = 0; j < p->kv_len[0]; j++)
        tensor_put(&p->desc.cache.k, p->args.cache.k, 0, 0, j, 0, score(j));
}

static struct gqa_problem *one_channel(const struct gqa_features *with, int32_t q_len, int32_t keys)
{
    struct gqa_shape shape = {"one channel", 0, 1, 2, 1, 1, 8, q_len, keys, -1, -1, false};
    struct gqa_setup setup = {.shape = &shape, .cache = f32_cache, .with = *with, .dtype = TDM_F32, .scale = 1};
    return gqa_problem_new(&setup);
}

/* ---- softcap ------------------------------------------------------------------------------------------- */

/* From 1e-37 to 1e30 with both signs: the leaf's tanh is near its argument, bent, and flat. */
static double wide_score(int64_t j)
{
    return (j % 2 ? -1 : 1) * pow(10, (double)(j / 2) / 3 - 37);
}

static double middle_score(int64_t j)
{
    return ((double)j - 200) / 8;
}

TEST_EACH(gqa_scores, softcap, 6)
{
    static const float caps[] = {1, 30, 1e-3F};
    for (int32_t q_len = 1; q_len <= 20; q_len += 19) {
        const struct gqa_features with = {
            .softcap = caps[*at % 3], .capture = TDM_CAPTURE_SCORES, .scores = TDM_F32, .smooth_softmax = true};
        struct gqa_problem *p = one_channel(&with, q_len, 400);
        put_scores(p, *at / 3 ? middle_score : wide_score);
        gqa_problem_expect(p);
        EXPECT_NONE(problem_all_variants(&p->base), "softcap");
        const float *got = p->args.scores;
        for (int64_t j = 0; j < 400; j++)
            cr_expect(fabsf(got[j]) <= with.softcap, "score %d: %g beyond the cap", (int)j, (double)got[j]);
        gqa_problem_free(p);
    }
}

/* ---- bias ------------------------------------------------------------------------------------------------ */

/* What masks made of numbers hold: minus infinity, and the lowest finite number of each type. */
static void put_masking_bias(struct gqa_problem *p, double lowest)
{
    const tdm_tensor *bias = &p->desc.bias;
    for (int64_t h = 0; h < bias->dim[1]; h++)
        for (int64_t i = 0; i < bias->dim[2]; i++)
            for (int64_t j = 0; j < p->kv_len[0]; j++)
                tensor_put(bias, p->args.bias, 0, h, i, j,
                           (i + h) % 5 == 2   ? -INFINITY
                           : (i + j) % 3 == 1 ? lowest
                           : (j + h) % 7 == 3 ? -INFINITY
                                              : 0.5);
}

TEST_EACH(gqa_scores, masking_bias, COUNT(float_types) * 2)
{
    static const double lowest[] = {-(double)FLT_MAX, -65504, -0x1.fep127};
    static const struct gqa_shape shape = {"masking bias", 0, 1, 4, 2, 24, 24, 11, 300, -1, 0, false};
    struct gqa_setup setup = {.shape = &shape, .cache = f32_cache, .dtype = float_types[*at % 3]};
    setup.with = (struct gqa_features){
        .bias = {float_types[*at % 3], true, *at >= 3, false}, .capture = TDM_CAPTURE_PROBABILITIES, .scores = TDM_F32};
    struct gqa_problem *p = gqa_problem_new(&setup);
    memset(p->k.data, 0, p->k.bytes);
    memset(p->v.data, 0, p->v.bytes);
    for (int64_t j = 0; j < 300; j++)
        for (int64_t h = 0; h < 2; h++) {
            tensor_put(&p->desc.cache.k, p->args.cache.k, 0, h, j, j % 24, 1);
            tensor_put(&p->desc.cache.v, p->args.cache.v, 0, h, j, j % 24, (double)j);
        }
    put_masking_bias(p, lowest[*at % 3]);
    finish(p, "masking bias");
}

/* ---- slopes ---------------------------------------------------------------------------------------------- */

/* Of a query of zeros the scores are the penalties alone, exact for slopes that are powers of two. */
TEST_EACH(gqa_scores, alibi, 2)
{
    struct gqa_shape shape = {"alibi", 0, 1, 4, 2, 16, 16, *at ? 30 : 1, 700, -1, -1, false};
    struct gqa_setup setup = {.shape = &shape, .cache = f32_cache, .dtype = TDM_F32};
    setup.with = (struct gqa_features){.alibi = true, .capture = TDM_CAPTURE_SCORES, .scores = TDM_F32};
    struct gqa_problem *p = gqa_problem_new(&setup);
    memset(p->q.data, 0, p->q.bytes);
    gqa_problem_expect(p);
    int64_t keys = p->desc.scores.dim[3], rows = shape.q_len;
    for (int64_t h = 0; h < 4; h++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < 700; j++) {
                int64_t at_score = (h * rows + i) * keys + j;
                p->expected.scores.value[at_score] = -exp2(-2.0 * (double)(h + 1)) * fabs((double)(700 - rows + i - j));
                p->expected.scores.bound[at_score] = 0;
            }
    EXPECT_NONE(problem_all_variants(&p->base), "alibi");
    gqa_problem_free(p);
}

/* ---- sinks ------------------------------------------------------------------------------------------------- */

static double flat_score(int64_t j)
{
    return j < 0;
}

/* Equal scores beside a sink: 256 keys of weight 1 and one of exp(sink). */
TEST_EACH(gqa_scores, sink_weight, 4)
{
    static const float sinks[] = {0, 5.5452F, -100, 90};
    const struct gqa_features with = {.head_sink = *at > 0, .smooth_softmax = *at == 0};
    for (int32_t q_len = 1; q_len <= 3; q_len += 2) {
        struct gqa_problem *p = one_channel(&with, q_len, 256);
        put_scores(p, flat_score);
        for (int h = 0; h < 2 && *at; h++)
            ((float *)p->args.head_sink)[h] = sinks[*at];
        for (int64_t j = 0; j < 256; j++)
            for (int64_t c = 0; c < 8; c++)
                tensor_put(&p->desc.cache.v, p->args.cache.v, 0, 0, j, c, (double)(j % (c + 1)));
        gqa_problem_expect(p);
        double total = 256 + exp((double)sinks[*at]);
        for (int64_t row = 0; row < 2 * q_len; row++) {
            p->expected.lse.value[row] = log(total);
            for (int64_t c = 0; c < 8; c++) {
                double sum = 0;
                for (int64_t j = 0; j < 256; j++)
                    sum += (double)(j % (c + 1));
                p->expected.out.value[row * 8 + c] = sum / total;
            }
        }
        EXPECT_NONE(problem_all_variants(&p->base), "sink weight");
        gqa_problem_free(p);
    }
}

/* ---- capture ------------------------------------------------------------------------------------------------ */

/* Columns behind the keys, of sequences of every length, are those of keys that are not visible. */
TEST_EACH(gqa_scores, columns, COUNT(float_types) * 2)
{
    static const int32_t q_len[] = {0, 5, 3, 1, 5}, kv_len[] = {9, 2, 0, 130, 260};
    static const struct gqa_shape shape = {"columns", 0, 5, 4, 2, 16, 16, 5, 400, 100, 0, false};
    bool scores = *at % 2;
    struct gqa_setup setup = {.shape = &shape,
                              .cache = f32_cache,
                              .dtype = TDM_F32,
                              .q_len = q_len,
                              .kv_len = kv_len,
                              .interleaved = *at / 3};
    setup.with = (struct gqa_features){.capture = scores ? TDM_CAPTURE_SCORES : TDM_CAPTURE_PROBABILITIES,
                                       .scores = float_types[*at / 2],
                                       .sink_tokens = 3};
    struct gqa_problem *p = gqa_problem_new(&setup);
    gqa_problem_expect(p);
    EXPECT_NONE(problem_all_variants(&p->base), gqa_problem_label(&setup));
    for (int64_t b = 0; b < 5; b++)
        for (int64_t i = 0; i < q_len[b]; i++)
            for (int64_t j = 0; j < p->desc.scores.dim[3]; j++) {
                int64_t position = kv_len[b] - q_len[b] + i;
                bool visible = j <= position && (j >= position - 100 || j < 3);
                double got = p->expected.scores.value[((b * 4 + 3) * 5 + i) * p->desc.scores.dim[3] + j];
                cr_expect_eq(visible, got != (scores ? -INFINITY : 0), "[%d, %d, %d]: %g", (int)b, (int)i, (int)j, got);
            }
    gqa_problem_free(p);
}

/* Probabilities of a row add up to 1, less the sink's share. */
TEST_EACH(gqa_scores, probabilities_add_up, 2)
{
    static const struct gqa_shape shape = {"probabilities", 0, 1, 4, 2, 64, 64, 3, 1500, -1, 0, false};
    struct gqa_setup setup = {.shape = &shape, .cache = f32_cache, .dtype = TDM_F32};
    setup.with = (struct gqa_features){
        .capture = TDM_CAPTURE_PROBABILITIES, .scores = TDM_F32, .smooth_softmax = *at == 1, .rotate_k = true};
    struct gqa_problem *p = gqa_problem_new(&setup);
    gqa_problem_expect(p);
    EXPECT_NONE(problem_all_variants(&p->base), "probabilities");
    for (int64_t row = 0; row < 12; row++) {
        double sum = 0, bound = 0;
        for (int64_t j = 0; j < p->desc.scores.dim[3]; j++) {
            sum += (double)((const float *)p->args.scores)[row * p->desc.scores.dim[3] + j];
            bound += p->expected.scores.bound[row * p->desc.scores.dim[3] + j];
        }
        double want = *at ? 1 - exp(-p->expected.lse.value[row]) : 1;
        cr_expect(fabs(sum - want) <= bound, "row %d: %.9g, want %.9g within %g", (int)row, sum, want, bound);
    }
    gqa_problem_free(p);
}

static const struct gqa_features hiding[] = {{.mask = {TDM_BITS, false, true, false}},
                                             {.mask = {TDM_BOOL, true, false, true}},
                                             {.bias = {TDM_F32, false, false, false}},
                                             {.tree = true},
                                             {.sink_tokens = 3, .smooth_softmax = true}};

/* Two keys of NaN: rows that see one share out NaN, but not to the keys that are hidden from them. */
TEST_EACH(gqa_scores, probabilities_of_nan, COUNT(hiding) * COUNT(float_types))
{
    static const struct gqa_shape shape = {"NaN", 0, 2, 4, 2, 16, 16, 9, 300, 5, 0, false};
    static const int32_t q_len[] = {9, 9}, kv_len[] = {300, 14};
    for (int key = 1; key <= 2; key++) {
        struct gqa_setup setup = {.shape = &shape,
                                  .cache = f32_cache,
                                  .with = hiding[*at / COUNT(float_types)],
                                  .dtype = TDM_F32,
                                  .q_len = q_len,
                                  .kv_len = kv_len};
        setup.with.capture = TDM_CAPTURE_PROBABILITIES;
        setup.with.scores = float_types[*at % COUNT(float_types)];
        struct gqa_problem *p = gqa_problem_new(&setup);
        for (int64_t b = 0; b < 2; b++) {
            tensor_put(&p->desc.cache.k, p->args.cache.k, b, 0, kv_len[b] - 3, 7, NAN);
            tensor_put(&p->desc.cache.k, p->args.cache.k, b, 1, key, 0, NAN);
        }
        finish(p, "probabilities of NaN");
    }
}

/* Equal scores far from 0 share exactly: probabilities depend on differences of scores only. */
TEST_EACH(gqa_scores, far_probabilities, 4)
{
    static const double scores[] = {0, 100, -210560, 1e4};
    const struct gqa_features with = {.capture = TDM_CAPTURE_PROBABILITIES, .scores = TDM_F32};
    for (int32_t q_len = 1; q_len <= 60; q_len += 59) {
        struct gqa_problem *p = one_channel(&with, q_len, 1024);
        put_scores(p, flat_score);
        for (int64_t j = 0; j < 1024; j++)
            tensor_put(&p->desc.cache.k, p->args.cache.k, 0, 0, j, 0, scores[*at]);
        gqa_problem_expect(p);
        for (int64_t i = 0; i < 2 * q_len * p->desc.scores.dim[3]; i++) {
            p->expected.scores.value[i] = i % p->desc.scores.dim[3] < 1024 ? 1.0 / 1024 : 0;
            p->expected.scores.bound[i] = 0;
        }
        EXPECT_NONE(problem_all_variants(&p->base), "far probabilities");
        gqa_problem_free(p);
    }
}
