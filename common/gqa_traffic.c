/* The ideal work of attention: what tracing and the benches divide by. Masks and trees count as if all was seen. */
#include "op_rows.h"
#include "tensor.h"

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
