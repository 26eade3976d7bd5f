#include "error.h"
#include "op_rows.h"
#include "tensor.h"

#include <math.h>
#include <string.h>

enum { TREE_TOKENS = 64 }; /* bits of a row of the tree */

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

/* Something indexed by [batch, head, query, key]; broadcast says that its outer dimensions may be 1. */
static tdm_status settle_plane(const char *field, const tdm_gqa_desc *d, tdm_tensor *plane, unsigned dtypes,
                               bool broadcast)
{
    const struct tensor_rule rule = {4, 4, 4, dtypes, 0, false};
    static const tdm_tensor none;
    if (plane->rank == 0)
        return memcmp(plane, &none, sizeof none) == 0
                   ? TDM_OK
                   : fail(TDM_BAD_ARG, "%s.rank: got 0 with other fields set, want 4, or all of it 0", field);
    tdm_status status = tensor_settle(field, plane, &rule);
    for (int i = 0; i < 3 && !status; i++)
        if (!broadcast || plane->dim[i] != 1)
            status = dims_match(field, plane, i, "q", &d->q, i);
    return status;
}

static tdm_status check_numbers(const tdm_gqa_desc *d)
{
    if (!isfinite(d->scale))
        return fail(TDM_BAD_ARG, "scale: got %f, want a finite number", (double)d->scale);
    if (d->window_left < -1)
        return fail(TDM_BAD_ARG, "window_left: got %d, want -1 or more", d->window_left);
    if (d->window_right < -1)
        return fail(TDM_BAD_ARG, "window_right: got %d, want -1 or more", d->window_right);
    if (d->sink_tokens < 0)
        return fail(TDM_BAD_ARG, "sink_tokens: got %d, want 0 or more", d->sink_tokens);
    if (d->cache.ring && d->sink_tokens > d->cache.ring_sinks)
        return fail(TDM_BAD_ARG, "sink_tokens: got %d, want at most the %d that the ring keeps", d->sink_tokens,
                    d->cache.ring_sinks);
    if (!(d->softcap >= 0) || isinf(d->softcap))
        return fail(TDM_BAD_ARG, "softcap: got %g, want 0, or a positive finite number", (double)d->softcap);
    return TDM_OK;
}

static tdm_status check_flags(const tdm_gqa_desc *d)
{
    tdm_status status = flag_check("has_head_sink", d->has_head_sink);
    if (status || (status = flag_check("smooth_softmax", d->smooth_softmax)) ||
        (status = flag_check("has_alibi", d->has_alibi)) || (status = flag_check("has_tree", d->has_tree)))
        return status;
    if (d->smooth_softmax && d->has_head_sink)
        return fail(TDM_BAD_ARG, "smooth_softmax: got 1 with has_head_sink, want one sink");
    if (d->has_tree && d->q.dim[2] > TREE_TOKENS)
        return fail(TDM_BAD_ARG, "q.dim[2]: got %lld with a tree, want at most %d", (long long)d->q.dim[2],
                    TREE_TOKENS);
    if (d->capture < TDM_CAPTURE_NONE || d->capture > TDM_CAPTURE_PROBABILITIES)
        return fail(TDM_BAD_ARG, "capture: got %d, want a tdm_capture", (int)d->capture);
    if ((d->capture == TDM_CAPTURE_NONE) != (d->scores.rank == 0))
        return fail(TDM_BAD_ARG, "scores.rank: got %d with capture %d, want 4 exactly with a capture", d->scores.rank,
                    (int)d->capture);
    return TDM_OK;
}

tdm_status gqa_settle(union op_desc *desc)
{
    static const struct tensor_rule rule = {4, 4, 4, FLOAT_DTYPES, 0, false};
    tdm_gqa_desc *d = &desc->gqa;
    tdm_status status = cache_settle("cache", &d->cache);
    if (status || (status = tensor_settle("q", &d->q, &rule)) || (status = tensor_settle("out", &d->out, &rule)) ||
        (status = check_shapes(d)) || (status = check_numbers(d)) || (status = norm_settle("q_norm", &d->q_norm)) ||
        (status = rotary_settle(&d->rotary, d->q.dim[3])) || (status = check_flags(d)) ||
        (status = settle_plane("bias", d, &d->bias, FLOAT_DTYPES, true)) ||
        (status = settle_plane("mask", d, &d->mask, MASK_DTYPES, true)) ||
        (status = settle_plane("scores", d, &d->scores, FLOAT_DTYPES, false)))
        return status;
    if (d->scale == 0)
        d->scale = (float)(1 / sqrt((double)d->q.dim[3]));
    return TDM_OK;
}

static tdm_status check_pointers(const tdm_gqa_desc *d, const tdm_gqa_args *a)
{
    tdm_status status = check_data("q", a->q, d->q.dtype);
    if (status || (status = check_data("out", a->out, d->out.dtype)) ||
        (status = cache_check("cache", &d->cache, &a->cache)) || (status = check_data("q_len", a->q_len, TDM_F32)) ||
        (status = check_data("kv_len", a->kv_len, TDM_F32)) ||
        (status = a->lse ? check_data("lse", a->lse, TDM_F32) : TDM_OK) ||
        (status = optional_check("q_norm", a->q_norm, d->q_norm.dtype != 0, d->q_norm.dtype)) ||
        (status = rotary_check(&d->rotary, a->cos, a->sin, a->positions)) ||
        (status = optional_check("bias", a->bias, d->bias.rank != 0, d->bias.dtype)) ||
        (status = optional_check("mask", a->mask, d->mask.rank != 0, d->mask.dtype)) ||
        (status = optional_check("scores", a->scores, d->scores.rank != 0, d->scores.dtype)) ||
        (status = optional_check("head_sink", a->head_sink, d->has_head_sink, TDM_F32)) ||
        (status = optional_check("alibi", a->alibi, d->has_alibi, TDM_F32)))
        return status;
    if ((uintptr_t)a->tree % sizeof *a->tree)
        return fail(TDM_BAD_ARG, "tree: got %p, want a multiple of %zu", (const void *)a->tree, sizeof *a->tree);
    return optional_check("tree", a->tree, d->has_tree, TDM_F32);
}

/* The query of one token: its tree bits and its rotary position. */
static tdm_status check_query(const tdm_gqa_desc *d, const tdm_gqa_args *a, int64_t b, int64_t i)
{
    int64_t index = b * d->q.dim[2] + i, q_len = a->q_len[b], position = a->kv_len[b] - q_len + i;
    if (d->has_tree) {
        if (q_len < TREE_TOKENS && a->tree[index] >> q_len)
            return fail(TDM_BAD_ARG, "tree[%lld]: got a bit past the %lld new tokens, want 0 there", (long long)index,
                        (long long)q_len);
        if (!(a->tree[index] >> i & 1))
            return fail(TDM_BAD_ARG, "tree[%lld]: got bit %lld clear, want every query to see itself", (long long)index,
                        (long long)i);
        position = a->kv_len[b] - q_len - 1 + __builtin_popcountll(a->tree[index]);
    }
    return d->rotary.dtype ? position_check(&d->rotary, a->positions, index, position) : TDM_OK;
}

static tdm_status check_sequence(const tdm_gqa_desc *d, const tdm_gqa_args *a, int64_t b)
{
    static const char *const names[] = {"bias", "mask", "scores"};
    const tdm_tensor *planes[] = {&d->bias, &d->mask, &d->scores};
    int64_t capacity = d->cache.k.dim[2], kv_len = a->kv_len[b], kept = capacity - d->cache.ring_sinks;
    tdm_status status = check_length("q_len", b, a->q_len[b], 0, d->q.dim[2]);
    if (status || (status = check_length("kv_len", b, kv_len, 0, d->cache.ring ? INT32_MAX : capacity)))
        return status;
    for (int i = 0; i < 3; i++)
        if (planes[i]->rank && kv_len > planes[i]->dim[3])
            return fail(TDM_BAD_ARG, "kv_len[%lld]: got %lld, want at most the %lld keys of %s", (long long)b,
                        (long long)kv_len, (long long)planes[i]->dim[3], names[i]);
    if (kv_len > capacity && (d->window_left < 0 || d->window_left + (int64_t)a->q_len[b] > kept))
        return fail(TDM_BAD_ARG,
                    "q_len[%lld]: got %d with window_left %d, want a window that with q_len fits the %lld "
                    "rows of the ring",
                    (long long)b, a->q_len[b], d->window_left, (long long)kept);
    for (int64_t i = 0; i < a->q_len[b] && (d->has_tree || d->rotary.dtype); i++)
        if ((status = check_query(d, a, b, i)))
            return status;
    return TDM_OK;
}

tdm_status gqa_check(const union op_desc *desc, const union op_args *args)
{
    const tdm_gqa_desc *d = &desc->gqa;
    tdm_status status = check_pointers(d, &args->gqa);
    for (int64_t b = 0; b < d->q.dim[0] && !status; b++)
        status = check_sequence(d, &args->gqa, b);
    return status;
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
