#include "error.h"
#include "op_rows.h"
#include "tensor.h"

#include <string.h>

static const tdm_kv_cache no_cache;

/* The cache that sequences are moved from must read alike. */
static tdm_status settle_past(tdm_kv_append_desc *d)
{
    if (d->past.k.rank == 0) {
        if (memcmp(&d->past, &no_cache, sizeof no_cache) != 0)
            return fail(TDM_BAD_ARG, "past.k.rank: got 0 with other fields set, want 4, or all of past 0");
        return TDM_OK;
    }
    if (d->cache.ring)
        return fail(TDM_UNSUPPORTED, "past: got a past for a ring, want none");
    tdm_status status = cache_settle("past", &d->past);
    if (status)
        return status;
    const tdm_tensor *past[] = {&d->past.k, &d->past.v}, *cache[] = {&d->cache.k, &d->cache.v};
    static const char *const names[] = {"past.k", "past.v"}, *const others[] = {"cache.k", "cache.v"};
    for (int i = 0; i < 2; i++) {
        if ((status = dims_match(names[i], past[i], 0, others[i], cache[i], 0)) ||
            (status = dims_match(names[i], past[i], 1, others[i], cache[i], 1)) ||
            (status = dims_match(names[i], past[i], 3, others[i], cache[i], 3)))
            return status;
        if (past[i]->dtype != cache[i]->dtype || past[i]->scaling != cache[i]->scaling ||
            past[i]->block[1] != cache[i]->block[1])
            return fail(TDM_BAD_ARG, "%s: got another dtype, scaling or block than %s, want the same", names[i],
                        others[i]);
    }
    if (d->past.ring || d->past.rotate_k != d->cache.rotate_k || d->past.rotate_v != d->cache.rotate_v ||
        d->past.has_k_offset != d->cache.has_k_offset)
        return fail(TDM_BAD_ARG, "past: got another rotation, offset or a ring, want them as cache has them");
    return TDM_OK;
}

tdm_status kv_append_settle(union op_desc *desc)
{
    static const struct tensor_rule rule = {4, 4, 4, FLOAT_DTYPES, 0, false};
    tdm_kv_append_desc *d = &desc->kv_append;
    tdm_status status = cache_settle("cache", &d->cache);
    if (status || (status = tensor_settle("k", &d->k, &rule)) || (status = tensor_settle("v", &d->v, &rule)))
        return status;
    for (int i = 0; i < 4; i++) {
        if (i == 2)
            continue; /* new tokens here, the capacity there */
        if ((status = dims_match("k", &d->k, i, "cache.k", &d->cache.k, i)) ||
            (status = dims_match("v", &d->v, i, "cache.v", &d->cache.v, i)))
            return status;
    }
    if (d->k.dim[2] > INT32_MAX)
        return fail(TDM_BAD_ARG, "k.dim[2]: got %lld, want at most %d", (long long)d->k.dim[2], INT32_MAX);
    if (d->k.dtype != d->v.dtype)
        return fail(TDM_BAD_ARG, "v.dtype: got %s, want %s as k", dtype_name(d->v.dtype), dtype_name(d->k.dtype));
    if ((status = dims_match("v", &d->v, 2, "k", &d->k, 2)) || (status = norm_settle("k_norm", &d->k_norm)) ||
        (status = rotary_settle(&d->rotary, d->k.dim[3])))
        return status;
    return settle_past(d);
}

static tdm_status check_past(const tdm_kv_append_desc *d, const tdm_kv_append_args *a)
{
    static const tdm_kv_data no_data;
    if (d->past.k.rank == 0)
        return memcmp(&a->past, &no_data, sizeof no_data) == 0
                   ? TDM_OK
                   : fail(TDM_BAD_ARG, "past: got a pointer, want all of it NULL as the desc has none");
    tdm_kv_data past = a->past;
    const float *scales[] = {past.k_scale, past.v_scale};
    past.k_offset = d->past.has_k_offset ? a->cache.k_offset : NULL; /* the new cache's serve both */
    past.k_scale = is_dynamic(d->past.k.scaling) ? (float *)scales[0] : a->cache.k_scale;
    past.v_scale = is_dynamic(d->past.v.scaling) ? (float *)scales[1] : a->cache.v_scale;
    return cache_check("past", &d->past, &past);
}

static tdm_status check_sequence(const tdm_kv_append_desc *d, const tdm_kv_append_args *a, int64_t b)
{
    int64_t capacity = d->cache.k.dim[2], most = d->k.dim[2];
    tdm_status status;
    if (d->cache.ring)
        most = most < capacity - d->cache.ring_sinks ? most : capacity - d->cache.ring_sinks;
    if ((status = check_length("new_len", b, a->new_len[b], 0, most)) ||
        (status = check_length("pos", b, a->pos[b], 0, (d->cache.ring ? INT32_MAX : capacity) - a->new_len[b])))
        return status;
    if (d->past.k.rank && a->pos[b] > d->past.k.dim[2])
        return fail(TDM_BAD_ARG, "pos[%lld]: got %d, want at most the %lld rows of past", (long long)b, a->pos[b],
                    (long long)d->past.k.dim[2]);
    for (int64_t i = 0; d->rotary.dtype && i < a->new_len[b]; i++)
        if ((status = position_check(&d->rotary, a->positions, b * d->k.dim[2] + i, a->pos[b] + i)))
            return status;
    return TDM_OK;
}

tdm_status kv_append_check(const union op_desc *desc, const union op_args *args)
{
    const tdm_kv_append_desc *d = &desc->kv_append;
    const tdm_kv_append_args *a = &args->kv_append;
    tdm_status status = check_data("k", a->k, d->k.dtype);
    if (status || (status = check_data("v", a->v, d->v.dtype)) ||
        (status = cache_check("cache", &d->cache, &a->cache)) ||
        (status = check_data("new_len", a->new_len, TDM_F32)) || (status = check_data("pos", a->pos, TDM_F32)) ||
        (status = optional_check("k_norm", a->k_norm, d->k_norm.dtype != 0, d->k_norm.dtype)) ||
        (status = rotary_check(&d->rotary, a->cos, a->sin, a->positions)) || (status = check_past(d, a)))
        return status;
    for (int64_t b = 0; b < d->k.dim[0]; b++)
        if ((status = check_sequence(d, a, b)))
            return status;
    return TDM_OK;
}

void kv_append_lengths(const union op_desc *desc, const union op_args *args, tdm_lengths *lengths)
{
    for (int64_t b = 0; b < desc->kv_append.k.dim[0]; b++)
        if (args->kv_append.new_len[b] > lengths->q_len)
            lengths->q_len = args->kv_append.new_len[b];
}

void kv_append_traffic(const union op_desc *desc, const union op_args *args, struct traffic *traffic)
{
    const tdm_kv_append_desc *d = &desc->kv_append;
    int64_t rows = 0, moved = 0;
    for (int64_t b = 0; b < d->k.dim[0]; b++) {
        rows += args->kv_append.new_len[b];
        moved += d->past.k.rank ? args->kv_append.pos[b] : 0;
    }
    int64_t source = row_bytes(d->k.dtype, d->k.dim[3] + d->v.dim[3]) * d->k.dim[1];
    traffic->bytes = (uint64_t)(rows * source) + cache_traffic(&d->cache, rows + 2 * moved);
    traffic->flops = (uint64_t)(rows * d->k.dim[1] * (d->k.dim[3] + d->v.dim[3]));
}
