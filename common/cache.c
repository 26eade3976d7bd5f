/* What the ops ask of a cache. */
#include "error.h"
#include "op_rows.h"
#include "tensor.h"

#include <stdio.h>

static const struct tensor_rule cache_rule = {4, 4, 4, CACHE_DTYPES, CACHE_SCALINGS, false};

/* "cache" and "k" make "cache.k". */
struct field {
    char text[32];
};
static struct field part(const char *name, const char *member)
{
    struct field field;
    snprintf(field.text, sizeof field.text, "%s.%s", name, member);
    return field;
}

static tdm_status settle_half(const char *field, tdm_tensor *half)
{
    tdm_status status = tensor_settle(field, half, &cache_rule);
    if (!status && half->dim[3] > MAX_HEAD_DIM)
        status =
            fail(TDM_BAD_ARG, "%s.dim[3]: got %lld, want at most %d", field, (long long)half->dim[3], MAX_HEAD_DIM);
    return status;
}

static tdm_status check_ring(const char *name, const tdm_kv_cache *cache)
{
    int64_t most = cache->ring ? cache->k.dim[2] - 1 : 0;
    if (cache->ring_sinks < 0 || cache->ring_sinks > most)
        return fail(TDM_BAD_ARG, "%s.ring_sinks: got %d, want 0 to %lld%s", name, cache->ring_sinks, (long long)most,
                    cache->ring ? "" : " without a ring");
    return TDM_OK;
}

tdm_status cache_settle(const char *name, tdm_kv_cache *cache)
{
    struct field k = part(name, "k"), v = part(name, "v");
    for (size_t i = 0; i < sizeof cache->spare / sizeof *cache->spare; i++)
        if (cache->spare[i])
            return fail(TDM_BAD_ARG, "%s.spare[%zu]: got %d, want 0", name, i, cache->spare[i]);
    tdm_status status = settle_half(k.text, &cache->k);
    if (status || (status = settle_half(v.text, &cache->v)) ||
        (status = flag_check(part(name, "rotate_k").text, cache->rotate_k)) ||
        (status = flag_check(part(name, "rotate_v").text, cache->rotate_v)) ||
        (status = flag_check(part(name, "has_k_offset").text, cache->has_k_offset)) ||
        (status = flag_check(part(name, "ring").text, cache->ring)))
        return status;
    for (int i = 0; i < 3; i++) {
        if ((status = dims_match(v.text, &cache->v, i, k.text, &cache->k, i)))
            return status;
        if (cache->k.dim[i] > INT32_MAX)
            return fail(TDM_BAD_ARG, "%s.dim[%d]: got %lld, want at most %d", k.text, i, (long long)cache->k.dim[i],
                        INT32_MAX);
    }
    return check_ring(name, cache);
}

tdm_status cache_check(const char *name, const tdm_kv_cache *cache, const tdm_kv_data *data)
{
    for (size_t i = 0; i < sizeof data->spare / sizeof *data->spare; i++)
        if (data->spare[i])
            return fail(TDM_BAD_ARG, "%s.spare[%zu]: got a pointer, want NULL", name, i);
    tdm_status status = check_data(part(name, "k").text, data->k, cache->k.dtype);
    if (status || (status = check_data(part(name, "v").text, data->v, cache->v.dtype)) ||
        (status = check_scales(part(name, "k_scale").text, data->k_scale, &cache->k)) ||
        (status = check_scales(part(name, "v_scale").text, data->v_scale, &cache->v)))
        return status;
    return optional_check(part(name, "k_offset").text, data->k_offset, cache->has_k_offset, TDM_F32);
}

int64_t stored_row_bytes(const tdm_tensor *half)
{
    int64_t scales = half->scaling == TDM_PER_TOKEN ? 1 : half->scaling == TDM_PER_GROUP ? group_count(half) : 0;
    return row_bytes(half->dtype, half->dim[3]) + scales * (int64_t)sizeof(float);
}

uint64_t cache_traffic(const tdm_kv_cache *cache, int64_t rows)
{
    return (uint64_t)((stored_row_bytes(&cache->k) + stored_row_bytes(&cache->v)) * rows * cache->k.dim[1]);
}
