/* A query row of gqa, by a warp: prepared in shared memory, and its output finished and written. */
#ifndef CUDA_GQA_ROWS_CUH
#define CUDA_GQA_ROWS_CUH

#include "gqa.h"
#include "prepare.cuh"

/* The state of a row. It sees the keys [0, sinks) and [first, end). */
struct row_state {
    float m, l;   /* the maximum of its scores, the sum of their exponentials by it */
    float shift;  /* scale * q . k_offset                                            */
    float shrink; /* what the last block multiplies the earlier o by; -1: nothing    */
    int sinks, first, end;
};

__device__ __forceinline__ bool row_sees(const row_state &row, int key)
{
    return key < row.sinks || (key >= row.first && key < row.end);
}

/* Whether the row sees one of the block's keys. */
__device__ __forceinline__ bool row_sees_any(const row_state &row, int first)
{
    return first < row.sinks || max(first, row.first) <= min(first + (KEY_BLOCK - 1), row.end - 1);
}

__device__ __forceinline__ float warp_sum(float x)
{
    for (int step = WARP / 2; step > 0; step /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

__device__ __forceinline__ float warp_max(float x)
{
    for (int step = WARP / 2; step > 0; step /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

/* ---- the query ---------------------------------------------------------------------- */

__device__ __forceinline__ row_state view_of(const gqa_params &p, const gqa_keys &keys, int64_t token)
{
    const int64_t position = keys.start + token, kv_len = keys.kv_len;
    const int64_t end = p.window_right < 0 ? kv_len : min(kv_len, position + p.window_right + 1);
    row_state row = {-INFINITY, 0.f, 0.f, -1.f, 0, 0, 0};
    row.end = static_cast<int>(max(static_cast<int64_t>(0), end));
    row.sinks = min(p.sink_tokens, row.end);
    if (p.window_left >= 0)
        row.first = static_cast<int>(max(static_cast<int64_t>(0), position - p.window_left));
    return row;
}

/* Make q the query of q_head at `token`, normed, turned, rotated, times the scale and the static scales of the keys,
 * and filled with zeros up to `padded`; returns scale * q . k_offset. */
__device__ __forceinline__ float load_query(const gqa_params &p, int64_t batch, int64_t q_head, int64_t token,
                                            int64_t position, float *q, int padded)
{
    const head_rows from = head_of(p.q, batch, q_head);
    const int n = from.channels;
    const int64_t head = q_head / p.group;
    for (int c = lane_index(); c < padded; c += WARP)
        q[c] = c < n ? number_at(from.dtype, row_at(from, token), c) : 0.f;
    __syncwarp();
    row_norm(p.prepare, q, n);
    row_turn(p.prepare, position, q);
    float shift = 0;
    if (p.prepare.offset)
        for (int c = lane_index(); c < n; c += WARP)
            shift = fmaf(q[c], p.prepare.offset[head * n + c], shift);
    shift = warp_sum(shift);
    row_rotate(p.prepare.rotation, q, n);
    float factor = p.scale;
    if (p.k.scaling == TDM_PER_TENSOR)
        factor *= p.k.scale[0];
    for (int c = lane_index(); c < n; c += WARP)
        q[c] *= p.k.scaling == TDM_PER_CHANNEL ? factor * p.k.scale[head * n + c] : factor;
    return shift * p.scale;
}

/* ---- the output ---------------------------------------------------------------------- */

/* Let the sink join the state: a score of its own without a value. Returns what o is to be multiplied by. */
__device__ __forceinline__ float add_sink(const gqa_params &p, int64_t q_head, float *m, float *l)
{
    const float sink = p.head_sink ? p.head_sink[q_head] : 0.f, before = *m;
    if (!p.has_sink || sink == -INFINITY)
        return 1.f;
    if (sink <= before) {
        *l += expf(sink - before);
        return 1.f;
    }
    const float shrink = *l == 0 ? 0.f : expf(before - sink);
    *m = sink;
    *l = *l * shrink + expf(sink - sink); /* NaN for an infinite sink */
    return shrink;
}

/* Write the output and log-sum-exp of a row from its sums o, in shared memory, and its state. The sum of the values is
 * divided by that of the weights before it is scaled: an average of equal weights is rounded once. */
__device__ __forceinline__ void finish_row(const gqa_params &p, int64_t batch, int64_t q_head, int64_t token,
                                           const row_state &row, float *o)
{
    const head_rows to = head_of(p.out, batch, q_head);
    const int n = to.channels;
    const int64_t head = q_head / p.group;
    float m = row.l == 0 ? -INFINITY : p.softcap != 0 ? row.m : row.m + row.shift; /* a NaN shift moves no key */
    float l = row.l;
    float factor = add_sink(p, q_head, &m, &l);
    if (p.v.scaling == TDM_PER_TENSOR)
        factor *= p.v.scale[0];
    for (int c = lane_index(); c < n; c += WARP) {
        const float by = p.v.scaling == TDM_PER_CHANNEL ? factor * p.v.scale[head * n + c] : factor;
        o[c] = row.l == 0 ? 0.f : __fdiv_rn(o[c], l) * by;
    }
    __syncwarp();
    row_rotate(p.rotate_v, o, n);
    for (int c = lane_index(); c < n; c += WARP)
        put_number(to.dtype, row_at(to, token), c, o[c]);
    if (p.lse && lane_index() == 0)
        p.lse[(batch * p.out.heads + q_head) * p.out.rows + token] = l == 0 ? -INFINITY : m + logf(l);
    __syncwarp();
}

#endif
