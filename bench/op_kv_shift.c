/* kv_shift: one token dropped behind the first four, all others moved and, with --rotary, turned. */
#include "cache.h"
#include "tests/reference/reference.h"
#include "tests/reference/tensor.h"

enum { LEN = CACHE_BUFFERS, DROP, SINKS = 4 };

static void describe(struct job *job)
{
    int64_t most = job->gqa.kv_len > SINKS ? SINKS : 0;
    job->desc.kv_shift = (tdm_kv_shift_desc){.struct_size = sizeof(tdm_kv_shift_desc),
                                             .cache = cache_of(job),
                                             .rotary = rotary_of(job),
                                             .sinks = (int32_t)most};
    if (job->desc.kv_shift.rotary.positions == 1)
        job->desc.kv_shift.rotary.positions = 2; /* a drop of one needs the second row of the tables */
}

static tdm_status create(tdm_ctx *ctx, const struct job *job, tdm_op **op)
{
    return tdm_kv_shift_create(ctx, job->device, &job->desc.kv_shift, op);
}

static void reserve(struct job *job)
{
    cache_reserve(job, &job->desc.kv_shift.cache);
    rotary_reserve(job, &job->desc.kv_shift.rotary);
    reserve_lengths(job, LEN);
    reserve_lengths(job, DROP);
}

static tdm_kv_shift_args args_of(const struct job *job, int copy)
{
    const struct data *data = &job->data;
    return (tdm_kv_shift_args){.struct_size = sizeof(tdm_kv_shift_args),
                               .cache = cache_data(job, &job->desc.kv_shift.cache, copy),
                               .len = host_at(data, LEN),
                               .drop = host_at(data, DROP),
                               .cos = rotary_at(job, COSINES, copy),
                               .sin = rotary_at(job, SINES, copy)};
}

static void fill(struct job *job, struct random *random)
{
    const tdm_kv_shift_desc *desc = &job->desc.kv_shift;
    random_fill(&desc->cache.k, data_at(&job->data, CACHE_K, 0), 1, random);
    random_fill(&desc->cache.v, data_at(&job->data, CACHE_V, 0), 1, random);
    cache_fill(job, &desc->cache, random);
    rotary_fill(job, &desc->rotary);
    int32_t *len = host_at(&job->data, LEN), *drop = host_at(&job->data, DROP), q_len;
    for (int64_t b = 0; b < job->gqa.batch; b++) {
        gqa_shape_lengths(&job->gqa, b, &q_len, &len[b]);
        drop[b] = len[b] > desc->sinks;
    }
}

static tdm_status run(const struct job *job, const tdm_op *op, tdm_workspace *workspace, void *stream, int copy)
{
    tdm_kv_shift_args args = args_of(job, copy);
    return tdm_kv_shift_run(op, workspace, stream, &args);
}

static const char *check(const struct job *job, int spare, double *error)
{
    const tdm_kv_cache *cache = &job->desc.kv_shift.cache;
    tdm_kv_shift_args want_args = args_of(job, spare);
    reference_kv_shift(&job->desc.kv_shift, &want_args);
    return cache_compare(job, cache, &want_args.cache, error);
}

const struct bench_op bench_kv_shift = {"kv_shift", OP_BIT_KV_SHIFT, describe,       create, reserve, fill,
                                        run,        check,           label_attention};
