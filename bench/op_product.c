/* qk and sv: q_len rows of every query head by the kv_len rows of the key cache's type. */
#include "cache.h"
#include "error.h"
#include "tests/reference/reference.h"
#include "tests/reference/tensor.h"

enum { A = CACHE_BUFFERS, OUT };

static void describe(struct job *job)
{
    const struct gqa_shape *s = &job->gqa;
    tdm_dtype dtype = (tdm_dtype)job->value[OPTION_DTYPE];
    tdm_tensor wide = tensor4(dtype, s->batch, s->q_heads, s->q_len, s->kv_len);
    tdm_tensor narrow = tensor4(dtype, s->batch, s->q_heads, s->q_len, s->head_dim);
    bool qk = job->op == &bench_qk;
    job->desc.product = (tdm_product_desc){.struct_size = sizeof(tdm_product_desc),
                                           .a = qk ? narrow : wide,
                                           .x = cache_of(job).k,
                                           .out = qk ? wide : narrow};
}

static tdm_status create(tdm_ctx *ctx, const struct job *job, tdm_op **op)
{
    return job->op == &bench_qk ? tdm_qk_create(ctx, job->device, &job->desc.product, op)
                                : tdm_sv_create(ctx, job->device, &job->desc.product, op);
}

static void reserve(struct job *job)
{
    const tdm_product_desc *desc = &job->desc.product;
    reserve_tensor(job, CACHE_K, &desc->x);
    data_reserve(&job->data, CACHE_K_SCALE, (size_t)tensor_scales(&desc->x) * sizeof(float));
    reserve_tensor(job, A, &desc->a);
    reserve_tensor(job, OUT, &desc->out);
}

static tdm_product_args args_of(const struct job *job, int copy)
{
    const struct data *data = &job->data;
    bool scaled = job->desc.product.x.scaling != TDM_UNSCALED;
    return (tdm_product_args){.struct_size = sizeof(tdm_product_args),
                              .a = data_at(data, A, copy),
                              .x = data_at(data, CACHE_K, copy),
                              .x_scale = scaled ? data_at(data, CACHE_K_SCALE, copy) : NULL,
                              .out = data_at(data, OUT, copy),
                              .rows = job->gqa.q_len,
                              .keys = job->gqa.kv_len,
                              .alpha = 1};
}

static void fill(struct job *job, struct random *random)
{
    const tdm_product_desc *desc = &job->desc.product;
    random_fill(&desc->a, data_at(&job->data, A, 0), 1, random);
    random_fill(&desc->x, data_at(&job->data, CACHE_K, 0), 1, random);
    fill_scales(&desc->x, data_at(&job->data, CACHE_K_SCALE, 0), random);
}

static tdm_status run(const struct job *job, const tdm_op *op, tdm_workspace *workspace, void *stream, int copy)
{
    tdm_product_args args = args_of(job, copy);
    return job->op == &bench_qk ? tdm_qk_run(op, workspace, stream, &args) : tdm_sv_run(op, workspace, stream, &args);
}

static const char *check(const struct job *job, int spare, double *error)
{
    const tdm_product_desc *desc = &job->desc.product;
    tdm_product_args args = args_of(job, spare);
    struct expected expected = job->op == &bench_qk ? reference_qk(desc, &args) : reference_sv(desc, &args);
    const void *out = data_at(&job->data, OUT, 0);
    const char *wrong = compare_tensor(&desc->out, out, &expected, NULL);
    *error = largest_error(&desc->out, out, expected.value);
    expected_free(&expected);
    return wrong;
}

const struct bench_op bench_qk = {"qk", OP_BIT_QK, describe, create, reserve, fill, run, check, label_attention};
const struct bench_op bench_sv = {"sv", OP_BIT_SV, describe, create, reserve, fill, run, check, label_attention};
