/* Attention with the full row of scores: one task a query token and kv head, one softmax over all keys, no merging. */
#include "gqa_tile.h"

#include <string.h>

/* Scratch of one worker: a tile whose scores are all keys', and the V scale of each. */
struct naive_layout {
    struct tile_layout tile;
    size_t scratch, v_scale, size;
};

static struct naive_layout lay_out(const tdm_gqa_desc *d)
{
    struct naive_layout n = {.tile = tile_lay_out(d, d->q.dim[1] / d->cache.k.dim[1], d->cache.k.dim[2])};
    struct layout layout = {0};
    n.scratch = layout_add(&layout, 1, n.tile.size);
    n.v_scale = layout_add(&layout, d->cache.k.dim[2], sizeof(float));
    n.size = layout.size;
    return n;
}

static size_t naive_workspace(const struct tdm_op *op)
{
    struct layout layout = {0};
    layout_add(&layout, op->services->threads, lay_out(&op->desc.gqa).size);
    return layout.size;
}

/* Run `step` on each run of keys with where its scores stand. */
typedef void block_step(struct tile *t, struct keys keys, float *s, bool first);

static void each_block(struct tile *t, block_step *step)
{
    int64_t end = view_count(t->view);
    for (int64_t index = 0; index < end;) {
        struct keys keys = view_keys(t->g, t->view, index, end, KEY_BLOCK);
        step(t, keys, t->s + index, index == 0);
        index += keys.n;
    }
}

static void score_block(struct tile *t, struct keys keys, float *s, bool first)
{
    (void)first;
    tile_scores(t, keys, s, true); /* of every key: unseen ones are masked */
    for (int r = 0; r < t->rows; r++) {
        struct span all = {0, keys.n};
        const float *k_scale = tile_edit(t, r, keys, all, s + r * t->layout.s_stride);
        if (k_scale)
            t->g->leaf->score(s + r * t->layout.s_stride, keys.n, &(struct leaf_edit){.k_scale = k_scale});
    }
}

static void value_block(struct tile *t, struct keys keys, float *s, bool first)
{
    tile_values(t, keys, s, tile_sees_all(t, keys), !first);
}

/* The V scale of every key in view, or NULL where none is per token. */
static const float *gather_v_scales(const struct tile *t, float *scales)
{
    int64_t end = view_count(t->view);
    if (t->v.scaling != TDM_PER_TOKEN)
        return NULL;
    for (int64_t index = 0; index < end;) {
        struct keys keys = view_keys(t->g, t->view, index, end, end);
        memcpy(scales + index, t->v.scale + keys.row, (size_t)keys.n * sizeof *scales);
        index += keys.n;
    }
    return scales;
}

static void attend(const struct gqa *g, int64_t batch, int64_t head, int64_t token, void *scratch)
{
    struct naive_layout n = lay_out(g->desc);
    struct tile t = tile_open(g, batch, head, token * g->group, (int)g->group, n.tile, at(scratch, (int64_t)n.scratch));
    const float *v_scale = gather_v_scales(&t, at(scratch, (int64_t)n.v_scale));
    int keys = (int)view_count(t.view);
    t.qk = g->leaf->qk[cpu_leaf_type(t.k.dtype)];
    t.sv = g->leaf->sv[cpu_leaf_type(t.v.dtype)];
    each_block(&t, score_block);
    for (int r = 0; r < t.rows && keys; r++)
        g->leaf->softmax(t.s + r * t.layout.s_stride, keys, NULL, v_scale, &t.m[r], &t.l[r]);
    each_block(&t, value_block);
    gqa_store_output(g, batch, head, t.first, t.rows, t.o, t.layout.o_stride, t.unit, t.m, t.l, t.shift);
    tile_capture(&t);
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
    cpu_parallel_for(op, g.leaf, g.desc->q.dim[0] * g.kv_heads * g.desc->q.dim[2], naive_task, &g);
    return TDM_OK;
}

const struct impl cpu_gqa_naive = {.name = "naive", .op = OP_GQA, .workspace = naive_workspace, .run = naive_run};
