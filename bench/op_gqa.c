#include "cache.h"
#include "error.h"
#include "tests/reference/reference.h"
#include "tests/reference/tensor.h"

#include <math.h>

enum { QUERY = CACHE_BUFFERS, OUT, Q_LEN, KV_LEN, BIAS, SLOPES };

static void describe(struct job *job)
{
    const struct gqa_shape *s = &job->gqa;
    tdm_gqa_desc *desc = &job->desc.gqa;
    tdm_dtype dtype = (tdm_dtype)job->value[OPTION_DTYPE];
    tdm_gqa_desc_init(desc);
    desc->q = tensor4(dtype, s->batch, s->q_heads, s->q_len, s->head_dim);
    desc->out = tensor4(dtype, s->batch, s->q_heads, s->q_len, s->v_head_dim);
    desc->cache = cache_of(job);
    desc->window_left = s->window_left;
    desc->window_right = s->window_right;
    desc->rotary = rotary_of(job);
    desc->softcap = job->value[OPTION_SOFTCAP] ? 30 : 0;
    desc->has_alibi = (int32_t)job->value[OPTION_ALIBI];
    if (job->value[OPTION_BIAS_PLANE])
        desc->bias = tensor4(TDM_F32, 1, 1, s->q_len, s->kv_len);
}

static tdm_status create(tdm_ctx *ctx, const struct job *job, tdm_op **op)
{
    return tdm_gqa_create(ctx, job->device, &job->desc.gqa, op);
}

static void reserve(struct job *job)
{
    cache_reserve(job, &job->desc.gqa.cache);
    reserve_tensor(job, QUERY, &job->desc.gqa.q);
    reserve_tensor(job, OUT, &job->desc.gqa.out);
    reserve_lengths(job, Q_LEN);
    reserve_lengths(job, KV_LEN);
    rotary_reserve(job, &job->desc.gqa.rotary);
    if (job->desc.gqa.bias.rank)
        reserve_tensor(job, BIAS, &job->desc.gqa.bias);
    data_reserve(&job->data, SLOPES, (size_t)job->gqa.q_heads * sizeof(float));
}

static tdm_gqa_args args_of(const struct job *job, int copy)
{
    const struct data *data = &job->data;
    return (tdm_gqa_args){.struct_size = sizeof(tdm_gqa_args),
                          .q = data_at(data, QUERY, copy),
                          .cache = cache_data(job, &job->desc.gqa.cache, copy),
                          .q_len = host_at(data, Q_LEN),
                          .kv_len = host_at(data, KV_LEN),
                          .out = data_at(data, OUT, copy),
                          .cos = rotary_at(job, COSINES, copy),
                          .sin = rotary_at(job, SINES, copy),
                          .bias = job->desc.gqa.bias.rank ? data_at(data, BIAS, copy) : NULL,
                          .alibi = job->desc.gqa.has_alibi ? data_at(data, SLOPES, copy) : NULL};
}

static void fill(struct job *job, struct random *random)
{
    const tdm_kv_cache *cache = &job->desc.gqa.cache;
    random_fill(&job->desc.gqa.q, data_at(&job->data, QUERY, 0), 1, random);
    random_fill(&cache->k, data_at(&job->data, CACHE_K, 0), 1, random);
    random_fill(&cache->v, data_at(&job->data, CACHE_V, 0), 1, random);
    cache_fill(job, cache, random);
    rotary_fill(job, &job->desc.gqa.rotary);
    if (job->desc.gqa.bias.rank)
        random_fill(&job->desc.gqa.bias, data_at(&job->data, BIAS, 0), 1, random);
    float *slopes = data_at(&job->data, SLOPES, 0);
    for (int64_t h = 0; h < job->gqa.q_heads; h++)
        slopes[h] = (float)exp2(-8.0 * (double)(h + 1) / (double)job->gqa.q_heads);
    int32_t *q_len = host_at(&job->data, Q_LEN), *kv_len = host_at(&job->data, KV_LEN);
    for (int64_t b = 0; b < job->gqa.batch; b++)
        gqa_shape_lengths(&job->gqa, b, &q_len[b], &kv_len[b]);
}

static tdm_status run(const struct job *job, const tdm_op *op, tdm_workspace *workspace, void *stream, int copy)
{
    tdm_gqa_args args = args_of(job, copy);
    return tdm_gqa_run(op, workspace, stream, &args);
}

static const char *check(const struct job *job, int spare, double *error)
{
    (void)spare;
    tdm_gqa_args args = args_of(job, 0);
    struct gqa_expected expected = reference_gqa(&job->desc.gqa, &args);
    const char *wrong = compare_tensor(&job->desc.gqa.out, args.out, &expected.out, args.q_len);
    *error = largest_error(&job->desc.gqa.out, args.out, expected.out.value);
    gqa_expected_free(&expected);
    return wrong;
}

const struct bench_op bench_gqa = {"gqa", OP_BIT_GQA, describe, create, reserve, fill, run, check, label_attention};
