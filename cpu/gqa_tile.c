#include "gqa_tile.h"

#include "common/tensor.h"

#include <math.h>
#include <string.h>

/* ---- scratch ---------------------------------------------------------------------- */

static int64_t groups_of(const tdm_tensor *half)
{
    return half->scaling == TDM_PER_GROUP ? group_count(half) : 0;
}

struct tile_layout tile_lay_out(const tdm_gqa_desc *d, int64_t rows, int64_t keys)
{
    int64_t k_dim = d->q.dim[3], v_dim = d->out.dim[3], groups = max64(groups_of(&d->cache.k), groups_of(&d->cache.v));
    struct tile_layout t = {.q_stride = padded(k_dim),
                            .s_stride = padded(keys),
                            .o_stride = padded(v_dim),
                            .k_stride = padded(KEY_BLOCK),
                            .v_stride = padded(v_dim)};
    struct layout layout = {0};
    t.q = layout_add(&layout, rows * t.q_stride, sizeof(float));
    t.s = layout_add(&layout, rows * t.s_stride, sizeof(float));
    t.o = layout_add(&layout, rows * t.o_stride, sizeof(float));
    t.m = layout_add(&layout, rows, sizeof(float));
    t.l = layout_add(&layout, rows, sizeof(float));
    t.unit = layout_add(&layout, rows, sizeof(float));
    t.shift = layout_add(&layout, rows, sizeof(float));
    t.views = layout_add(&layout, rows, sizeof(struct view));
    t.panel = layout_add(&layout, max64(k_dim * t.k_stride, KEY_BLOCK * t.v_stride), sizeof(float));
    t.part = layout_add(&layout, groups ? rows * t.k_stride : 0, sizeof(float));
    t.extra = layout_add(&layout, KEY_BLOCK, sizeof(float));
    t.scales = layout_add(&layout, groups * KEY_BLOCK, sizeof(float));
    bool integers = d->cache.k.dtype == TDM_I8 && d->cache.v.dtype == TDM_I8;
    t.codes = layout_add(&layout, integers ? rows * k_dim : 0, 1);
    t.code_scale = layout_add(&layout, integers ? rows : 0, sizeof(float));
    t.relative = layout_add(&layout, integers ? KEY_BLOCK : 0, sizeof(float));
    t.size = layout.size;
    return t;
}

struct tile tile_open(const struct gqa *g, int64_t batch, int64_t head, int64_t first, int rows,
                      struct tile_layout layout, void *scratch)
{
    const tdm_kv_data *cache = &g->args->cache;
    struct tile t = {.g = g, .batch = batch, .head = head, .first = first, .rows = rows, .layout = layout};
    t.k = head_rows(&g->desc->cache.k, cache->k, cache->k_scale, batch, head, 0);
    t.v = head_rows(&g->desc->cache.v, cache->v, cache->v_scale, batch, head, 0);
    t.qk = cpu_qk_of(g->leaf, cpu_leaf_type(t.k.dtype), rows, t.k.groups ? t.k.group : 0);
    t.sv = cpu_sv_of(g->leaf, cpu_leaf_type(t.v.dtype), rows, t.v.groups ? t.v.group : 0);
    t.q = at(scratch, (int64_t)layout.q);
    t.s = at(scratch, (int64_t)layout.s);
    t.o = at(scratch, (int64_t)layout.o);
    t.m = at(scratch, (int64_t)layout.m);
    t.l = at(scratch, (int64_t)layout.l);
    t.unit = at(scratch, (int64_t)layout.unit);
    t.shift = at(scratch, (int64_t)layout.shift);
    t.views = at(scratch, (int64_t)layout.views);
    t.panel = at(scratch, (int64_t)layout.panel);
    t.part = at(scratch, (int64_t)layout.part);
    t.extra = at(scratch, (int64_t)layout.extra);
    t.scales = at(scratch, (int64_t)layout.scales);
    t.codes = at(scratch, (int64_t)layout.codes);
    t.code_scale = at(scratch, (int64_t)layout.code_scale);
    t.relative = at(scratch, (int64_t)layout.relative);
    int64_t first_token = row_token(g, first), last_token = row_token(g, first + rows - 1);
    for (int64_t token = first_token; token <= last_token; token++)
        t.views[token - first_token] = view_of(g, batch, token);
    t.view = view_of_tokens(g, batch, first_token, last_token);
    bool grows = g->integer && t.v.scaling == TDM_PER_TOKEN;
    for (int r = 0; r < rows; r++)
        t.m[r] = -INFINITY, t.l[r] = 0, t.unit[r] = grows ? 0 : 1;
    gqa_load_queries(g, batch, head, first, rows, t.q, layout.q_stride, t.shift);
    if (g->integer)
        tile_quantize_queries(&t);
    return t;
}

/* ---- the online softmax ------------------------------------------------------------------ */

/* s becomes p; m, l and the earlier o follow. Keys that a row does not see get a p of exactly 0. */
static void soften(struct tile *t, struct keys keys, bool all_seen, bool first_block)
{
    const struct leaf_table *leaf = t->g->leaf;
    const bool per_token = t->v.scaling == TDM_PER_TOKEN;
    for (int r = 0; r < t->rows; r++) {
        float *s = t->s + r * t->layout.s_stride, shrink = 1;
        struct span see = all_seen ? (struct span){0, keys.n} : tile_span(t, r, keys);
        if (see.end > see.first) {
            const float *k_scale = tile_edit(t, r, keys, see, s + see.first);
            const float *v_scale = per_token ? t->v.scale + keys.row + see.first : NULL;
            if (v_scale && t->g->integer)
                v_scale = tile_relative_scales(t, r, keys, see, all_seen, s + see.first, &shrink);
            shrink *= leaf->softmax(s + see.first, see.end - see.first, k_scale, v_scale, &t->m[r], &t->l[r]);
        }
        memset(s, 0, (size_t)see.first * sizeof *s);
        memset(s + see.end, 0, (size_t)(keys.n - see.end) * sizeof *s);
        if (shrink != 1 && !first_block)
            leaf->scale(t->o + r * t->layout.o_stride, NULL, shrink, t->g->v_dim);
    }
}

void tile_attend(struct tile *t, int64_t index, int64_t end)
{
    bool first_block = true;
    while (index < end) {
        struct keys keys = view_keys(t->g, t->view, index, end, KEY_BLOCK);
        bool all_seen = tile_sees_all(t, keys);
        tile_scores(t, keys, t->s, all_seen);
        soften(t, keys, all_seen, first_block);
        tile_values(t, keys, t->s, all_seen, !first_block);
        index += keys.n;
        first_block = false;
    }
}
