#include "gqa_tile.h"

#include <math.h>
#include <string.h>

struct tile_layout tile_lay_out(const tdm_gqa_desc *d)
{
    int64_t k_dim = d->q.dim[3], v_dim = d->out.dim[3];
    struct tile_layout t = {
        padded(k_dim), padded(KEY_BLOCK), padded(v_dim), padded(KEY_BLOCK), padded(v_dim), 0, 0, 0, 0, 0, 0, 0};
    struct layout layout = {0};
    t.q = layout_add(&layout, TILE_ROWS * t.q_stride, sizeof(float));
    t.s = layout_add(&layout, TILE_ROWS * t.s_stride, sizeof(float));
    t.o = layout_add(&layout, TILE_ROWS * t.o_stride, sizeof(float));
    t.m = layout_add(&layout, TILE_ROWS, sizeof(float));
    t.l = layout_add(&layout, TILE_ROWS, sizeof(float));
    t.panel = layout_add(&layout, max64(k_dim * t.k_stride, KEY_BLOCK * t.v_stride), sizeof(float));
    t.size = layout.size;
    return t;
}

struct tile tile_open(const struct gqa *g, int64_t batch, int64_t head, int64_t first, int rows, void *scratch)
{
    const tdm_kv_data *cache = &g->args->cache;
    struct tile t = {.g = g, .batch = batch, .head = head, .first = first, .rows = rows};
    t.packed = rows > g->leaf->direct_rows;
    t.k = head_rows(&g->desc->cache.k, cache->k, cache->k_scale, batch, head, 0);
    t.v = head_rows(&g->desc->cache.v, cache->v, cache->v_scale, batch, head, 0);
    t.layout = tile_lay_out(g->desc);
    t.q = at(scratch, (int64_t)t.layout.q);
    t.s = at(scratch, (int64_t)t.layout.s);
    t.o = at(scratch, (int64_t)t.layout.o);
    t.m = at(scratch, (int64_t)t.layout.m);
    t.l = at(scratch, (int64_t)t.layout.l);
    t.panel = at(scratch, (int64_t)t.layout.panel);
    gqa_load_queries(g, batch, head, first, rows, t.q, t.layout.q_stride);
    return t;
}

static struct leaf_rows from_row(const struct head_rows *rows, int64_t first)
{
    return (struct leaf_rows){at(rows->data, first * rows->stride), rows->stride};
}

static struct leaf_rows panel_rows(const struct tile *t, int64_t stride)
{
    return (struct leaf_rows){t->panel, stride * (int64_t)sizeof(float)};
}

/* s = q . k for the block's keys. */
static void scores(struct tile *t, struct span block)
{
    const struct leaf_table *leaf = t->g->leaf;
    const struct tile_layout *lay = &t->layout;
    int keys = (int)(block.end - block.first), channels = (int)t->g->k_dim;
    struct leaf_rows k = from_row(&t->k, block.first);
    if (t->packed) {
        leaf->transpose[cpu_leaf_type(t->k.dtype)](k, t->panel, lay->k_stride, keys, channels);
        leaf->sv[LEAF_F32](t->q, lay->q_stride, panel_rows(t, lay->k_stride), t->s, lay->s_stride, t->rows, channels,
                           keys, false);
    } else {
        leaf->qk[cpu_leaf_type(t->k.dtype)](t->q, lay->q_stride, k, t->s, lay->s_stride, t->rows, keys, channels,
                                            false);
    }
}

/* The part of the block that row r sees, counted from the block's first key. */
static struct span row_span(const struct tile *t, int r, struct span block)
{
    struct span seen = gqa_visible(t->g, t->batch, (t->first + r) / t->g->group);
    struct span part = {max64(seen.first, block.first) - block.first, min64(seen.end, block.end) - block.first};
    return part.end > part.first ? part : (struct span){0, 0};
}

/* s becomes p; m, l and the earlier o follow. Keys that a row does not see get a p of exactly 0. */
static void soften(struct tile *t, struct span block, bool whole, bool first_block)
{
    const struct leaf_table *leaf = t->g->leaf;
    const float *k_scale = t->k.scaling == TDM_PER_TOKEN ? t->k.scale + block.first : NULL;
    const float *v_scale = t->v.scaling == TDM_PER_TOKEN ? t->v.scale + block.first : NULL;
    int64_t keys = block.end - block.first;
    for (int r = 0; r < t->rows; r++) {
        float *s = t->s + r * t->layout.s_stride, shrink = 1;
        struct span see = whole ? (struct span){0, keys} : row_span(t, r, block);
        if (see.end > see.first)
            shrink = leaf->softmax(s + see.first, (int)(see.end - see.first), k_scale ? k_scale + see.first : NULL,
                                   v_scale ? v_scale + see.first : NULL, &t->m[r], &t->l[r]);
        memset(s, 0, (size_t)see.first * sizeof *s);
        memset(s + see.end, 0, (size_t)(keys - see.end) * sizeof *s);
        if (shrink != 1 && !first_block)
            leaf->scale(t->o + r * t->layout.o_stride, NULL, shrink, t->g->v_dim);
    }
}

/* A value that is not finite must not reach rows that do not see it: each token multiplies its own keys only. */
static void values_by_token(struct tile *t, struct span block, bool first_block)
{
    const struct tile_layout *lay = &t->layout;
    int64_t group = t->g->group;
    for (int r = 0, rows; r < t->rows; r += rows) {
        rows = (int)min64(group - (t->first + r) % group, t->rows - r);
        struct span see = row_span(t, r, block);
        float *o = t->o + r * lay->o_stride;
        struct leaf_rows v = {t->panel + see.first * lay->v_stride, lay->v_stride * (int64_t)sizeof(float)};
        if (see.end > see.first)
            t->g->leaf->sv[LEAF_F32](t->s + r * lay->s_stride + see.first, lay->s_stride, v, o, lay->o_stride, rows,
                                     (int)(see.end - see.first), (int)t->g->v_dim, !first_block);
        else if (first_block)
            for (int i = 0; i < rows; i++)
                memset(o + i * lay->o_stride, 0, (size_t)t->g->v_dim * sizeof *o);
    }
}

static bool panel_is_finite(const struct tile *t, int64_t keys)
{
    for (int64_t j = 0; j < keys; j++)
        if (!isfinite(t->g->leaf->absmax(t->panel + j * t->layout.v_stride, t->g->v_dim)))
            return false;
    return true;
}

/* o (+)= p v for the block's keys. */
static void values(struct tile *t, struct span block, bool whole, bool first_block)
{
    const struct leaf_table *leaf = t->g->leaf;
    const struct tile_layout *lay = &t->layout;
    int keys = (int)(block.end - block.first), channels = (int)t->g->v_dim;
    enum leaf_type type = cpu_leaf_type(t->v.dtype);
    struct leaf_rows v = from_row(&t->v, block.first);
    bool may_hold_nan = type != LEAF_I8 && type != LEAF_I4;
    if (t->packed || (may_hold_nan && !whole)) {
        leaf->widen[type](v, t->panel, lay->v_stride, keys, channels);
        if (may_hold_nan && !whole && !panel_is_finite(t, keys)) {
            values_by_token(t, block, first_block);
            return;
        }
        type = LEAF_F32;
        v = panel_rows(t, lay->v_stride);
    }
    leaf->sv[type](t->s, lay->s_stride, v, t->o, lay->o_stride, t->rows, keys, channels, !first_block);
}

void tile_attend(struct tile *t, struct span span)
{
    int64_t first_token = t->first / t->g->group, last_token = (t->first + t->rows - 1) / t->g->group;
    struct span first = gqa_visible(t->g, t->batch, first_token), last = gqa_visible(t->g, t->batch, last_token);
    for (int r = 0; r < t->rows; r++)
        t->m[r] = -INFINITY, t->l[r] = 0;
    for (int64_t j = span.first; j < span.end; j += KEY_BLOCK) {
        struct span block = {j, min64(j + KEY_BLOCK, span.end)};
        /* Windows move with the token: what the outermost two see whole, all between do. */
        bool whole = first.first <= j && block.end <= first.end && last.first <= j && block.end <= last.end;
        scores(t, block);
        soften(t, block, whole, j == span.first);
        values(t, block, whole, j == span.first);
    }
}
