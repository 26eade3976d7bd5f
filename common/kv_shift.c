#include "error.h"
#include "op_rows.h"
#include "tensor.h"

tdm_status kv_shift_settle(union op_desc *desc)
{
    tdm_kv_shift_desc *d = &desc->kv_shift;
    tdm_status status = cache_settle("cache", &d->cache);
    if (status || (status = rotary_settle(&d->rotary, d->cache.k.dim[3])))
        return status;
    if (d->cache.ring)
        return fail(TDM_BAD_ARG, "cache.ring: got 1, want 0: a ring needs no shift");
    if (d->sinks < 0 || d->sinks > d->cache.k.dim[2])
        return fail(TDM_BAD_ARG, "sinks: got %d, want 0 to %lld", d->sinks, (long long)d->cache.k.dim[2]);
    return TDM_OK;
}

tdm_status kv_shift_check(const union op_desc *desc, const union op_args *args)
{
    const tdm_kv_shift_desc *d = &desc->kv_shift;
    const tdm_kv_shift_args *a = &args->kv_shift;
    tdm_status status = cache_check("cache", &d->cache, &a->cache);
    if (status || (status = check_data("len", a->len, TDM_F32)) || (status = check_data("drop", a->drop, TDM_F32)) ||
        (status = rotary_check(&d->rotary, a->cos, a->sin, NULL)))
        return status;
    for (int64_t b = 0; b < d->cache.k.dim[0]; b++) {
        if ((status = check_length("len", b, a->len[b], 0, d->cache.k.dim[2])))
            return status;
        int64_t most = a->len[b] > d->sinks ? a->len[b] - d->sinks : 0;
        if (d->rotary.dtype && most > d->rotary.positions - 1)
            most = d->rotary.positions - 1; /* the tables turn no farther */
        if ((status = check_length("drop", b, a->drop[b], 0, most)))
            return status;
    }
    return TDM_OK;
}

void kv_shift_traffic(const union op_desc *desc, const union op_args *args, struct traffic *traffic)
{
    const tdm_kv_shift_desc *d = &desc->kv_shift;
    int64_t moved = 0;
    for (int64_t b = 0; b < d->cache.k.dim[0]; b++)
        if (args->kv_shift.drop[b])
            moved += args->kv_shift.len[b] - args->kv_shift.drop[b] - d->sinks;
    traffic->bytes = cache_traffic(&d->cache, 2 * moved);
    traffic->flops = (uint64_t)(3 * moved * d->cache.k.dim[1] * d->rotary.dim);
}
