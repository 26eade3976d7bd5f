#include "gqa.h"

#include <math.h>
#include <string.h>

struct gqa gqa_open(const struct tdm_op *op, const struct run *run)
{
    const tdm_gqa_desc *d = &op->desc.gqa;
    return (struct gqa){.desc = d,
                        .args = run->args,
                        .leaf = cpu_leaf_for(op, &run->lengths),
                        .kv_heads = d->cache.k.dim[1],
                        .group = d->q.dim[1] / d->cache.k.dim[1],
                        .k_dim = d->q.dim[3],
                        .v_dim = d->out.dim[3],
                        .scratch = run->scratch};
}

struct span gqa_visible(const struct gqa *g, int64_t batch, int64_t token)
{
    int64_t kv_len = g->args->kv_len[batch], position = kv_len - g->args->q_len[batch] + token;
    int32_t left = g->desc->window_left, right = g->desc->window_right;
    struct span span = {left < 0 ? 0 : max64(0, position - left),
                        right < 0 ? kv_len : min64(kv_len, position + right + 1)};
    if (span.end <= span.first)
        span = (struct span){0, 0};
    return span;
}

struct span gqa_visible_to_any(const struct gqa *g, int64_t batch, int64_t first, int64_t last)
{
    /* Both ends of the window move with the token, so the outermost tokens that see anything bound it. */
    struct span low = {0, 0}, high = {0, 0};
    for (; first <= last && low.end == 0; first++)
        low = gqa_visible(g, batch, first);
    for (; last >= first && high.end == 0; last--)
        high = gqa_visible(g, batch, last);
    return (struct span){low.first, max64(low.end, high.end)};
}

static const void *row_at(const tdm_tensor *tensor, const void *data, int64_t batch, int64_t head, int64_t token)
{
    return at(data, batch * tensor->stride[0] + head * tensor->stride[1] + token * tensor->stride[2]);
}

void gqa_load_queries(const struct gqa *g, int64_t batch, int64_t head, int64_t first, int rows, float *q,
                      int64_t q_stride)
{
    const tdm_tensor *k = &g->desc->cache.k;
    const float *k_scale = g->args->cache.k_scale, *by_channel = NULL;
    float factor = g->desc->scale;
    if (k->scaling == TDM_PER_TENSOR)
        factor *= k_scale[0];
    else if (k->scaling == TDM_PER_CHANNEL)
        by_channel = k_scale + head * g->k_dim;
    for (int r = 0; r < rows; r++) {
        int64_t token = (first + r) / g->group, q_head = head * g->group + (first + r) % g->group;
        struct leaf_rows source = {row_at(&g->desc->q, g->args->q, batch, q_head, token), 0};
        g->leaf->widen[cpu_leaf_type(g->desc->q.dtype)](source, q + r * q_stride, q_stride, 1, (int)g->k_dim);
        g->leaf->scale(q + r * q_stride, by_channel, factor, g->k_dim);
    }
}

void gqa_store_output(const struct gqa *g, int64_t batch, int64_t head, int64_t first, int rows, float *o,
                      int64_t o_stride, const float *m, const float *l)
{
    const tdm_tensor *v = &g->desc->cache.v, *out = &g->desc->out;
    const float *v_scale = g->args->cache.v_scale, *by_channel = NULL;
    float factor = 1;
    if (v->scaling == TDM_PER_TENSOR)
        factor = v_scale[0];
    else if (v->scaling == TDM_PER_CHANNEL)
        by_channel = v_scale + head * g->v_dim;
    for (int r = 0; r < rows; r++) {
        int64_t token = (first + r) / g->group, q_head = head * g->group + (first + r) % g->group;
        float *row = o + r * o_stride;
        if (l[r] == 0) /* no visible key: o was never written */
            memset(row, 0, (size_t)g->v_dim * sizeof *row);
        else
            g->leaf->scale(row, by_channel, factor / l[r], g->v_dim);
        cpu_narrow(g->leaf, row, out->dtype, (void *)row_at(out, g->args->out, batch, q_head, token), g->v_dim);
        if (g->args->lse)
            g->args->lse[(batch * out->dim[1] + q_head) * out->dim[2] + token] =
                l[r] == 0 ? -INFINITY : m[r] + logf(l[r]);
    }
}
