/* What kv_append and gqa both ask of a cache. */
#include "error.h"
#include "op_rows.h"
#include "tensor.h"

enum { MAX_HEAD_DIM = 1 << 16 };

static const struct tensor_rule cache_rule = {4, 4, 4, CACHE_DTYPES, CACHE_SCALINGS, false};

tdm_status cache_settle(tdm_kv_cache *cache)
{
    for (int i = 0; i < 8; i++)
        if (cache->spare[i])
            return fail(TDM_BAD_ARG, "cache.spare[%d]: got %lld, want 0", i, (long long)cache->spare[i]);
    tdm_status status = tensor_settle("cache.k", &cache->k, &cache_rule);
    if (status || (status = tensor_settle("cache.v", &cache->v, &cache_rule)))
        return status;
    for (int i = 0; i < 3; i++) {
        if ((status = dims_match("cache.v", &cache->v, i, "cache.k", &cache->k, i)))
            return status;
        if (cache->k.dim[i] > INT32_MAX)
            return fail(TDM_BAD_ARG, "cache.k.dim[%d]: got %lld, want at most %d", i, (long long)cache->k.dim[i],
                        INT32_MAX);
    }
    if (cache->k.dim[3] > MAX_HEAD_DIM)
        return fail(TDM_BAD_ARG, "cache.k.dim[3]: got %lld, want at most %d", (long long)cache->k.dim[3], MAX_HEAD_DIM);
    if (cache->v.dim[3] > MAX_HEAD_DIM)
        return fail(TDM_BAD_ARG, "cache.v.dim[3]: got %lld, want at most %d", (long long)cache->v.dim[3], MAX_HEAD_DIM);
    return TDM_OK;
}

tdm_status cache_check(const tdm_kv_cache *cache, const tdm_kv_data *data)
{
    for (int i = 0; i < 4; i++)
        if (data->spare[i])
            return fail(TDM_BAD_ARG, "cache.spare[%d]: got a pointer, want NULL", i);
    tdm_status status = check_data("cache.k", data->k, cache->k.dtype);
    if (status || (status = check_data("cache.v", data->v, cache->v.dtype)))
        return status;
    if ((status = check_scales("cache.k_scale", data->k_scale, &cache->k)))
        return status;
    return check_scales("cache.v_scale", data->v_scale, &cache->v);
}

uint64_t cache_traffic(const tdm_kv_cache *cache, int64_t rows)
{
    const tdm_tensor *halves[] = {&cache->k, &cache->v};
    int64_t bytes = 0;
    for (int i = 0; i < 2; i++)
        bytes += row_bytes(halves[i]->dtype, halves[i]->dim[3]) + (halves[i]->scaling == TDM_PER_TOKEN ? 4 : 0);
    return (uint64_t)(bytes * rows * cache->k.dim[1]);
}
