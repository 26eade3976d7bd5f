#include "error.h"
#include "op_rows.h"
#include "tensor.h"

#include <math.h>
#include <string.h>

void tdm_gqa_desc_init(tdm_gqa_desc *desc)
{
    if (!desc)
        return;
    memset(desc, 0, sizeof *desc);
    desc->struct_size = sizeof *desc;
    desc->window_left = -1;
}

static tdm_status check_shapes(const tdm_gqa_desc *d)
{
    tdm_status status = dims_match("q", &d->q, 0, "cache.k", &d->cache.k, 0);
    if (status || (status = dims_match("q", &d->q, 3, "cache.k", &d->cache.k, 3)) ||
        (status = dims_match("out", &d->out, 3, "cache.v", &d->cache.v, 3)))
        return status;
    for (int i = 0; i < 3; i++) {
        if ((status = dims_match("out", &d->out, i, "q", &d->q, i)))
            return status;
        if (d->q.dim[i] > INT32_MAX)
            return fail(TDM_BAD_ARG, "q.dim[%d]: got %lld, want at most %d", i, (long long)d->q.dim[i], INT32_MAX);
    }
    if (d->q.dim[1] % d->cache.k.dim[1])
        return fail(TDM_BAD_ARG, "q.dim[1]: got %lld query heads, want a multiple of the %lld kv heads",
                    (long long)d->q.dim[1], (long long)d->cache.k.dim[1]);
    if (d->q.dtype != d->out.dtype)
        return fail(TDM_BAD_ARG, "out.dtype: got %s, want %s as q", dtype_name(d->out.dtype), dtype_name(d->q.dtype));
    return TDM_OK;
}

tdm_status gqa_settle(union op_desc *desc)
{
    static const struct tensor_rule rule = {4, 4, 4, FLOAT_DTYPES, 0, false};
    tdm_gqa_desc *d = &desc->gqa;
    tdm_status status = cache_settle(&d->cache);
    if (status || (status = tensor_settle("q", &d->q, &rule)) || (status = tensor_settle("out", &d->out, &rule)) ||
        (status = check_shapes(d)))
        return status;
    if (!isfinite(d->scale))
        return fail(TDM_BAD_ARG, "scale: got %f, want a finite number", (double)d->scale);
    if (d->scale == 0)
        d->scale = (float)(1 / sqrt((double)d->q.dim[3]));
    if (d->window_left < -1)
        return fail(TDM_BAD_ARG, "window_left: got %d, want -1 or more", d->window_left);
    if (d->window_right < -1)
        return fail(TDM_BAD_ARG, "window_right: got %d, want -1 or more", d->window_right);
    return TDM_OK;
}

tdm_status gqa_check(const union op_desc *desc, const union op_args *args)
{
    const tdm_gqa_desc *d = &desc->gqa;
    const tdm_gqa_args *a = &args->gqa;
    tdm_status status = check_data("q", a->q, d->q.dtype);
    if (status || (status = check_data("out", a->out, d->out.dtype)) || (status = cache_check(&d->cache, &a->cache)) ||
        (status = check_data("q_len", a->q_len, TDM_F32)) || (status = check_data("kv_len", a->kv_len, TDM_F32)))
        return status;
    if (a->lse && (status = check_data("lse", a->lse, TDM_F32)))
        return status;
    for (int64_t b = 0; b < d->q.dim[0]; b++)
        if ((status = check_length("q_len", b, a->q_len[b], 0, d->q.dim[2])) ||
            (status = check_length("kv_len", b, a->kv_len[b], 0, d->cache.k.dim[2])))
            return status;
    return TDM_OK;
}

void gqa_lengths(const union op_desc *desc, const union op_args *args, tdm_lengths *lengths)
{
    for (int64_t b = 0; b < desc->gqa.q.dim[0]; b++) {
        if (args->gqa.q_len[b] > lengths->q_len)
            lengths->q_len = args->gqa.q_len[b];
        if (args->gqa.kv_len[b] > lengths->kv_len)
            lengths->kv_len = args->gqa.kv_len[b];
    }
}

/* Sum of the keys that each query of one sequence sees. */
static int64_t visible_pairs(const tdm_gqa_desc *d, int64_t q_len, int64_t kv_len)
{
    int64_t pairs = 0;
    for (int64_t i = 0; i < q_len; i++) {
        int64_t position = kv_len - q_len + i;
        int64_t first = d->window_left < 0 || position < d->window_left ? 0 : position - d->window_left;
        int64_t end =
            d->window_right < 0 || position + d->window_right >= kv_len ? kv_len : position + d->window_right + 1;
        pairs += end > first ? end - first : 0;
    }
    return pairs;
}

/* Keys that any query of one sequence sees: the last query sees up to the end, the first the farthest back. */
static int64_t visible_keys(const tdm_gqa_desc *d, int64_t q_len, int64_t kv_len)
{
    int64_t first = d->window_left < 0 ? 0 : kv_len - q_len - d->window_left;
    return q_len == 0 ? 0 : kv_len - (first > 0 ? first : 0);
}

void gqa_traffic(const union op_desc *desc, const union op_args *args, struct traffic *traffic)
{
    const tdm_gqa_desc *d = &desc->gqa;
    int64_t heads = d->q.dim[1], width = d->q.dim[3] + d->out.dim[3];
    for (int64_t b = 0; b < d->q.dim[0]; b++) {
        int64_t q_len = args->gqa.q_len[b], kv_len = args->gqa.kv_len[b];
        traffic->bytes += (uint64_t)(row_bytes(d->q.dtype, width) * heads * q_len);
        traffic->bytes += cache_traffic(&d->cache, visible_keys(d, q_len, kv_len));
        traffic->flops += (uint64_t)(2 * visible_pairs(d, q_len, kv_len) * heads * width);
    }
}
