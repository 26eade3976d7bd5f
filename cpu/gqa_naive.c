/* Attention with the full row of scores: one task a query token and kv head, no tiles, no merging. */
#include "gqa.h"

#include <math.h>

/* Scratch of one worker. */
struct naive_layout {
    int64_t q_stride, s_stride, o_stride;
    size_t q, s, o, m, l, size;
};

static struct naive_layout lay_out(const tdm_gqa_desc *d)
{
    int64_t group = d->q.dim[1] / d->cache.k.dim[1];
    struct naive_layout n = {padded(d->q.dim[3]), padded(d->cache.k.dim[2]), padded(d->out.dim[3]), 0, 0, 0, 0, 0, 0};
    struct layout layout = {0};
    n.q = layout_add(&layout, group * n.q_stride, sizeof(float));
    n.s = layout_add(&layout, group * n.s_stride, sizeof(float));
    n.o = layout_add(&layout, group * n.o_stride, sizeof(float));
    n.m = layout_add(&layout, group, sizeof(float));
    n.l = layout_add(&layout, group, sizeof(float));
    n.size = layout.size;
    return n;
}

static size_t naive_workspace(const struct tdm_op *op)
{
    struct layout layout = {0};
    layout_add(&layout, op->services->threads, lay_out(&op->desc.gqa).size);
    return layout.size;
}

static void attend(const struct gqa *g, int64_t batch, int64_t head, int64_t token, char *scratch)
{
    struct naive_layout n = lay_out(g->desc);
    float *q = at(scratch, (int64_t)n.q), *s = at(scratch, (int64_t)n.s), *o = at(scratch, (int64_t)n.o);
    float *m = at(scratch, (int64_t)n.m), *l = at(scratch, (int64_t)n.l);
    const tdm_kv_data *cache = &g->args->cache;
    struct span span = gqa_visible(g, batch, token);
    int rows = (int)g->group, keys = (int)(span.end - span.first);
    struct head_rows k = head_rows(&g->desc->cache.k, cache->k, cache->k_scale, batch, head, span.first);
    struct head_rows v = head_rows(&g->desc->cache.v, cache->v, cache->v_scale, batch, head, span.first);
    for (int r = 0; r < rows; r++)
        m[r] = -INFINITY, l[r] = 0;
    if (keys) {
        gqa_load_queries(g, batch, head, token * g->group, rows, q, n.q_stride);
        g->leaf->qk[cpu_leaf_type(k.dtype)](q, n.q_stride, (struct leaf_rows){k.data, k.stride}, s, n.s_stride, rows,
                                            keys, (int)g->k_dim, false);
        for (int r = 0; r < rows; r++)
            g->leaf->softmax(s + r * n.s_stride, keys, k.scaling == TDM_PER_TOKEN ? k.scale : NULL,
                             v.scaling == TDM_PER_TOKEN ? v.scale : NULL, &m[r], &l[r]);
        g->leaf->sv[cpu_leaf_type(v.dtype)](s, n.s_stride, (struct leaf_rows){v.data, v.stride}, o, n.o_stride, rows,
                                            keys, (int)g->v_dim, false);
    }
    gqa_store_output(g, batch, head, token * g->group, rows, o, n.o_stride, m, l);
}

static void naive_task(void *arg, int64_t task, int worker)
{
    const struct gqa *g = arg;
    int64_t per_sequence = g->kv_heads * g->desc->q.dim[2];
    int64_t batch = task / per_sequence, head = task % per_sequence / g->desc->q.dim[2];
    int64_t token = task % g->desc->q.dim[2];
    if (token < g->args->q_len[batch])
        attend(g, batch, head, token, at(g->scratch, worker * (int64_t)lay_out(g->desc).size));
}

static tdm_status naive_run(const struct tdm_op *op, const struct run *run)
{
    struct gqa g = gqa_open(op, run);
    op->services->parallel_for(op->services->ctx, g.desc->q.dim[0] * g.kv_heads * g.desc->q.dim[2], naive_task, &g);
    return TDM_OK;
}

const struct impl cpu_gqa_naive = {.name = "naive", .op = OP_GQA, .workspace = naive_workspace, .run = naive_run};
