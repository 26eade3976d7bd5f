/* What is done with a cache object: append, attend, truncate, read back. */
#include "cache_object.h"
#include "error.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

static tdm_status no_cache(void)
{
    return fail(TDM_BAD_ARG, "cache: got NULL, want a cache");
}

/* Room for the tokens, and in a ring for all that the first of them sees. What is no length is left to the op. */
static tdm_status check_room(const tdm_cache *c, const int32_t *new_len)
{
    int64_t capacity = c->desc.k.dim[2];
    for (int64_t b = 0; b < c->desc.k.dim[0] && new_len; b++) {
        int64_t room = capacity - c->length[b], grown = c->length[b] + (int64_t)new_len[b];
        if (c->desc.ring)
            room = capacity - c->desc.ring_sinks - c->window_left;
        if (grown > capacity && new_len[b] > room)
            return fail(TDM_BAD_ARG, "new_len[%lld]: got %d, want at most %lld (%d tokens are in the %s of %lld rows)",
                        (long long)b, new_len[b], (long long)(room > 0 ? room : 0), c->length[b],
                        c->desc.ring ? "ring" : "cache", (long long)capacity);
    }
    return TDM_OK;
}

tdm_status tdm_cache_append(tdm_cache *c, void *stream, const void *k, const void *v, const int32_t *new_len)
{
    if (!c)
        return no_cache();
    tdm_status status = check_room(c, new_len);
    if (status)
        return status;
    tdm_kv_append_args args = c->append;
    args.k = k;
    args.v = v;
    args.new_len = new_len;
    status = tdm_kv_append_run(c->part[CACHE_APPEND].op, c->part[CACHE_APPEND].workspace, stream, &args);
    for (int64_t b = 0; b < c->desc.k.dim[0] && !status; b++) {
        c->length[b] += new_len[b];
        c->newest[b] = c->length[b] > c->newest[b] ? c->length[b] : c->newest[b];
    }
    return status;
}

tdm_status tdm_cache_attend(tdm_cache *c, void *stream, const void *q, const int32_t *q_len, void *out, float *lse)
{
    if (!c)
        return no_cache();
    tdm_gqa_args args = c->attend;
    args.q = q;
    args.q_len = q_len;
    args.out = out;
    args.lse = lse;
    return tdm_gqa_run(c->part[CACHE_ATTEND].op, c->part[CACHE_ATTEND].workspace, stream, &args);
}

/* ---- truncating -------------------------------------------------------------------------- */

/* Whether a sequence has lost tokens to its ring. */
static bool has_evicted(const tdm_cache *c, int64_t b)
{
    return c->desc.ring && c->newest[b] > c->desc.k.dim[2];
}

tdm_status tdm_cache_truncate(tdm_cache *c, int32_t sequence, int32_t length)
{
    if (!c)
        return no_cache();
    if (sequence < 0 || sequence >= c->desc.k.dim[0])
        return fail(TDM_BAD_ARG, "sequence: got %d, want 0 to %lld", sequence, (long long)c->desc.k.dim[0] - 1);
    if (length < 0 || length > c->length[sequence])
        return fail(TDM_BAD_ARG, "length: got %d, want 0 to the %d of sequence %d", length, c->length[sequence],
                    sequence);
    bool whole = !has_evicted(c, sequence) || length <= c->desc.ring_sinks; /* each token that is left is still there */
    int64_t taken = (int64_t)c->newest[sequence] - length;
    int64_t most = c->desc.k.dim[2] - c->desc.ring_sinks - c->window_left - (int64_t)c->max_q;
    if (!whole && taken > most)
        return fail(TDM_BAD_ARG,
                    "length: got %d, want at most %lld tokens less than the %d that the ring has seen, or at most "
                    "its %d sinks",
                    length, (long long)(most < 0 ? 0 : most), c->newest[sequence], c->desc.ring_sinks);
    c->length[sequence] = length;
    if (whole)
        c->newest[sequence] = length;
    return TDM_OK;
}

/* ---- reading back -------------------------------------------------------------------------- */

/* Whether a row of sequence b holds a token that has not been taken back. */
static bool in_use(const tdm_cache *c, int64_t b, int64_t row)
{
    int64_t sinks = c->desc.ring_sinks, kept = c->desc.k.dim[2] - sinks;
    if (!has_evicted(c, b) || row < sinks)
        return row < c->length[b];
    int64_t oldest = c->newest[b] - kept; /* the rows hold the positions from here on, up to the newest */
    int64_t ahead = (row - sinks - (oldest - sinks) % kept + kept) % kept;
    return oldest + ahead < c->length[b];
}

/* The transform is its own inverse: see tdm_kv_cache. */
static void rotate(float *x, int64_t n)
{
    int64_t block = n & -n;
    float factor = (float)(1 / sqrt((double)block));
    for (int64_t h = 1; h < block; h *= 2)
        for (int64_t i = 0; i < n; i++)
            if (!(i & h)) {
                float a = x[i], b = x[i + h];
                x[i] = a + b;
                x[i + h] = a - b;
            }
    for (int64_t i = 0; i < n && block > 1; i++)
        x[i] *= factor;
}

/* Stored rows, dequantized, become what was appended; whatever floating-point state the caller is in. */
static void restore(const tdm_cache *c, const tdm_tensor *half, bool rotated, const float *offset, float *x)
{
    int64_t heads = half->dim[1], rows = half->dim[2], n = half->dim[3];
    fenv_t caller;
    fegetenv(&caller);
    fesetenv(FE_DFL_ENV);
    for (int64_t row = 0; row < half->dim[0] * heads * rows; row++, x += n) {
        int64_t b = row / rows / heads, h = row / rows % heads;
        if (!in_use(c, b, row % rows)) {
            memset(x, 0, (size_t)n * sizeof *x);
            continue;
        }
        if (rotated)
            rotate(x, n);
        for (int64_t i = 0; i < n && offset; i++)
            x[i] += offset[h * n + i];
    }
    fesetenv(&caller);
}

static tdm_status read_half(const tdm_cache *c, enum cache_part part, const void *data, float *scale, float *out)
{
    tdm_convert_args args = TDM_INIT(tdm_convert_args);
    args.src = data;
    args.dst = out;
    args.scale = scale;
    return tdm_dequantize_run(c->part[part].op, c->part[part].workspace, NULL, &args);
}

tdm_status tdm_cache_dequantize(tdm_cache *c, float *k, float *v)
{
    if (!c)
        return no_cache();
    if (c->device.kind != TDM_CPU)
        return fail(TDM_UNSUPPORTED, "cache: got one on a GPU, want one on the CPU");
    if ((uintptr_t)k % sizeof *k || (uintptr_t)v % sizeof *v)
        return fail(TDM_BAD_ARG, "%s: got an odd address, want a multiple of %zu", (uintptr_t)k % sizeof *k ? "k" : "v",
                    sizeof *k);
    tdm_status status = k ? read_half(c, CACHE_READ_K, c->data.k, c->data.k_scale, k) : TDM_OK;
    if (!status && v)
        status = read_half(c, CACHE_READ_V, c->data.v, c->data.v_scale, v);
    if (!status && k)
        restore(c, &c->desc.k, c->desc.rotate_k, c->data.k_offset, k);
    if (!status && v)
        restore(c, &c->desc.v, c->desc.rotate_v, NULL, v);
    return status;
}
