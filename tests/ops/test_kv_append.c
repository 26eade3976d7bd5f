/* kv_append: the cache must hold, byte for byte, what the rules of the header give, and nothing else may change. */
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

enum { BATCH = 4, HEADS = 3, MAX_NEW = 9, CAPACITY = 20 };

struct append_setup {
    tdm_dtype dtype;
    int k, v; /* rows of `stored` */
    int64_t head_dim, v_head_dim;
    bool interleaved;
    uint64_t seed;
};

struct append_problem {
    struct problem base;
    tdm_kv_append_desc desc;
    tdm_kv_append_args args, wanted; /* wanted.cache: memory of what the cache must hold */
    struct guard k, v, scale[2];
    void *want[4];
};

/* Rows that touch both ends of the capacity, one sequence that gets nothing, one that fills up. */
static const int32_t new_len[BATCH] = {9, 0, 3, 1}, pos[BATCH] = {0, 20, 17, 5};

/* The scales of one half of the cache: an output when the op writes them, else an input. */
static float *scales_of(struct append_problem *p, const tdm_tensor *tensor, int half, struct random *random)
{
    int64_t n = tensor_scales(tensor);
    if (tensor->scaling == TDM_PER_TOKEN)
        return problem_output(&p->base, n * (int64_t)sizeof(float));
    p->scale[half] = guard_new((size_t)n * sizeof(float), 0);
    random_scales(p->scale[half].data, n, tensor->dtype == TDM_I8 ? 0.02 : 0.35, random);
    return n ? p->scale[half].data : NULL;
}

static const char *check(const struct problem *base)
{
    const struct append_problem *p = (const struct append_problem *)base;
    const char *bad = compare_memory(&p->desc.cache.k, p->args.cache.k, p->wanted.cache.k);
    if (!bad)
        bad = compare_memory(&p->desc.cache.v, p->args.cache.v, p->wanted.cache.v);
    const tdm_tensor *halves[] = {&p->desc.cache.k, &p->desc.cache.v};
    const float *got[] = {p->args.cache.k_scale, p->args.cache.v_scale};
    const float *want[] = {p->wanted.cache.k_scale, p->wanted.cache.v_scale};
    for (int i = 0; i < 2 && !bad; i++) {
        tdm_tensor scales = tensor2(TDM_F32, 1, tensor_scales(halves[i]));
        bad = halves[i]->scaling == TDM_PER_TOKEN ? compare_memory(&scales, got[i], want[i]) : NULL;
    }
    return bad;
}

static struct append_problem *append_new(const struct append_setup *setup)
{
    struct append_problem *p = calloc(1, sizeof *p);
    struct random random = {setup->seed + 1};
    p->desc = TDM_INIT(tdm_kv_append_desc);
    p->desc.k = tensor_in_layout(setup->dtype, setup->interleaved, BATCH, HEADS, MAX_NEW, setup->head_dim);
    p->desc.v = tensor_in_layout(setup->dtype, setup->interleaved, BATCH, HEADS, MAX_NEW, setup->v_head_dim);
    p->desc.cache.k =
        tensor_in_layout(stored_types[setup->k].dtype, setup->interleaved, BATCH, HEADS, CAPACITY, setup->head_dim);
    p->desc.cache.v =
        tensor_in_layout(stored_types[setup->v].dtype, setup->interleaved, BATCH, HEADS, CAPACITY, setup->v_head_dim);
    p->desc.cache.k.scaling = stored_types[setup->k].scaling;
    p->desc.cache.v.scaling = stored_types[setup->v].scaling;
    p->k = guard_new((size_t)tensor_bytes(&p->desc.k), 0xFF);
    p->v = guard_new((size_t)tensor_bytes(&p->desc.v), 0xFF);
    random_fill(&p->desc.k, p->k.data, 3, &random);
    random_fill(&p->desc.v, p->v.data, 3, &random);
    p->base = (struct problem){.op = APPEND, .desc = &p->desc, .args = &p->args, .check = check};
    p->args = (tdm_kv_append_args){.struct_size = sizeof p->args, .k = p->k.data, .v = p->v.data};
    p->args.new_len = new_len;
    p->args.pos = pos;
    p->args.cache.k = problem_output(&p->base, tensor_bytes(&p->desc.cache.k));
    p->args.cache.v = problem_output(&p->base, tensor_bytes(&p->desc.cache.v));
    p->args.cache.k_scale = scales_of(p, &p->desc.cache.k, 0, &random);
    p->args.cache.v_scale = scales_of(p, &p->desc.cache.v, 1, &random);
    return p;
}

static void append_expect(struct append_problem *p)
{
    p->wanted = p->args;
    void **copies[] = {&p->wanted.cache.k, &p->wanted.cache.v, NULL, NULL};
    int outputs = 2;
    if (p->desc.cache.k.scaling == TDM_PER_TOKEN)
        copies[outputs++] = (void **)&p->wanted.cache.k_scale;
    if (p->desc.cache.v.scaling == TDM_PER_TOKEN)
        copies[outputs++] = (void **)&p->wanted.cache.v_scale;
    for (int i = 0; i < outputs; i++) {
        size_t bytes = p->base.output[i].memory.bytes;
        *copies[i] = p->want[i] = memcpy(malloc(bytes), p->base.output[i].initial, bytes);
    }
    reference_kv_append(&p->desc, &p->wanted);
    const struct guard *inputs[] = {&p->k, &p->v, &p->scale[0], &p->scale[1]};
    for (int i = 0; i < 4; i++)
        if (inputs[i]->map)
            guard_read_only(inputs[i]);
}

static void append_free(struct append_problem *p)
{
    struct guard *inputs[] = {&p->k, &p->v, &p->scale[0], &p->scale[1]};
    for (int i = 0; i < 4; i++)
        if (inputs[i]->map)
            guard_free(inputs[i]);
    for (int i = 0; i < 4; i++)
        free(p->want[i]);
    problem_free_outputs(&p->base);
    free(p);
}

static const char *label(const struct append_problem *p)
{
    static char text[160];
    const tdm_tensor *k = &p->desc.cache.k, *v = &p->desc.cache.v;
    snprintf(text, sizeof text, "%s to %s %s / %s %s, %d and %d channels", format_name(p->desc.k.dtype),
             format_name(k->dtype), scaling_text(k->scaling), format_name(v->dtype), scaling_text(v->scaling),
             (int)k->dim[3], (int)v->dim[3]);
    return text;
}

static void finish(struct append_problem *p)
{
    append_expect(p);
    EXPECT_NONE(problem_all_variants(&p->base), label(p));
    append_free(p);
}

/* ---- types and shapes -------------------------------------------------------------------- */

TEST_EACH(kv_append, types, COUNT(stored_types) * COUNT(float_types))
{
    static const int64_t dims[][2] = {{64, 40}, {37, 33}, {1, 1}, {7, 15}, {9, 2}, {1023, 513}};
    for (int i = 0; i < COUNT(dims); i++) {
        struct append_setup setup = {.dtype = float_types[*at % COUNT(float_types)],
                                     .k = *at / COUNT(float_types),
                                     .v = (*at / COUNT(float_types) + i + 1) % COUNT(stored_types),
                                     .head_dim = dims[i][0],
                                     .v_head_dim = dims[i][1],
                                     .interleaved = i % 2,
                                     .seed = (uint64_t)(*at * 16 + i)};
        finish(append_new(&setup));
    }
}

/* ---- values -------------------------------------------------------------------------------- */

static const double odd_values[] = {
    0,        -0.0,      0.5,        1.5,        2.5,        -0.5,    -1.5,      -2.5,     126.5, 127.5,
    -127.5,   -128.5,    6.5,        7.5,        -7.5,       -8.5,    1e5,       -1e5,     65504, 65520,
    3.3e38,   -3.3e38,   1e-8,       -1e-8,      0x1p-24,    0x1p-25, 1e-40,     -1e-45,   NAN,   -NAN,
    INFINITY, -INFINITY, 0x1.ffcp15, 0x1.ffdp15, 0x1.ffep15, 0x1p-14, 0x1.008p0, 0x1.018p0};

/* Row i of sequence 0 holds the odd values from i on, all others stay random. */
static void put_odd_values(struct append_problem *p)
{
    for (int h = 0; h < HEADS; h++)
        for (int r = 0; r < MAX_NEW; r++)
            for (int64_t c = 0; c < p->desc.k.dim[3]; c++) {
                double x = odd_values[(r * 5 + c + h * 11) % COUNT(odd_values)];
                format_encode(p->desc.k.dtype, tensor_row(&p->desc.k, p->args.k, 0, h, r), c, x);
            }
}

/* Scales of 1, so that ties are ties; of 0, of both signs, NaN, infinite and too small to divide by. */
static const float odd_scales[] = {1, 0, -1, 0.5F, NAN, INFINITY, 1e-44F, 3e38F, 2};

TEST_EACH(kv_append, odd_values, COUNT(stored_types) * COUNT(float_types))
{
    struct append_setup setup = {
        .dtype = float_types[*at % COUNT(float_types)], .k = *at / COUNT(float_types), .head_dim = 77, .v_head_dim = 8};
    for (int s = 0; s < COUNT(odd_scales); s++) {
        struct append_problem *p = append_new(&setup);
        put_odd_values(p);
        for (int64_t i = 0; p->scale[0].bytes && i < tensor_scales(&p->desc.cache.k); i++)
            p->args.cache.k_scale[i] = odd_scales[(i + s) % COUNT(odd_scales)];
        finish(p);
    }
}

/* A row of zeros gets scale 0 and reads as 0, beside rows that do not. */
TEST_EACH(kv_append, zero_and_tiny_rows, COUNT(stored_types))
{
    struct append_setup setup = {.dtype = TDM_F32, .k = *at, .head_dim = 33, .v_head_dim = 8};
    struct append_problem *p = append_new(&setup);
    static const double sizes[] = {0, 1e-30, 1e-37, 1e-39, 1e-45, 3e38, 0, 1e-36, 1};
    for (int r = 0; r < MAX_NEW; r++)
        for (int64_t c = 0; c < 33; c++)
            format_encode(TDM_F32, tensor_row(&p->desc.k, p->args.k, 0, 1, r), c, sizes[r] * (double)(c - 16) / 16);
    finish(p);
}

/* A NaN or an infinity spoils its own row's scale only. */
TEST_EACH(kv_append, rows_that_are_not_finite, COUNT(stored_types))
{
    static const double values[] = {NAN, INFINITY, -INFINITY};
    for (int64_t c = 0; c < 70; c += 23) {
        struct append_setup setup = {.dtype = float_types[c % 3], .k = *at, .head_dim = 70, .v_head_dim = 8};
        struct append_problem *p = append_new(&setup);
        for (int i = 0; i < 3; i++)
            format_encode(setup.dtype, tensor_row(&p->desc.k, p->args.k, 0, 1, 3 * i), c, values[i]);
        finish(p);
    }
}

/* ---- round trip ------------------------------------------------------------------------------ */

/* Per token: what is read back lies within half a step of what went in, and the roundings (docs/numerics.md). */
TEST_EACH(kv_append, round_trip, 2)
{
    int row = *at ? 8 : 5;
    struct append_setup setup = {.dtype = TDM_F32, .k = row, .v = row, .head_dim = 64, .v_head_dim = 65};
    struct append_problem *p = append_new(&setup);
    append_expect(p);
    EXPECT_NONE(problem_all_variants(&p->base), label(p));
    double *got = tensor_read(&p->desc.cache.k, p->args.cache.k), *x = tensor_read(&p->desc.k, p->args.k);
    for (int i = 0; i < HEADS * MAX_NEW * 64; i++) {
        int64_t h = i / 64 / MAX_NEW, r = i / 64 % MAX_NEW, c = i % 64, at_cache = (h * CAPACITY + r) * 64 + c;
        double scale = tensor_scale(&p->desc.cache.k, p->args.cache.k_scale, 0, h, r, c);
        cr_expect(fabs(got[at_cache] * scale - x[i]) <= scale * (0.5 + 127 * 3 * 0x1p-24), "[0, %d, %d, %d]: %g of %g",
                  (int)h, (int)r, (int)c, got[at_cache] * scale, x[i]);
    }
    free(got);
    free(x);
    append_free(p);
}
