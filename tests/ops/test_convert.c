/* quantize and dequantize: byte for byte what the rules of the header give, for every rank, type and scaling. */
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

static const struct {
    int32_t rank;
    int64_t dim[4];
} shapes[] = {
    {1, {1}},          {1, {37}},         {1, {1000}},          {2, {5, 64}},      {2, {400, 33}},    {3, {3, 7, 16}},
    {3, {2, 1, 1030}}, {4, {2, 3, 4, 5}}, {4, {1, 2, 300, 65}}, {4, {3, 0, 4, 5}}, {4, {2, 3, 4, 0}},
};

struct convert_problem {
    struct problem base;
    tdm_convert_desc desc;
    tdm_convert_args args, wanted;
    struct guard src, scale;
    void *want[2];
};

static const char *check(const struct problem *base)
{
    const struct convert_problem *p = (const struct convert_problem *)base;
    if (!p->base.outputs)
        return NULL; /* an empty tensor: that the run succeeds is all there is */
    tdm_tensor scales = tensor2(TDM_F32, 1, tensor_scales(&p->desc.dst));
    const char *bad = compare_memory(&p->desc.dst, p->args.dst, p->wanted.dst);
    if (!bad && is_dynamic(&p->desc.dst))
        bad = compare_memory(&scales, p->args.scale, p->wanted.scale);
    return bad;
}

static tdm_tensor tensor_of(tdm_dtype dtype, int shape, bool spread)
{
    tdm_tensor tensor = {.dtype = dtype, .rank = shapes[shape].rank};
    memcpy(tensor.dim, shapes[shape].dim, sizeof tensor.dim);
    if (spread && tensor.rank > 1 && tensor_elements(&tensor)) {
        int axis = tensor.rank - 2;
        tensor.stride[axis] = format_bytes(dtype, tensor.dim[axis + 1] + 6);
        for (; axis > 0; axis--)
            tensor.stride[axis - 1] = tensor.stride[axis] * tensor.dim[axis] + format_bytes(dtype, 2);
    }
    return tensor;
}

static struct convert_problem *convert_new(enum each_op op, tdm_dtype plain, int row, int shape, bool spread)
{
    struct convert_problem *p = calloc(1, sizeof *p);
    struct random random = {(uint64_t)(row * 100 + shape)};
    tdm_tensor floats = tensor_of(plain, shape, spread);
    tdm_tensor cache = stored_as(tensor_of(stored_types[row].dtype, shape, spread), &stored_types[row]);
    bool quantize = op == QUANTIZE;
    p->desc = TDM_INIT(tdm_convert_desc);
    p->desc.src = quantize ? floats : cache;
    p->desc.dst = quantize ? cache : floats;
    p->src = guard_new((size_t)tensor_bytes(&p->desc.src), 0xFF);
    random_fill(&p->desc.src, p->src.data, 3, &random);
    p->base = (struct problem){.op = op, .desc = &p->desc, .args = &p->args, .check = check};
    p->args = (tdm_convert_args){.struct_size = sizeof p->args, .src = p->src.data};
    p->args.dst = problem_output(&p->base, tensor_bytes(&p->desc.dst));
    int64_t n = tensor_scales(&cache);
    if (quantize && is_dynamic(&cache)) {
        p->args.scale = p->args.dst ? problem_output(&p->base, n * (int64_t)sizeof(float)) : NULL;
    } else {
        p->scale = guard_new((size_t)n * sizeof(float), 0);
        random_scales(p->scale.data, n, 0.3, &random);
        p->args.scale = n ? p->scale.data : NULL;
    }
    return p;
}

static void finish(struct convert_problem *p)
{
    p->wanted = p->args;
    void **copies[] = {&p->wanted.dst, (void **)&p->wanted.scale};
    for (int i = 0; i < p->base.outputs; i++) {
        size_t bytes = p->base.output[i].memory.bytes;
        *copies[i] = p->want[i] = memcpy(malloc(bytes), p->base.output[i].initial, bytes);
    }
    if (p->base.op == QUANTIZE)
        reference_quantize(&p->desc, &p->wanted);
    else
        reference_dequantize(&p->desc, &p->wanted);
    guard_read_only(&p->src);
    char label[128];
    snprintf(label, sizeof label, "%s %s to %s %s, rank %d", each_op_name(p->base.op), format_name(p->desc.src.dtype),
             format_name(p->desc.dst.dtype), scaling_text(p->desc.src.scaling | p->desc.dst.scaling), p->desc.src.rank);
    EXPECT_NONE(problem_all_variants(&p->base), label);
    guard_free(&p->src);
    if (p->scale.map)
        guard_free(&p->scale);
    problem_free_outputs(&p->base);
    free(p->want[0]);
    free(p->want[1]);
    free(p);
}

TEST_EACH(convert, quantize, COUNT(stored_types) * COUNT(float_types))
{
    for (int shape = 0; shape < COUNT(shapes); shape++)
        finish(
            convert_new(QUANTIZE, float_types[*at % COUNT(float_types)], *at / COUNT(float_types), shape, shape % 2));
}

TEST_EACH(convert, dequantize, COUNT(stored_types) * COUNT(float_types))
{
    for (int shape = 0; shape < COUNT(shapes); shape++)
        finish(
            convert_new(DEQUANTIZE, float_types[*at % COUNT(float_types)], *at / COUNT(float_types), shape, shape % 2));
}

/* Every code of a cache type reads as its value, under scales of every kind. */
TEST_EACH(convert, every_code, COUNT(stored_types))
{
    static const float scales[] = {1, 0, -2, 1e-40F, 1e30F, NAN, INFINITY};
    for (int s = 0; s < COUNT(scales); s++) {
        struct convert_problem *p = convert_new(DEQUANTIZE, float_types[s % 3], *at, 4, false); /* 400 x 33 */
        for (size_t i = 0; i < p->src.bytes; i++)
            ((uint8_t *)p->src.data)[i] = (uint8_t)(i * 7 + i / 256);
        for (size_t i = 0; i < p->scale.bytes / sizeof(float); i++)
            ((float *)p->scale.data)[i] = scales[(i + (size_t)s) % COUNT(scales)];
        finish(p);
    }
}

/* Bit patterns of every kind, NaN and infinities among them, under static scales of every kind, and in rows that
 * have dynamic ones. */
TEST_EACH(convert, every_pattern, COUNT(stored_types) * COUNT(float_types))
{
    static const float scales[] = {1, 0, -2, 1e-40F, 1e30F, NAN, INFINITY, 0.013F};
    for (int pattern = 0; pattern < COUNT(scales); pattern++) {
        struct convert_problem *p =
            convert_new(QUANTIZE, float_types[*at % COUNT(float_types)], *at / COUNT(float_types), 4, pattern % 2);
        struct random random = {(uint64_t)(*at * COUNT(scales) + pattern)};
        for (size_t i = 0; i < p->src.bytes; i++)
            ((uint8_t *)p->src.data)[i] = (uint8_t)random_bits(&random);
        for (size_t i = 0; i < p->scale.bytes / sizeof(float); i++)
            ((float *)p->scale.data)[i] = scales[(i + (size_t)pattern) % COUNT(scales)];
        finish(p);
    }
}

/* Numbers on half steps, where a product by the reciprocal and a quotient may round to different codes. */
TEST_EACH(convert, half_steps, COUNT(stored_types))
{
    if (!is_quantized(stored_types[*at].dtype))
        return;
    for (int seed = 0; seed < 20; seed++) {
        struct convert_problem *p = convert_new(QUANTIZE, TDM_F32, *at, 4, false);
        struct random random = {(uint64_t)seed};
        float *x = p->src.data;
        if (p->scale.map)
            random_scales(p->scale.data, tensor_scales(&p->desc.dst), 0.3, &random);
        for (int64_t i = 0; i < tensor_elements(&p->desc.src); i++) {
            double scale = is_dynamic(&p->desc.dst) ? 0.1 : tensor_scale(&p->desc.dst, p->args.scale, 0, 0, 0, i % 33);
            x[i] = (float)(scale * ((double)random_below(&random, 14) - 6.5));
        }
        finish(p);
    }
}
