#include "error.h"
#include "job.h"
#include "tests/reference/formats.h"
#include "tests/reference/reference.h"
#include "tests/reference/tensor.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { A, B, B_SCALE, BIAS, A_SCALE, OUT };

static void describe(struct job *job)
{
    const struct fp8_shape *s = &job->fp8;
    tdm_dtype dtype = (tdm_dtype)job->value[OPTION_DTYPE];
    tdm_fp8_matmul_desc *desc = &job->desc.fp8_matmul;
    *desc = (tdm_fp8_matmul_desc){.struct_size = sizeof *desc,
                                  .a = tensor2(dtype, s->m, s->k),
                                  .b = tensor2(TDM_F8E4M3, s->n, s->k),
                                  .out = tensor2(dtype, s->m, s->n),
                                  .has_bias = (int32_t)job->value[OPTION_BIAS],
                                  .has_a_scale = job->value[OPTION_W8A8] == W8A8_STATIC,
                                  .dynamic_a_scale = job->value[OPTION_W8A8] == W8A8_DYNAMIC};
    desc->b.scaling = TDM_PER_BLOCK;
    desc->b.scale_dtype = (tdm_dtype)job->value[OPTION_SCALE_DTYPE];
    desc->b.block[0] = s->block_n;
    desc->b.block[1] = s->block_k;
}

static tdm_status create(tdm_ctx *ctx, const struct job *job, tdm_op **op)
{
    return tdm_fp8_matmul_create(ctx, job->device, &job->desc.fp8_matmul, op);
}

static void reserve(struct job *job)
{
    const tdm_fp8_matmul_desc *desc = &job->desc.fp8_matmul;
    data_reserve(&job->data, A, (size_t)tensor_bytes(&desc->a));
    data_reserve(&job->data, B, (size_t)tensor_bytes(&desc->b));
    data_reserve(&job->data, B_SCALE, (size_t)format_bytes(desc->b.scale_dtype, tensor_scales(&desc->b)));
    data_reserve(&job->data, BIAS, (size_t)format_bytes(desc->a.dtype, job->fp8.n));
    data_reserve(&job->data, A_SCALE, sizeof(float));
    data_reserve(&job->data, OUT, (size_t)tensor_bytes(&desc->out));
}

static tdm_fp8_matmul_args args_of(const struct job *job, int copy)
{
    const struct data *data = &job->data;
    return (tdm_fp8_matmul_args){.struct_size = sizeof(tdm_fp8_matmul_args),
                                 .a = data_at(data, A, copy),
                                 .b = data_at(data, B, copy),
                                 .b_scale = data_at(data, B_SCALE, copy),
                                 .bias = job->desc.fp8_matmul.has_bias ? data_at(data, BIAS, copy) : NULL,
                                 .a_scale = job->desc.fp8_matmul.has_a_scale ? data_at(data, A_SCALE, copy) : NULL,
                                 .m = job->fp8.m,
                                 .out = data_at(data, OUT, copy)};
}

/* All codes but NaN, eight from each draw: weights are large. */
static void fill_weights(uint8_t *code, int64_t n, struct random *random)
{
    uint64_t bits = 0;
    for (int64_t i = 0; i < n; i++) {
        bits = i % 8 ? bits >> 8 : random_bits(random);
        code[i] = (uint8_t)((bits & 0x7f) == 0x7f ? bits - 1 : bits);
    }
}

/* Weights take e4m3's whole range, so the scales bring them to about 1. */
static void fill(struct job *job, struct random *random)
{
    const tdm_fp8_matmul_desc *desc = &job->desc.fp8_matmul;
    random_fill(&desc->a, data_at(&job->data, A, 0), 1, random);
    fill_weights(data_at(&job->data, B, 0), job->fp8.n * job->fp8.k, random);
    void *scale = data_at(&job->data, B_SCALE, 0);
    for (int64_t i = 0; i < tensor_scales(&desc->b); i++) {
        double value = (1.5 + 0.5 * random_unit(random)) / 448;
        if (desc->b.scale_dtype == TDM_E8M0)
            ((uint8_t *)scale)[i] = (uint8_t)(127 + ilogb(value));
        else
            format_encode(desc->b.scale_dtype, scale, i, value);
    }
    for (int64_t n = 0; n < job->fp8.n; n++)
        format_encode(desc->a.dtype, data_at(&job->data, BIAS, 0), n, random_unit(random));
    *(float *)data_at(&job->data, A_SCALE, 0) = 1 / 448.0f;
}

static tdm_status run(const struct job *job, const tdm_op *op, tdm_workspace *workspace, void *stream, int copy)
{
    tdm_fp8_matmul_args args = args_of(job, copy);
    return tdm_fp8_matmul_run(op, workspace, stream, &args);
}

static const char *check(const struct job *job, int spare, double *error)
{
    (void)spare;
    tdm_fp8_matmul_args args = args_of(job, 0);
    bool widened = strcmp(job->event.impl, "dequant_cublas") == 0;
    struct expected expected = widened ? reference_fp8_matmul_widened(&job->desc.fp8_matmul, &args)
                                       : reference_fp8_matmul(&job->desc.fp8_matmul, &args);
    const char *wrong = compare_tensor(&job->desc.fp8_matmul.out, args.out, &expected, NULL);
    *error = largest_error(&job->desc.fp8_matmul.out, args.out, expected.value);
    expected_free(&expected);
    return wrong;
}

static void label(const struct job *job, char *shape, char *dtypes)
{
    static const char *const rounding[] = {[W8A8_NONE] = "", [W8A8_STATIC] = "+w8a8", [W8A8_DYNAMIC] = "+w8a8-dynamic"};
    const struct fp8_shape *s = &job->fp8;
    snprintf(shape, LABEL_SIZE, "m%" PRId64 " n%" PRId64 " k%" PRId64 " %" PRId64 "x%" PRId64, s->m, s->n, s->k,
             s->block_n, s->block_k);
    snprintf(dtypes, LABEL_SIZE, "%s+f8e4m3/%s%s%s", option_name(OPTION_DTYPE, job->value[OPTION_DTYPE]),
             option_name(OPTION_SCALE_DTYPE, job->value[OPTION_SCALE_DTYPE]), job->value[OPTION_BIAS] ? "+bias" : "",
             rounding[job->value[OPTION_W8A8]]);
}

const struct bench_op bench_fp8_matmul = {"fp8_matmul", OP_BIT_FP8_MATMUL, describe, create, reserve, fill, run, check,
                                          label};
