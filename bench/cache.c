#include "cache.h"

#include "tests/reference/tensor.h"

#include <inttypes.h>
#include <stdio.h>

tdm_tensor cache_tensor(const struct job *job, int64_t type, int64_t heads, int64_t rows, int64_t channels)
{
    return (tdm_tensor){.dtype = cache_dtype(type),
                        .scaling = cache_scaling(type),
                        .rank = 4,
                        .dim = {job->gqa.batch, heads, rows, channels}};
}

tdm_kv_cache cache_of(const struct job *job)
{
    const struct gqa_shape *s = &job->gqa;
    int64_t k = job->value[OPTION_CACHE_K], v = job->value[OPTION_CACHE_V];
    return (tdm_kv_cache){.k = cache_tensor(job, k, s->kv_heads, s->kv_len, s->head_dim),
                          .v = cache_tensor(job, v ? v : k, s->kv_heads, s->kv_len, s->v_head_dim)};
}

void reserve_tensor(struct job *job, int buffer, const tdm_tensor *tensor)
{
    data_reserve(&job->data, buffer, (size_t)tensor_bytes(tensor));
}

void reserve_lengths(struct job *job, int buffer)
{
    data_reserve(&job->data, buffer, (size_t)job->gqa.batch * sizeof(int32_t));
}

void cache_reserve(struct job *job, const tdm_kv_cache *cache)
{
    reserve_tensor(job, CACHE_K, &cache->k);
    reserve_tensor(job, CACHE_V, &cache->v);
    data_reserve(&job->data, CACHE_K_SCALE, (size_t)tensor_scales(&cache->k) * sizeof(float));
    data_reserve(&job->data, CACHE_V_SCALE, (size_t)tensor_scales(&cache->v) * sizeof(float));
}

static float *scale_at(const struct job *job, const tdm_tensor *tensor, int buffer, int copy)
{
    return tensor->scaling == TDM_UNSCALED ? NULL : data_at(&job->data, buffer, copy);
}

tdm_kv_data cache_data(const struct job *job, const tdm_kv_cache *cache, int copy)
{
    return (tdm_kv_data){.k = data_at(&job->data, CACHE_K, copy),
                         .v = data_at(&job->data, CACHE_V, copy),
                         .k_scale = scale_at(job, &cache->k, CACHE_K_SCALE, copy),
                         .v_scale = scale_at(job, &cache->v, CACHE_V_SCALE, copy)};
}

void fill_scales(const tdm_tensor *tensor, float *scale, struct random *random)
{
    random_scales(scale, tensor_scales(tensor), tensor->dtype == TDM_I4 ? 1 / 7.0 : 1 / 127.0, random);
}

void label_attention(const struct job *job, char *shape, char *dtypes)
{
    const struct gqa_shape *s = &job->gqa;
    int64_t k = job->value[OPTION_CACHE_K], v = job->value[OPTION_CACHE_V];
    int n = snprintf(shape, LABEL_SIZE, "b%" PRId64 " h%" PRId64 "/%" PRId64 " d%" PRId64, s->batch, s->q_heads,
                     s->kv_heads, s->head_dim);
    if (s->v_head_dim != s->head_dim)
        n += snprintf(shape + n, LABEL_SIZE - (size_t)n, "/%" PRId64, s->v_head_dim);
    snprintf(shape + n, LABEL_SIZE - (size_t)n, " q%" PRId64 " kv%" PRId64 "%s", s->q_len, s->kv_len,
             s->ragged ? " ragged" : "");
    n = snprintf(dtypes, LABEL_SIZE, "%s+%s", option_name(OPTION_DTYPE, job->value[OPTION_DTYPE]),
                 option_name(OPTION_CACHE_K, k));
    if (v && v != k)
        snprintf(dtypes + n, LABEL_SIZE - (size_t)n, "/%s", option_name(OPTION_CACHE_V, v));
}
