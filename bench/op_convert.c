/* quantize and dequantize: one tensor [batch, kv_heads, kv_len, head_dim] to and from the type of the key cache. */
#include "cache.h"
#include "error.h"
#include "tests/reference/reference.h"
#include "tests/reference/tensor.h"

#include <inttypes.h>
#include <stdio.h>

enum { SRC, DST, SCALE };

/* The side that is a cache type. */
static const tdm_tensor *stored(const struct job *job)
{
    return job->op == &bench_quantize ? &job->desc.convert.dst : &job->desc.convert.src;
}

static void describe(struct job *job)
{
    const struct gqa_shape *s = &job->gqa;
    tdm_dtype dtype = (tdm_dtype)job->value[OPTION_DTYPE];
    tdm_tensor plain = tensor4(dtype, s->batch, s->kv_heads, s->kv_len, s->head_dim);
    tdm_tensor cache = cache_tensor(job, job->value[OPTION_CACHE_K], s->kv_heads, s->kv_len, s->head_dim);
    bool quantize = job->op == &bench_quantize;
    job->desc.convert = (tdm_convert_desc){
        .struct_size = sizeof(tdm_convert_desc), .src = quantize ? plain : cache, .dst = quantize ? cache : plain};
}

static tdm_status create(tdm_ctx *ctx, const struct job *job, tdm_op **op)
{
    return job->op == &bench_quantize ? tdm_quantize_create(ctx, job->device, &job->desc.convert, op)
                                      : tdm_dequantize_create(ctx, job->device, &job->desc.convert, op);
}

static void reserve(struct job *job)
{
    reserve_tensor(job, SRC, &job->desc.convert.src);
    reserve_tensor(job, DST, &job->desc.convert.dst);
    data_reserve(&job->data, SCALE, (size_t)tensor_scales(stored(job)) * sizeof(float));
}

static tdm_convert_args args_of(const struct job *job, int copy)
{
    const struct data *data = &job->data;
    return (tdm_convert_args){.struct_size = sizeof(tdm_convert_args),
                              .src = data_at(data, SRC, copy),
                              .dst = data_at(data, DST, copy),
                              .scale = stored(job)->scaling == TDM_UNSCALED ? NULL : data_at(data, SCALE, copy)};
}

static void fill(struct job *job, struct random *random)
{
    random_fill(&job->desc.convert.src, data_at(&job->data, SRC, 0), 1, random);
    fill_scales(stored(job), data_at(&job->data, SCALE, 0), random);
}

static tdm_status run(const struct job *job, const tdm_op *op, tdm_workspace *workspace, void *stream, int copy)
{
    tdm_convert_args args = args_of(job, copy);
    return job->op == &bench_quantize ? tdm_quantize_run(op, workspace, stream, &args)
                                      : tdm_dequantize_run(op, workspace, stream, &args);
}

static const char *check(const struct job *job, int spare, double *error)
{
    const tdm_convert_desc *desc = &job->desc.convert;
    tdm_convert_args got = args_of(job, 0), want = args_of(job, spare);
    if (job->op == &bench_quantize) {
        reference_quantize(desc, &want);
        return check_stored(&desc->dst, got.dst, got.scale, want.dst, want.scale, error);
    }
    reference_dequantize(desc, &want);
    return check_stored(&desc->dst, got.dst, NULL, want.dst, NULL, error);
}

static void label(const struct job *job, char *shape, char *dtypes)
{
    const struct gqa_shape *s = &job->gqa;
    const char *plain = option_name(OPTION_DTYPE, job->value[OPTION_DTYPE]);
    const char *cache = option_name(OPTION_CACHE_K, job->value[OPTION_CACHE_K]);
    bool quantize = job->op == &bench_quantize;
    snprintf(shape, LABEL_SIZE, "b%" PRId64 " h%" PRId64 " d%" PRId64 " kv%" PRId64, s->batch, s->kv_heads, s->head_dim,
             s->kv_len);
    snprintf(dtypes, LABEL_SIZE, "%s>%s", quantize ? plain : cache, quantize ? cache : plain);
}

const struct bench_op bench_quantize = {"quantize", OP_BIT_QUANTIZE, describe, create, reserve, fill,
                                        run,        check,           label};
const struct bench_op bench_dequantize = {"dequantize", OP_BIT_DEQUANTIZE, describe, create, reserve, fill, run, check,
                                          label};
