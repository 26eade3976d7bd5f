#include "fp8_problem.h"

#include "tests/reference/device.h"
#include "tests/reference/formats.h"
#include "tests/reference/random.h"
#include "tests/reference/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *check(const struct problem *base)
{
    const struct fp8_problem *p = (const struct fp8_problem *)base;
    int32_t rows = (int32_t)p->args.m;
    bool widened = p->widened.value && !strcmp(base->impl, "dequant_cublas");
    const char *bad = compare_tensor(&p->desc.out, p->args.out, widened ? &p->widened : &p->expected, &rows);
    return bad ? bad : compare_untouched(&p->desc.out, p->args.out, &rows, OUTPUT_FILL);
}

static tdm_tensor matrix(tdm_dtype dtype, int64_t rows, int64_t columns, bool strided)
{
    tdm_tensor tensor = tensor2(dtype, rows, columns);
    tensor.stride[0] = strided ? format_bytes(dtype, columns + 5) : 0;
    return tensor;
}

static void describe(struct fp8_problem *p, const struct fp8_setup *setup)
{
    const struct fp8_shape *shape = setup->shape;
    p->desc = TDM_INIT(tdm_fp8_matmul_desc);
    p->desc.a = matrix(setup->dtype, shape->m, shape->k, setup->strided);
    p->desc.b = matrix(TDM_F8E4M3, shape->n, shape->k, setup->strided);
    p->desc.out = matrix(setup->dtype, shape->m, shape->n, setup->strided);
    p->desc.b.scaling = TDM_PER_BLOCK;
    p->desc.b.scale_dtype = setup->scale_dtype;
    p->desc.b.block[0] = shape->block_n;
    p->desc.b.block[1] = shape->block_k;
    p->desc.has_bias = setup->bias;
    p->desc.has_a_scale = setup->a_scale && !setup->dynamic;
    p->desc.dynamic_a_scale = setup->dynamic;
}

/* All bytes but the two NaN codes. */
static struct guard weights(const tdm_tensor *tensor, struct random *random)
{
    struct guard guard = guard_new((size_t)tensor_bytes(tensor), 0x7F);
    for (int64_t n = 0; n < tensor->dim[0]; n++) {
        uint8_t *row = tensor_row(tensor, guard.data, 0, 0, n);
        for (int64_t k = 0; k < tensor->dim[1]; k++) {
            int64_t code = random_below(random, 254);
            row[k] = (uint8_t)(code < 127 ? code : code + 1);
        }
    }
    return guard;
}

static struct guard block_scales(const tdm_tensor *tensor, double size, struct random *random)
{
    int64_t n = tensor_scales(tensor);
    tdm_dtype dtype = tensor->scale_dtype ? tensor->scale_dtype : TDM_F32;
    struct guard guard = guard_new((size_t)format_bytes(dtype, n), 0);
    for (int64_t i = 0; i < n; i++) {
        float scale;
        random_scales(&scale, 1, size, random);
        if (dtype == TDM_E8M0)
            ((uint8_t *)guard.data)[i] = (uint8_t)fmax(0, 127 + ilogb(size) - (double)random_below(random, 3));
        else
            format_encode(dtype, guard.data, i, scale);
    }
    return guard;
}

struct fp8_problem *fp8_problem_new(const struct fp8_setup *setup)
{
    struct fp8_problem *p = calloc(1, sizeof *p);
    struct random random = {setup->seed + 1};
    double magnitude = setup->magnitude > 0 ? setup->magnitude : 2;
    describe(p, setup);
    tdm_tensor bias = tensor2(setup->dtype, 1, setup->shape->n);
    float a_scale = (float)(magnitude / 300);
    p->a = guard_new((size_t)tensor_bytes(&p->desc.a), 0xFF);
    random_fill(&p->desc.a, p->a.data, magnitude, &random);
    p->b = weights(&p->desc.b, &random);
    p->b_scale = block_scales(&p->desc.b, setup->scale_size > 0 ? setup->scale_size : 0.01, &random);
    p->bias = guard_new(setup->bias ? (size_t)tensor_bytes(&bias) : 0, 0);
    if (setup->bias)
        random_fill(&bias, p->bias.data, magnitude, &random);
    p->a_scale = guard_new(sizeof a_scale, 0);
    memcpy(p->a_scale.data, &a_scale, sizeof a_scale);
    p->base = (struct problem){.op = FP8, .desc = &p->desc, .args = &p->args, .check = check};
    p->args = (tdm_fp8_matmul_args){.struct_size = sizeof p->args,
                                    .a = p->a.data,
                                    .b = p->b.data,
                                    .b_scale = p->b_scale.data,
                                    .bias = setup->bias ? p->bias.data : NULL,
                                    .a_scale = p->desc.has_a_scale ? p->a_scale.data : NULL,
                                    .m = setup->m ? setup->m : setup->shape->m,
                                    .out = problem_output(&p->base, tensor_bytes(&p->desc.out))};
    return p;
}

void fp8_problem_expect(struct fp8_problem *p)
{
    expected_free(&p->expected);
    p->expected = reference_fp8_matmul(&p->desc, &p->args);
    expected_free(&p->widened);
    if (test_device().kind != TDM_CPU)
        p->widened = reference_fp8_matmul_widened(&p->desc, &p->args);
    const struct guard *inputs[] = {&p->a, &p->b, &p->b_scale, &p->bias, &p->a_scale};
    for (int i = 0; i < 5; i++)
        guard_read_only(inputs[i]);
}

void fp8_problem_free(struct fp8_problem *p)
{
    struct guard *inputs[] = {&p->a, &p->b, &p->b_scale, &p->bias, &p->a_scale};
    for (int i = 0; i < 5; i++)
        guard_free(inputs[i]);
    problem_free_outputs(&p->base);
    expected_free(&p->expected);
    expected_free(&p->widened);
    free(p);
}

const char *fp8_problem_check(const struct fp8_setup *setup)
{
    struct fp8_problem *problem = fp8_problem_new(setup);
    fp8_problem_expect(problem);
    const char *bad = problem_all_variants(&problem->base);
    fp8_problem_free(problem);
    return bad;
}

const char *fp8_problem_label(const struct fp8_setup *setup)
{
    static char text[160];
    snprintf(text, sizeof text, "%s, %s, scales %s%s%s%s", setup->shape->name, format_name(setup->dtype),
             setup->scale_dtype ? format_name(setup->scale_dtype) : "f32", setup->bias ? ", bias" : "",
             setup->dynamic   ? ", dynamic scales"
             : setup->a_scale ? ", a_scale"
                              : "",
             setup->strided ? ", strided" : "");
    return text;
}
