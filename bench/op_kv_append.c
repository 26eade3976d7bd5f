#include "cache.h"
#include "tests/reference/reference.h"
#include "tests/reference/tensor.h"

enum { NEW_K = CACHE_BUFFERS, NEW_V, NEW_LEN, POS };

static void describe(struct job *job)
{
    const struct gqa_shape *s = &job->gqa;
    tdm_dtype dtype = (tdm_dtype)job->value[OPTION_DTYPE];
    job->desc.kv_append = (tdm_kv_append_desc){.struct_size = sizeof(tdm_kv_append_desc),
                                               .k = tensor4(dtype, s->batch, s->kv_heads, s->q_len, s->head_dim),
                                               .v = tensor4(dtype, s->batch, s->kv_heads, s->q_len, s->v_head_dim),
                                               .cache = cache_of(job),
                                               .rotary = rotary_of(job)};
}

static tdm_status create(tdm_ctx *ctx, const struct job *job, tdm_op **op)
{
    return tdm_kv_append_create(ctx, job->device, &job->desc.kv_append, op);
}

static void reserve(struct job *job)
{
    cache_reserve(job, &job->desc.kv_append.cache);
    reserve_tensor(job, NEW_K, &job->desc.kv_append.k);
    reserve_tensor(job, NEW_V, &job->desc.kv_append.v);
    rotary_reserve(job, &job->desc.kv_append.rotary);
    reserve_lengths(job, NEW_LEN);
    reserve_lengths(job, POS);
}

static tdm_kv_append_args args_of(const struct job *job, int copy)
{
    const struct data *data = &job->data;
    return (tdm_kv_append_args){.struct_size = sizeof(tdm_kv_append_args),
                                .k = data_at(data, NEW_K, copy),
                                .v = data_at(data, NEW_V, copy),
                                .cache = cache_data(job, &job->desc.kv_append.cache, copy),
                                .new_len = host_at(data, NEW_LEN),
                                .pos = host_at(data, POS),
                                .cos = rotary_at(job, COSINES, copy),
                                .sin = rotary_at(job, SINES, copy)};
}

static void fill(struct job *job, struct random *random)
{
    const tdm_kv_append_desc *desc = &job->desc.kv_append;
    random_fill(&desc->k, data_at(&job->data, NEW_K, 0), 1, random);
    random_fill(&desc->v, data_at(&job->data, NEW_V, 0), 1, random);
    cache_fill(job, &desc->cache, random);
    rotary_fill(job, &desc->rotary);
    int32_t *new_len = host_at(&job->data, NEW_LEN), *pos = host_at(&job->data, POS), kv_len;
    for (int64_t b = 0; b < job->gqa.batch; b++) {
        gqa_shape_lengths(&job->gqa, b, &new_len[b], &kv_len);
        pos[b] = kv_len - new_len[b];
    }
}

static tdm_status run(const struct job *job, const tdm_op *op, tdm_workspace *workspace, void *stream, int copy)
{
    tdm_kv_append_args args = args_of(job, copy);
    return tdm_kv_append_run(op, workspace, stream, &args);
}

static const char *check(const struct job *job, int spare, double *error)
{
    const tdm_kv_cache *cache = &job->desc.kv_append.cache;
    tdm_kv_append_args want_args = args_of(job, spare);
    reference_kv_append(&job->desc.kv_append, &want_args);
    return cache_compare(job, cache, &want_args.cache, error);
}

const struct bench_op bench_kv_append = {"kv_append", OP_BIT_KV_APPEND, describe, create, reserve, fill, run,
                                         check,       label_attention};
