#include "gqa.h"

#include "prepare.h"

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

/* ---- queries ---------------------------------------------------------------------- */

int64_t query_position(const struct gqa *g, int64_t batch, int64_t token)
{
    int64_t start = g->args->kv_len[batch] - g->args->q_len[batch];
    if (!g->desc->has_tree)
        return start + token;
    return start - 1 + __builtin_popcountll(g->args->tree[batch * g->desc->q.dim[2] + token]);
}

static int64_t rotary_position(const struct gqa *g, int64_t batch, int64_t token)
{
    const int32_t *positions = g->args->positions;
    return positions ? positions[batch * g->desc->q.dim[2] + token] : query_position(g, batch, token);
}

/* One query as the cache's keys are: returns scale * q . k_offset. */
static float prepare_query(const struct gqa *g, int64_t batch, int64_t head, int64_t token, float *q)
{
    const tdm_gqa_desc *d = g->desc;
    const float *offset = g->args->cache.k_offset;
    int channels = (int)g->k_dim;
    float shift = 0;
    row_norm(g->leaf, &d->q_norm, g->args->q_norm, q, channels);
    if (d->rotary.dtype)
        row_turn(g->leaf, &d->rotary, g->args->cos, g->args->sin, rotary_position(g, batch, token), false, q);
    if (offset) {
        struct leaf_rows row = {offset + head * channels, 0, NULL};
        g->leaf->qk[LEAF_F32](q, 0, row, &shift, 0, 1, 1, channels, false);
    }
    if (d->cache.rotate_k)
        row_rotate(g->leaf, q, channels);
    return shift * d->scale;
}

void gqa_load_queries(const struct gqa *g, int64_t batch, int64_t head, int64_t first, int rows, float *q,
                      int64_t q_stride, float *shift)
{
    const tdm_tensor *k = &g->desc->cache.k;
    const float *k_scale = g->args->cache.k_scale, *by_channel = NULL;
    float factor = g->desc->scale;
    if (k->scaling == TDM_PER_TENSOR)
        factor *= k_scale[0];
    else if (k->scaling == TDM_PER_CHANNEL)
        by_channel = k_scale + head * g->k_dim;
    for (int r = 0; r < rows; r++, q += q_stride) {
        int64_t token = row_token(g, first + r);
        struct leaf_rows source = {cpu_row(&g->desc->q, g->args->q, batch, row_head(g, head, first + r), token), 0,
                                   NULL};
        g->leaf->widen[cpu_leaf_type(g->desc->q.dtype)](source, q, q_stride, 1, (int)g->k_dim);
        shift[r] = prepare_query(g, batch, head, token, q);
        g->leaf->scale(q, by_channel, factor, g->k_dim);
    }
}

/* ---- output ----------------------------------------------------------------------- */

/* Let the sink join the softmax state: a score of its own without a value. */
static void add_sink(const struct gqa *g, int64_t q_head, float *m, float *l, float *shrink)
{
    if (!g->desc->has_head_sink && !g->desc->smooth_softmax)
        return;
    float sink = g->desc->has_head_sink ? g->args->head_sink[q_head] : 0, before = *m;
    if (sink > before || isnan(sink)) {
        *m = sink;
        *shrink = *l == 0 ? 0 : expf(before - sink);
        *l = *l * *shrink + expf(sink - sink);
    } else if (sink != -INFINITY) {
        *l += expf(sink - before);
    }
}

/* The sum of the values over that of the weights, divided before it is scaled: an average of equal weights is rounded
 * once. */
static void finish_row(const struct gqa *g, float *o, float sum, const float *by_channel, float factor)
{
    for (int64_t c = 0; c < g->v_dim; c++)
        o[c] /= sum;
    g->leaf->scale(o, by_channel, factor, g->v_dim);
}

void gqa_store_output(const struct gqa *g, int64_t batch, int64_t head, int64_t first, int rows, float *o,
                      int64_t o_stride, const float *unit, float *m, float *l, const float *shift)
{
    const tdm_tensor *v = &g->desc->cache.v, *out = &g->desc->out;
    const float *v_scale = g->args->cache.v_scale, *by_channel = NULL;
    float static_scale = 1;
    if (v->scaling == TDM_PER_TENSOR)
        static_scale = v_scale[0];
    else if (v->scaling == TDM_PER_CHANNEL)
        by_channel = v_scale + head * g->v_dim;
    for (int r = 0; r < rows; r++) {
        int64_t token = row_token(g, first + r), q_head = row_head(g, head, first + r);
        float *row = o + r * o_stride, later = gqa_shifts_scores(g) ? 0 : shift[r];
        float top = l[r] == 0 ? -INFINITY : m[r] + later, sum = l[r], shrink = 1; /* a NaN shift moves no key */
        add_sink(g, q_head, &top, &sum, &shrink);
        if (l[r] == 0) /* no visible key: o was never written */
            memset(row, 0, (size_t)g->v_dim * sizeof *row);
        else
            finish_row(g, row, sum, by_channel, static_scale * unit[r] * shrink);
        if (g->desc->cache.rotate_v)
            row_rotate(g->leaf, row, (int)g->v_dim);
        cpu_narrow(g->leaf, row, out->dtype, cpu_row(out, g->args->out, batch, q_head, token), g->v_dim);
        float lse = sum == 0 ? -INFINITY : top + logf(sum);
        if (g->args->lse)
            g->args->lse[(batch * out->dim[1] + q_head) * out->dim[2] + token] = lse;
        m[r] = top;
        l[r] = sum;
    }
}
