/* The approximate row int8_decode: by its own contract exactly, by plain attention nearly, and never unasked. */
#include "indices.h"
#include "int8_problem.h"
#include "tests/reference/formats.h"
#include "tests/reference/tensor.h"
#include "types.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tdm_scaling scalings[] = {TDM_PER_TENSOR, TDM_PER_CHANNEL, TDM_PER_TOKEN};
enum { SCALINGS = COUNT(scalings), MOST_QUERIES = 8 };

static struct cache_type i8_cache(int index)
{
    return (struct cache_type){
        .k = TDM_I8, .k_scaling = scalings[index % SCALINGS], .v = TDM_I8, .v_scaling = scalings[index / SCALINGS % 3]};
}

/* ---- the contract ------------------------------------------------------------------------- */

static void finish(struct gqa_problem *p, const char *label)
{
    EXPECT_NONE(problem_all_variants(&p->base), label);
    gqa_problem_free(p);
}

static void check_contract(struct gqa_setup setup, int index)
{
    setup.cache = i8_cache(index);
    setup.dtype = float_types[index % COUNT(float_types)];
    setup.interleaved = index % 2;
    setup.seed = (uint64_t)index;
    struct gqa_problem *p = int8_problem_new(&setup);
    int8_problem_expect(p);
    finish(p, gqa_problem_label(&setup));
}

TEST_EACH(int8_decode, table, gqa_shape_count)
{
    const struct gqa_shape *shape = &gqa_shapes[*at];
    for (int i = 0; i < 3 && shape->suites & SUITE_TESTS && shape->q_len <= MOST_QUERIES; i++)
        check_contract((struct gqa_setup){.shape = shape}, *at + 4 * i);
}

TEST_EACH(int8_decode, scalings, SCALINGS *SCALINGS *COUNT(float_types))
{
    static const struct gqa_shape shape = {"speculative", 0, 2, 6, 2, 41, 35, 5, 70, -1, 0, true};
    check_contract((struct gqa_setup){.shape = &shape}, *at);
}

static const int32_t head_dims[][2] = {{1, 1},     {2, 5},     {3, 3},     {7, 9},     {8, 8},       {15, 17},
                                       {16, 16},   {17, 15},   {31, 33},   {32, 32},   {33, 31},     {40, 72},
                                       {47, 47},   {48, 48},   {63, 64},   {64, 65},   {65, 63},     {80, 80},
                                       {96, 96},   {100, 100}, {127, 129}, {128, 128}, {192, 128},   {255, 256},
                                       {257, 257}, {576, 512}, {1000, 3},  {3, 1000},  {1023, 1023}, {1024, 1024}};

TEST_EACH(int8_decode, head_dims, COUNT(head_dims))
{
    struct gqa_shape shape = {"head dims", 0, 2, 4, 2, head_dims[*at][0], head_dims[*at][1], 1, 67, -1, 0, false};
    check_contract((struct gqa_setup){.shape = &shape}, *at);
    shape.q_len = 3;
    check_contract((struct gqa_setup){.shape = &shape}, *at + 5);
}

/* Around blocks of 128 keys and parts of 512, and groups around the leaves' rows and the rows of a tile. */
static const int32_t key_counts[] = {1, 2, 15, 16, 127, 128, 129, 511, 512, 513, 1023, 1024, 1025, 2049, 4000};

TEST_EACH(int8_decode, keys, COUNT(key_counts))
{
    struct gqa_shape shape = {"keys", 0, 1, 4, 2, 40, 40, 1, key_counts[*at], -1, 0, false};
    for (int i = 0; i < SCALINGS; i++)
        check_contract((struct gqa_setup){.shape = &shape}, *at + SCALINGS * i);
}

static const int32_t groups[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 71};

TEST_EACH(int8_decode, groups, COUNT(groups))
{
    struct gqa_shape shape = {"group", 0, 1, groups[*at] * 2, 2, 48, 48, 1, 141, -1, 0, false};
    check_contract((struct gqa_setup){.shape = &shape}, *at + 6);
    shape.q_len = 8;
    check_contract((struct gqa_setup){.shape = &shape}, *at);
}

/* What stands between the dots and the softmax, and which keys are seen. */
static const struct {
    struct gqa_features with;
    int32_t window_left, window_right;
} features[] = {
    {{.sink_tokens = 4}, 30, 0},
    {{.ring = true, .sink_tokens = 3}, 200, 0},
    {{.ring = true}, 700, 0},
    {{.smooth_softmax = true}, -1, 0},
    {{.head_sink = true}, -1, -1},
    {{.softcap = 3}, -1, 0},
    {{.bias = {.dtype = TDM_F32}, .alibi = true}, -1, 0},
    {{.mask = {.dtype = TDM_BOOL}}, -1, -1},
    {{.mask = {.dtype = TDM_BITS}, .softcap = 20, .head_sink = true}, 150, 0},
    {{.tree = true}, -1, 0},
    {{.capture = TDM_CAPTURE_SCORES, .scores = TDM_F32}, 300, 0},
    {{.capture = TDM_CAPTURE_PROBABILITIES, .scores = TDM_F16}, -1, 0},
};

TEST_EACH(int8_decode, features, COUNT(features))
{
    struct gqa_shape shape = {
        "features", 0, 3, 6, 2, 40, 24, 6, 1300, features[*at].window_left, features[*at].window_right, true};
    for (int i = 0; i < SCALINGS; i++)
        check_contract((struct gqa_setup){.shape = &shape, .with = features[*at].with}, *at + SCALINGS * i);
}

/* ---- values that are no numbers ------------------------------------------------------------- */

/* A query that is not finite makes its own row NaN; a zero one averages; a scale that is NaN is its key's own. */
TEST_EACH(int8_decode, not_numbers, SCALINGS *SCALINGS)
{
    static const struct gqa_shape shape = {"not numbers", 0, 1, 4, 2, 33, 33, 3, 140, -1, 0, false};
    struct gqa_setup setup = {.shape = &shape, .cache = i8_cache(*at), .dtype = TDM_F32};
    struct gqa_problem *p = int8_problem_new(&setup);
    float *q = tensor_row(&p->desc.q, p->args.q, 0, 1, 0);
    q[7] = NAN;
    q = tensor_row(&p->desc.q, p->args.q, 0, 2, 1);
    q[0] = -INFINITY;
    memset(tensor_row(&p->desc.q, p->args.q, 0, 3, 2), 0, 33 * sizeof(float));
    if (p->desc.cache.k.scaling == TDM_PER_TOKEN) /* the last key of head 1, which only the last query sees */
        p->args.cache.k_scale[p->desc.cache.k.dim[2] + 139] = NAN;
    if (p->desc.cache.v.scaling == TDM_PER_TOKEN)
        p->args.cache.v_scale[139] = NAN;
    int8_problem_expect(p);
    finish(p, gqa_problem_label(&setup));
}

/* ---- equal scores ---------------------------------------------------------------------------- */

#define EQUAL_SCALE 0.0401F /* times its reciprocal it is not 1 */

static float *scale_at(const tdm_tensor *half, float *scale, int64_t h, int64_t r, int64_t c)
{
    int64_t per_head = half->scaling == TDM_PER_TOKEN ? half->dim[2] : half->dim[3];
    return half->scaling == TDM_PER_TENSOR ? scale : scale + h * per_head + (half->scaling == TDM_PER_TOKEN ? r : c);
}

/* Keys all alike, and values under one scale, save that keys before the first one seen have larger scales. */
static void make_alike(struct gqa_problem *p, int64_t first_seen)
{
    const tdm_tensor *k = &p->desc.cache.k, *v = &p->desc.cache.v;
    for (int64_t h = 0; h < k->dim[1]; h++)
        for (int64_t r = 0; r < p->kv_len[0]; r++) {
            memcpy(tensor_row(k, p->args.cache.k, 0, h, r), tensor_row(k, p->args.cache.k, 0, h, 0), (size_t)k->dim[3]);
            if (k->scaling == TDM_PER_TOKEN)
                *scale_at(k, p->args.cache.k_scale, h, r, 0) = 0.0123F;
            if (v->scaling == TDM_PER_TOKEN)
                *scale_at(v, p->args.cache.v_scale, h, r, 0) = r < first_seen ? 0.9F : EQUAL_SCALE;
        }
}

/* The integers' sum, divided once by their number and scaled once, in f32. */
static void expect_averages(struct gqa_problem *p, int64_t first)
{
    const tdm_tensor *out = &p->desc.out, *v = &p->desc.cache.v;
    int64_t n = p->kv_len[0] - first, group = out->dim[1] / v->dim[1];
    p->expected.out = expected_new(tensor_elements(out));
    for (int64_t i = 0; i < tensor_elements(out); i++) {
        int64_t c = i % out->dim[3], h = i / out->dim[3] / group;
        int64_t sum = 0;
        for (int64_t r = first; r < p->kv_len[0]; r++)
            sum += (int64_t)format_decode(TDM_I8, tensor_row(v, p->args.cache.v, 0, h, r), c);
        float average = (float)sum / (float)n;
        p->expected.out.value[i] = average * *scale_at(v, p->args.cache.v_scale, h, first, c);
    }
}

static const int32_t equal_counts[] = {1, 3, 7, 16, 100, 128, 129, 511, 700, 1500, 4001};

enum hiding { NOTHING, WINDOW, MASK, HIDINGS };

/* All keys, the newer half by a window, or the newer half by a mask. */
static void check_equal_scores(int32_t keys, enum hiding hiding, int index)
{
    int32_t first = hiding == NOTHING ? 0 : keys / 2, window = hiding == WINDOW ? keys - 1 - first : -1;
    struct gqa_shape shape = {"equal scores", 0, 1, 4, 2, 50, 37, 1, keys, window, 0, false};
    struct gqa_setup setup = {.shape = &shape, .cache = i8_cache(index), .dtype = TDM_F32, .with = {.no_lse = true}};
    setup.with.mask = (struct plane_type){hiding == MASK ? TDM_BOOL : 0, true, true, true};
    struct gqa_problem *p = int8_problem_new(&setup);
    make_alike(p, first);
    if (hiding == MASK)
        for (int32_t j = 0; j < keys; j++)
            ((char *)(uintptr_t)p->args.mask)[j] = j >= first;
    expect_averages(p, first);
    finish(p, gqa_problem_label(&setup));
}

TEST_EACH(int8_decode, equal_scores, COUNT(equal_counts) * HIDINGS)
{
    for (int i = 0; i < SCALINGS * SCALINGS; i++)
        check_equal_scores(equal_counts[*at / HIDINGS], (enum hiding)(*at % HIDINGS), i);
}

/* ---- beside plain attention ------------------------------------------------------------------ */

/* The root mean square of the error is within 8e-3 of that of f32 attention on what the cache holds. */
static const char *near_check(const struct problem *base)
{
    static char text[120];
    const struct gqa_problem *p = (const struct gqa_problem *)base;
    double *out = tensor_read(&p->desc.out, p->args.out), error = 0, size = 0;
    for (int64_t i = 0; i < tensor_elements(&p->desc.out); i++) {
        error += pow(out[i] - p->expected.out.value[i], 2);
        size += pow(p->expected.out.value[i], 2);
    }
    free(out);
    snprintf(text, sizeof text, "off by %.2g of the results", sqrt(error / size));
    return sqrt(error / size) <= 8e-3 ? NULL : text;
}

static const struct gqa_features prepared[] = {
    {.rotate_k = false},
    {.rotate_k = true, .rotate_v = true},
    {.offset = true},
    {.rotate_k = true, .offset = true, .softcap = 30},
    {.rotary = {.dtype = TDM_F32, .dim = 64}, .q_norm = TDM_F32},
    {.rotary = {.dtype = TDM_F16, .dim = 32, .interleaved = 1}, .positions = true, .rotate_v = true},
};

TEST_EACH(int8_decode, near_plain_attention, COUNT(prepared) * 3)
{
    static const struct gqa_shape shapes[] = {{"decode", 0, 2, 8, 2, 64, 64, 1, 1000, -1, 0, false},
                                              {"speculative", 0, 2, 4, 2, 96, 80, 8, 333, -1, 0, false},
                                              {"window", 0, 1, 8, 1, 128, 128, 2, 2000, 600, 0, false}};
    struct gqa_setup setup = {
        .shape = &shapes[*at % 3], .cache = i8_cache(*at), .with = prepared[*at / 3], .dtype = TDM_F32, .magnitude = 1};
    struct gqa_problem *p = int8_problem_new(&setup);
    gqa_problem_expect(p);
    p->base.check = near_check;
    finish(p, gqa_problem_label(&setup));
}

/* ---- opting in --------------------------------------------------------------------------------- */

static void find_row(tdm_op *op, int64_t q_len, tdm_kernel *row)
{
    tdm_kernel rows[64];
    tdm_lengths lengths = TDM_INIT(tdm_lengths);
    lengths.q_len = q_len;
    lengths.kv_len = 10;
    int32_t count = 0;
    for (int i = 0; i < COUNT(rows); i++)
        rows[i] = TDM_INIT(tdm_kernel);
    cr_assert(!tdm_explain(op, &lengths, rows, COUNT(rows), &count), "%s", tdm_last_error());
    for (int i = 0; i < count; i++)
        if (!strcmp(rows[i].name, "int8_decode"))
            *row = rows[i];
}

/* Explain a gqa of this cache in a context with this variable. */
static tdm_kernel explained(const char *variable, struct cache_type cache, int64_t q_len)
{
    static const struct gqa_shape shape = {"opt in", 0, 1, 4, 2, 32, 32, 16, 40, -1, 0, false};
    struct gqa_setup setup = {.shape = &shape, .cache = cache, .k_group = 16, .dtype = TDM_F32};
    struct gqa_problem *p = gqa_problem_new(&setup);
    tdm_options options = TDM_INIT(tdm_options);
    options.env = (const char *const[]){variable, NULL};
    options.threads = 1;
    tdm_ctx *ctx;
    tdm_op *op;
    tdm_kernel row = TDM_INIT(tdm_kernel);
    cr_assert(!tdm_open(TDM_VERSION, &options, &ctx), "%s", tdm_last_error());
    cr_assert(!tdm_gqa_create(ctx, (tdm_device){TDM_CPU, 0}, &p->desc, &op), "%s", tdm_last_error());
    find_row(op, q_len, &row);
    tdm_op_destroy(op);
    tdm_close(ctx);
    gqa_problem_free(p);
    return row;
}

static void expect_reason(tdm_kernel row, const char *reason)
{
    cr_expect(row.approximate && !row.usable && strstr(row.reason, reason), "usable %d, '%s', not '%s'", row.usable,
              row.reason, reason);
}

Test(int8_decode, only_when_asked_for)
{
    const char *allow = "TANDEM_ALLOW=int8_decode";
    struct cache_type cache = i8_cache(8), mixed = cache, grouped = cache;
    mixed.v = TDM_F16, mixed.v_scaling = TDM_UNSCALED;
    grouped.k_scaling = TDM_PER_GROUP;
    expect_reason(explained(NULL, cache, 1), "TANDEM_ALLOW");
    tdm_kernel row = explained(allow, cache, 1);
    cr_expect(row.usable && !*row.reason, "%s", row.reason);
    cr_expect(explained(allow, cache, MOST_QUERIES).usable);
    expect_reason(explained(allow, cache, MOST_QUERIES + 1), "q_len: got 9, want at most 8");
    expect_reason(explained(allow, mixed, 1), "cache.v: got another dtype");
    expect_reason(explained(allow, grouped, 1), "cache.k: got groups");
}
