#include "cache.h"

#include "error.h"
#include "tests/reference/tensor.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

tdm_tensor cache_tensor(const struct job *job, int64_t type, int64_t heads, int64_t rows, int64_t channels)
{
    return (tdm_tensor){.dtype = cache_dtype(type),
                        .scaling = cache_scaling(type),
                        .rank = 4,
                        .dim = {job->gqa.batch, heads, rows, channels},
                        .block = {cache_group(type) != 0, cache_group(type)}};
}

tdm_kv_cache cache_of(const struct job *job)
{
    const struct gqa_shape *s = &job->gqa;
    int64_t k = job->value[OPTION_CACHE_K], v = job->value[OPTION_CACHE_V];
    return (tdm_kv_cache){.k = cache_tensor(job, k, s->kv_heads, s->kv_len, s->head_dim),
                          .v = cache_tensor(job, v ? v : k, s->kv_heads, s->kv_len, s->v_head_dim),
                          .rotate_k = (int32_t)job->value[OPTION_ROTATE],
                          .rotate_v = (int32_t)job->value[OPTION_ROTATE],
                          .has_k_offset = (int32_t)job->value[OPTION_OFFSET]};
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
    data_reserve(&job->data, CACHE_K_OFFSET, (size_t)(cache->k.dim[1] * cache->k.dim[3]) * sizeof(float));
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
                         .v_scale = scale_at(job, &cache->v, CACHE_V_SCALE, copy),
                         .k_offset = cache->has_k_offset ? data_at(&job->data, CACHE_K_OFFSET, copy) : NULL};
}

const char *cache_compare(const struct job *job, const tdm_kv_cache *cache, const tdm_kv_data *want, double *error)
{
    tdm_kv_data got = cache_data(job, cache, 0);
    double v_error;
    const char *k_wrong = check_stored(&cache->k, got.k, got.k_scale, want->k, want->k_scale, error);
    const char *v_wrong = check_stored(&cache->v, got.v, got.v_scale, want->v, want->v_scale, &v_error);
    *error = fmax(*error, v_error);
    return k_wrong ? k_wrong : v_wrong;
}

void cache_fill(struct job *job, const tdm_kv_cache *cache, struct random *random)
{
    tdm_tensor offset = tensor4(TDM_F32, 1, 1, cache->k.dim[1], cache->k.dim[3]);
    random_fill(&offset, data_at(&job->data, CACHE_K_OFFSET, 0), 1, random);
    fill_scales(&cache->k, data_at(&job->data, CACHE_K_SCALE, 0), random);
    fill_scales(&cache->v, data_at(&job->data, CACHE_V_SCALE, 0), random);
}

tdm_rotary rotary_of(const struct job *job)
{
    if (!job->value[OPTION_ROTARY])
        return (tdm_rotary){0};
    return (tdm_rotary){TDM_F32, (int32_t)job->gqa.head_dim, (int32_t)job->gqa.kv_len, 0};
}

void rotary_reserve(struct job *job, const tdm_rotary *rotary)
{
    size_t bytes = (size_t)rotary->positions * (size_t)rotary->dim / 2 * sizeof(float);
    data_reserve(&job->data, COSINES, bytes);
    data_reserve(&job->data, SINES, bytes);
}

void rotary_fill(struct job *job, const tdm_rotary *rotary)
{
    float *cosines = data_at(&job->data, COSINES, 0), *sines = data_at(&job->data, SINES, 0);
    int half = rotary->dim / 2;
    for (int64_t i = 0; i < (int64_t)rotary->positions * half; i++) {
        double angle = (double)(i / half) * pow(10000, -2.0 * (double)(i % half) / rotary->dim);
        cosines[i] = (float)cos(angle);
        sines[i] = (float)sin(angle);
    }
}

const void *rotary_at(const struct job *job, int buffer, int copy)
{
    return job->value[OPTION_ROTARY] ? data_at(&job->data, buffer, copy) : NULL;
}

void fill_scales(const tdm_tensor *tensor, float *scale, struct random *random)
{
    double largest = tensor->dtype == TDM_I4 ? 7 : tensor->dtype == TDM_I8 ? 127 : 448;
    random_scales(scale, tensor_scales(tensor), 1 / largest, random);
}

void label_attention(const struct job *job, char *shape, char *dtypes)
{
    const struct gqa_shape *s = &job->gqa;
    static const char *const lengths[] = {[EQUAL] = "", [RAGGED] = " ragged", [ONE_LONG] = " one long"};
    int64_t k = job->value[OPTION_CACHE_K], v = job->value[OPTION_CACHE_V];
    int n = snprintf(shape, LABEL_SIZE, "b%" PRId64 " h%" PRId64 "/%" PRId64 " d%" PRId64, s->batch, s->q_heads,
                     s->kv_heads, s->head_dim);
    if (s->v_head_dim != s->head_dim)
        n += snprintf(shape + n, LABEL_SIZE - (size_t)n, "/%" PRId64, s->v_head_dim);
    n += snprintf(shape + n, LABEL_SIZE - (size_t)n, " q%" PRId64 " kv%" PRId64 "%s", s->q_len, s->kv_len,
                  lengths[s->lengths]);
    static const struct {
        enum option_id id;
        const char *text;
    } features[] = {{OPTION_ROTARY, " rotary"},
                    {OPTION_SOFTCAP, " softcap"},
                    {OPTION_BIAS_PLANE, " bias"},
                    {OPTION_ALIBI, " alibi"}};
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (job->value[features[i].id])
            n += snprintf(shape + n, LABEL_SIZE - (size_t)n, "%s", features[i].text);
    n = snprintf(dtypes, LABEL_SIZE, "%s+%s", option_name(OPTION_DTYPE, job->value[OPTION_DTYPE]),
                 option_name(OPTION_CACHE_K, k));
    if (v && v != k)
        n += snprintf(dtypes + n, LABEL_SIZE - (size_t)n, "/%s", option_name(OPTION_CACHE_V, v));
    snprintf(dtypes + n, LABEL_SIZE - (size_t)n, "%s%s", job->value[OPTION_ROTATE] ? " rotated" : "",
             job->value[OPTION_OFFSET] ? " offset" : "");
}
