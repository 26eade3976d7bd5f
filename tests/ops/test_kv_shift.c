/* kv_shift: the cache must hold, byte for byte, what the rules of the header give, and nothing else may change. */
#include "indices.h"
#include "problem.h"
#include "tests/reference/formats.h"
#include "tests/reference/random.h"
#include "tests/reference/reference.h"
#include "tests/reference/tensor.h"
#include "types.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4, HEADS = 3, CAPACITY = 20, POSITIONS = 20 };

static const struct stored_type types[] = {
    {TDM_F32, TDM_UNSCALED, 0},     {TDM_F16, TDM_UNSCALED, 0},      {TDM_BF16, TDM_UNSCALED, 0},
    {TDM_F8E4M3, TDM_UNSCALED, 0},  {TDM_F8E4M3, TDM_PER_TENSOR, 0}, {TDM_F8E4M3, TDM_PER_CHANNEL, 0},
    {TDM_F8E4M3, TDM_PER_TOKEN, 0}, {TDM_F8E4M3, TDM_PER_GROUP, 16}, {TDM_I8, TDM_PER_TENSOR, 0},
    {TDM_I8, TDM_PER_CHANNEL, 0},   {TDM_I8, TDM_PER_TOKEN, 0},      {TDM_I8, TDM_PER_GROUP, 32},
    {TDM_I4, TDM_PER_TENSOR, 0},    {TDM_I4, TDM_PER_CHANNEL, 0},    {TDM_I4, TDM_PER_TOKEN, 0},
    {TDM_I4, TDM_PER_GROUP, 16},
};

struct shift_setup {
    int k, v; /* rows of types */
    int64_t head_dim, v_head_dim;
    int32_t sinks;
    tdm_rotary rotary;
    bool rotate, offset, interleaved;
};

struct shift_problem {
    struct problem base;
    tdm_kv_shift_desc desc;
    tdm_kv_shift_args args, wanted; /* wanted.cache: memory of what the cache must hold */
    struct guard cos, sin, offset;
    void *want[4];
};

/* A full cache, an empty one, one that drops all it may, one that drops nothing. */
static const int32_t len[BATCH] = {20, 0, 13, 9}, drop[BATCH] = {5, 0, 9, 0};

static tdm_tensor half_of(int type, bool interleaved, int64_t channels)
{
    tdm_tensor half = tensor_in_layout(types[type].dtype, interleaved, BATCH, HEADS, CAPACITY, channels);
    half.scaling = types[type].scaling;
    half.block[0] = types[type].group ? 1 : 0;
    half.block[1] = types[type].group;
    return half;
}

/* Scales are outputs too: those that the op may not write must be as they were. */
static void fill_half(struct shift_problem *p, const tdm_tensor *half, void **data, float **scale,
                      struct random *random)
{
    int64_t n = tensor_scales(half);
    *data = problem_output(&p->base, tensor_bytes(half));
    random_fill(half, *data, 3, random);
    *scale = problem_output(&p->base, n * (int64_t)sizeof(float));
    random_scales(*scale, n, 3.0 / (half->dtype == TDM_I8 ? 127 : half->dtype == TDM_I4 ? 7 : 448), random);
}

static void fill_tables(struct shift_problem *p, const tdm_rotary *rotary)
{
    int64_t pairs = rotary->dim / 2, n = POSITIONS * pairs;
    p->cos = guard_new((size_t)format_bytes(rotary->dtype, n), 0);
    p->sin = guard_new((size_t)format_bytes(rotary->dtype, n), 0);
    for (int64_t i = 0; i < n; i++) {
        double angle = (double)(i / pairs) * pow(100, -(double)(i % pairs) / (double)pairs);
        format_encode(rotary->dtype, p->cos.data, i, cos(angle));
        format_encode(rotary->dtype, p->sin.data, i, sin(angle));
    }
    guard_read_only(&p->cos);
    guard_read_only(&p->sin);
    p->args.cos = p->cos.data;
    p->args.sin = p->sin.data;
}

static const char *check(const struct problem *base)
{
    const struct shift_problem *p = (const struct shift_problem *)base;
    const tdm_tensor *k = &p->desc.cache.k, *v = &p->desc.cache.v;
    const tdm_kv_data *got = &p->args.cache, *want = &p->wanted.cache;
    tdm_tensor k_scales = tensor2(TDM_F32, 1, tensor_scales(k)), v_scales = tensor2(TDM_F32, 1, tensor_scales(v));
    const char *bad = compare_memory(k, got->k, want->k);
    if (!bad)
        bad = compare_memory(v, got->v, want->v);
    if (!bad && got->k_scale)
        bad = compare_memory(&k_scales, got->k_scale, want->k_scale);
    if (!bad && got->v_scale)
        bad = compare_memory(&v_scales, got->v_scale, want->v_scale);
    return bad;
}

static struct shift_problem *shift_new(const struct shift_setup *setup)
{
    struct shift_problem *p = calloc(1, sizeof *p);
    struct random random = {(uint64_t)(setup->k * 16 + setup->v)};
    p->desc = TDM_INIT(tdm_kv_shift_desc);
    p->desc.cache.k = half_of(setup->k, setup->interleaved, setup->head_dim);
    p->desc.cache.v = half_of(setup->v, setup->interleaved, setup->v_head_dim);
    p->desc.cache.rotate_k = p->desc.cache.rotate_v = setup->rotate;
    p->desc.cache.has_k_offset = setup->offset;
    p->desc.rotary = setup->rotary;
    p->desc.sinks = setup->sinks;
    p->base = (struct problem){.op = SHIFT, .desc = &p->desc, .args = &p->args, .check = check};
    p->args = (tdm_kv_shift_args){.struct_size = sizeof p->args, .len = len, .drop = drop};
    fill_half(p, &p->desc.cache.k, &p->args.cache.k, &p->args.cache.k_scale, &random);
    fill_half(p, &p->desc.cache.v, &p->args.cache.v, &p->args.cache.v_scale, &random);
    if (setup->rotary.dtype)
        fill_tables(p, &setup->rotary);
    if (setup->offset) {
        tdm_tensor offset = tensor2(TDM_F32, HEADS, setup->head_dim);
        p->offset = guard_new((size_t)tensor_bytes(&offset), 0);
        random_fill(&offset, p->offset.data, 1, &random);
        p->args.cache.k_offset = p->offset.data;
    }
    return p;
}

/* What the cache holds now is what is shifted. */
static void shift_expect(struct shift_problem *p)
{
    tdm_kv_data *cache = &p->wanted.cache;
    void **copies[4] = {&cache->k, &cache->v};
    int outputs = 0;
    p->wanted = p->args;
    copies[outputs++] = &cache->k;
    if (cache->k_scale)
        copies[outputs++] = (void **)&cache->k_scale;
    copies[outputs++] = &cache->v;
    if (cache->v_scale)
        copies[outputs++] = (void **)&cache->v_scale;
    problem_keep(&p->base);
    for (int i = 0; i < outputs; i++) {
        size_t bytes = p->base.output[i].memory.bytes;
        *copies[i] = p->want[i] = memcpy(malloc(bytes), p->base.output[i].initial, bytes);
    }
    reference_kv_shift(&p->desc, &p->wanted);
}

static void shift_free(struct shift_problem *p)
{
    struct guard *inputs[] = {&p->cos, &p->sin, &p->offset};
    for (int i = 0; i < 3; i++)
        if (inputs[i]->map)
            guard_free(inputs[i]);
    for (int i = 0; i < 4; i++)
        free(p->want[i]);
    problem_free_outputs(&p->base);
    free(p);
}

static void finish(struct shift_problem *p)
{
    char label[160];
    const tdm_tensor *k = &p->desc.cache.k, *v = &p->desc.cache.v;
    snprintf(label, sizeof label, "%s %s / %s %s, %d and %d channels, %d sinks, rotary of %d%s%s%s",
             format_name(k->dtype), scaling_text(k->scaling), format_name(v->dtype), scaling_text(v->scaling),
             (int)k->dim[3], (int)v->dim[3], p->desc.sinks, p->desc.rotary.dim,
             p->desc.rotary.interleaved ? " interleaved" : "", p->desc.cache.rotate_k ? ", rotated" : "",
             p->desc.cache.has_k_offset ? ", offset" : "");
    shift_expect(p);
    EXPECT_NONE(problem_all_variants(&p->base), label);
    shift_free(p);
}

/* ---- types, shapes and steps ---------------------------------------------------------------------- */

static const struct {
    int64_t head_dim, v_head_dim;
    int32_t rotary_dim; /* 0: none */
} dims[] = {{64, 40, 64}, {40, 33, 24}, {96, 64, 2}, {37, 7, 36}, {64, 1, 0}, {1024, 513, 1024}};

TEST_EACH(kv_shift, types, COUNT(types) * COUNT(dims))
{
    static const int32_t sinks[] = {0, 4, 1, 3};
    for (int i = 0; i < 8; i++) { /* offset, rotation and the order of pairs, each with each */
        int index = *at + i;
        tdm_rotary rotary = {float_types[index % 3], dims[*at % COUNT(dims)].rotary_dim, POSITIONS, i >> 2 & 1};
        if (!rotary.dim)
            rotary = (tdm_rotary){0};
        struct shift_setup setup = {.k = *at / COUNT(dims),
                                    .v = (*at + i * 3) % COUNT(types),
                                    .head_dim = dims[*at % COUNT(dims)].head_dim,
                                    .v_head_dim = dims[*at % COUNT(dims)].v_head_dim,
                                    .sinks = sinks[index % 4],
                                    .rotary = rotary,
                                    .rotate = i & 1,
                                    .offset = i >> 1 & 1,
                                    .interleaved = index % 2};
        finish(shift_new(&setup));
    }
}

/* ---- values --------------------------------------------------------------------------------------- */

static struct shift_setup plain(int k)
{
    return (struct shift_setup){
        .k = k, .v = k, .head_dim = 48, .v_head_dim = 20, .sinks = 2, .rotary = {TDM_F32, 32, POSITIONS, 0}};
}

/* A NaN among the keys or their scales stays in its row: scaled by token or group, the row or group becomes NaN. */
TEST_EACH(kv_shift, not_finite, COUNT(types) * 2)
{
    static const float odd[] = {NAN, INFINITY, 0, -1e38F};
    struct shift_setup setup = plain(*at / 2);
    setup.rotate = *at % 2;
    struct shift_problem *p = shift_new(&setup);
    const tdm_tensor *k = &p->desc.cache.k;
    if (!is_quantized(k->dtype))
        for (int i = 0; i < 4; i++)
            format_encode(k->dtype, tensor_row(k, p->args.cache.k, 0, 1, 8 + 2 * i), 7 * i, (double)odd[i]);
    for (int64_t i = 0; i < 4 && i < tensor_scales(k); i++)
        p->args.cache.k_scale[tensor_scales(k) / (i + 2)] = odd[i];
    finish(p);
}

/* What a row holds beyond a sequence's length is not looked at. */
TEST_EACH(kv_shift, unused_rows, COUNT(types))
{
    struct shift_setup setup = plain(*at);
    struct shift_problem *p = shift_new(&setup);
    tdm_tensor *halves[] = {&p->desc.cache.k, &p->desc.cache.v};
    void *data[] = {p->args.cache.k, p->args.cache.v};
    for (int i = 0; i < 2; i++)
        for (int b = 0; b < BATCH; b++)
            for (int h = 0; h < HEADS; h++)
                for (int r = len[b]; r < CAPACITY; r++)
                    memset(tensor_row(halves[i], data[i], b, h, r), 0xFF,
                           (size_t)format_bytes(halves[i]->dtype, halves[i]->dim[3]));
    finish(p);
}

/* ---- meaning ---------------------------------------------------------------------------------------- */

/* Append n random rows from position `first` on, turned to first - by. */
static void append(tdm_ctx *ctx, tdm_tensor half, float *k, float *v, const struct shift_problem *p, int32_t first,
                   int32_t n, int32_t by)
{
    static float rows[HEADS * CAPACITY * 32];
    static int32_t positions[CAPACITY];
    struct random random = {7};
    tdm_kv_append_desc desc = TDM_INIT(tdm_kv_append_desc);
    desc.k = desc.v = tensor4(TDM_F32, 1, HEADS, CAPACITY, 32);
    desc.cache.k = desc.cache.v = half;
    desc.rotary = p->desc.rotary;
    random_fill(&desc.k, rows, 2, &random);
    for (int i = 0; i < n; i++)
        positions[i] = first + i - by;
    int32_t pos = first - by;
    desc.k.dim[2] = desc.v.dim[2] = n;
    desc.k.stride[1] = desc.v.stride[1] = (int64_t)CAPACITY * 32 * (int64_t)sizeof(float);
    tdm_kv_append_args args = {.struct_size = sizeof args,
                               .k = rows + first * 32,
                               .v = rows + first * 32,
                               .cache = {.k = k, .v = v},
                               .new_len = &n,
                               .pos = &pos,
                               .cos = p->args.cos,
                               .sin = p->args.sin,
                               .positions = positions};
    struct problem one = {.op = APPEND, .desc = &desc, .args = &args};
    cr_assert(!problem_run(&one, ctx), "%s", tdm_last_error());
}

/* Shifting a cache gives what appending the kept tokens at their new positions gives. A turn adds to each number at
 * most 3 u of the pair's magnitudes (its tables, products and sum), here at most 2 + 2; a later turn grows a pair's
 * magnitudes, and errors in it, by at most sqrt(2). Two turns against one make 3 u (1 + 2 sqrt(2)) < 12 u of them. */
Test(kv_shift, equals_appending_at_the_new_positions)
{
    enum { SINKS = 3, DROP = 6 };
    static float k[HEADS * CAPACITY * 32], v[HEADS * CAPACITY * 32], new_k[HEADS * CAPACITY * 32],
        new_v[HEADS * CAPACITY * 32];
    struct shift_setup setup = {
        .head_dim = 32, .v_head_dim = 32, .sinks = SINKS, .rotary = {TDM_F32, 32, POSITIONS, 0}};
    struct shift_problem *p = shift_new(&setup);
    tdm_tensor half = tensor4(TDM_F32, 1, HEADS, CAPACITY, 32);
    tdm_options options = TDM_INIT(tdm_options);
    tdm_ctx *ctx;
    options.env = (const char *const[]){NULL};
    cr_assert(!tdm_open(TDM_VERSION, &options, &ctx), "%s", tdm_last_error());
    append(ctx, half, k, v, p, 0, CAPACITY, 0);
    append(ctx, half, new_k, new_v, p, 0, SINKS, 0);
    append(ctx, half, new_k, new_v, p, SINKS + DROP, CAPACITY - SINKS - DROP, DROP);

    p->desc.cache.k = p->desc.cache.v = half;
    int32_t all = CAPACITY, some = DROP;
    tdm_kv_shift_args args = {.struct_size = sizeof args,
                              .cache = {.k = k, .v = v},
                              .len = &all,
                              .drop = &some,
                              .cos = p->args.cos,
                              .sin = p->args.sin};
    struct problem one = {.op = SHIFT, .desc = &p->desc, .args = &args};
    cr_assert(!problem_run(&one, ctx), "%s", tdm_last_error());
    for (int i = 0; i < HEADS * CAPACITY * 32; i++) {
        if (i / 32 % CAPACITY >= CAPACITY - DROP)
            continue;
        cr_expect(fabs((double)k[i] - new_k[i]) <= 12 * 0x1p-24 * 4, "row %d, channel %d: %g, not %g",
                  i / 32 % CAPACITY, i % 32, (double)k[i], (double)new_k[i]);
        cr_expect_eq(v[i], new_v[i]);
    }
    tdm_close(ctx);
    shift_free(p);
}
