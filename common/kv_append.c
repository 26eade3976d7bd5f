#include "error.h"
#include "op_rows.h"
#include "tensor.h"

tdm_status kv_append_settle(union op_desc *desc)
{
    static const struct tensor_rule rule = {4, 4, 4, FLOAT_DTYPES, 0, false};
    tdm_kv_append_desc *d = &desc->kv_append;
    tdm_status status = cache_settle(&d->cache);
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
    return dims_match("v", &d->v, 2, "k", &d->k, 2);
}

tdm_status kv_append_check(const union op_desc *desc, const union op_args *args)
{
    const tdm_kv_append_desc *d = &desc->kv_append;
    const tdm_kv_append_args *a = &args->kv_append;
    tdm_status status = check_data("k", a->k, d->k.dtype);
    if (status || (status = check_data("v", a->v, d->v.dtype)) || (status = cache_check(&d->cache, &a->cache)) ||
        (status = check_data("new_len", a->new_len, TDM_F32)) || (status = check_data("pos", a->pos, TDM_F32)))
        return status;
    int64_t capacity = d->cache.k.dim[2];
    for (int64_t b = 0; b < d->k.dim[0]; b++) {
        if ((status = check_length("new_len", b, a->new_len[b], 0, d->k.dim[2])) ||
            (status = check_length("pos", b, a->pos[b], 0, capacity - a->new_len[b])))
            return status;
    }
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
    int64_t rows = 0;
    for (int64_t b = 0; b < d->k.dim[0]; b++)
        rows += args->kv_append.new_len[b];
    int64_t source = row_bytes(d->k.dtype, d->k.dim[3] + d->v.dim[3]) * d->k.dim[1];
    traffic->bytes = (uint64_t)(rows * source) + cache_traffic(&d->cache, rows);
    traffic->flops = (uint64_t)(rows * d->k.dim[1] * (d->k.dim[3] + d->v.dim[3]));
}
