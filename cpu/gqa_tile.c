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

/* ---- products ---------------------------------------------------------------------- */

/* The channels from `channel` on of a run of rows, as a leaf takes them. */
static struct leaf_rows stored(const struct head_rows *rows, int64_t first, int64_t channel)
{
    return (struct leaf_rows){at(rows->data, first * rows->stride + channel_bytes(rows->dtype, channel)), rows->stride,
                              NULL};
}

/* The same rows where a leaf reads them, while those of `next` from its row `then` on come nearer. */
static struct leaf_rows stored_before(const struct head_rows *rows, int64_t first, const struct head_rows *next,
                                      int64_t then)
{
    struct leaf_rows x = stored(rows, first, 0);
    if (rows->stride == next->stride)
        x.next = at(next->data, then * next->stride);
    return x;
}

static struct leaf_rows panel_rows(const struct tile *t, int64_t stride)
{
    return (struct leaf_rows){t->panel, stride * (int64_t)sizeof(float), NULL};
}

/* The scales of a run of rows, turned: those of group g stand at scales + g * KEY_BLOCK. */
static void turn_scales(struct tile *t, const struct head_rows *rows, struct keys keys)
{
    const float *scale = rows->scale + keys.row * rows->groups;
    for (int j = 0; j < keys.n; j++)
        for (int64_t group = 0; group < rows->groups; group++)
            t->scales[group * KEY_BLOCK + j] = scale[j * rows->groups + group];
}

static void scores_by_group(struct tile *t, struct keys keys, float *s)
{
    const struct leaf_table *leaf = t->g->leaf;
    const struct tile_layout *lay = &t->layout;
    for (int64_t group = 0; group < t->k.groups; group++) {
        int64_t channel = group * t->k.group;
        t->qk(t->q + channel, lay->q_stride, stored(&t->k, keys.row, channel), t->part, lay->k_stride, t->rows, keys.n,
              (int)min64(t->k.group, t->g->k_dim - channel), false);
        for (int r = 0; r < t->rows; r++)
            leaf->mul_add(t->part + r * lay->k_stride, t->scales + group * KEY_BLOCK, s + r * lay->s_stride, keys.n,
                          group > 0);
    }
}

void tile_scores(struct tile *t, struct keys keys, float *s)
{
    const struct leaf_table *leaf = t->g->leaf;
    const struct tile_layout *lay = &t->layout;
    enum leaf_type type = cpu_leaf_type(t->k.dtype);
    int channels = (int)t->g->k_dim;
    if (t->k.groups)
        turn_scales(t, &t->k, keys);
    if (t->g->integer) {
        tile_integer_scores(t, keys, s);
    } else if (!t->qk) {
        leaf->transpose[type](stored(&t->k, keys.row, 0), t->panel, lay->k_stride, keys.n, channels);
        for (int c = 0; c < channels && t->k.groups; c++)
            leaf->scale(t->panel + c * lay->k_stride, t->scales + c / t->k.group * KEY_BLOCK, 1, keys.n);
        leaf->sv[LEAF_F32](t->q, lay->q_stride, panel_rows(t, lay->k_stride), s, lay->s_stride, t->rows, channels,
                           keys.n, false);
    } else if (t->k.groups) {
        scores_by_group(t, keys, s);
    } else {
        t->qk(t->q, lay->q_stride, stored_before(&t->k, keys.row, &t->v, keys.row), s, lay->s_stride, t->rows, keys.n,
              channels, false);
    }
}

/* What a row sees, added up as sv does: key by key, and what there was before last. */
static void add_seen(const struct tile *t, int r, struct span see, const float *seen, const float *p, bool accumulate)
{
    float *o = t->o + r * t->layout.o_stride, sum[MAX_HEAD_DIM] = {0}, weight[MAX_HEAD_DIM];
    int v_dim = (int)t->g->v_dim;
    for (int j = see.first; j < see.end; j++) {
        if (seen[j] == -INFINITY)
            continue;
        for (int c = 0; c < v_dim; c++)
            weight[c] = p[j];
        t->g->leaf->mul_add(t->panel + j * t->layout.v_stride, weight, sum, v_dim, true);
    }
    for (int c = 0; c < v_dim; c++)
        o[c] = accumulate ? o[c] + sum[c] : sum[c];
}

/* A value that is not finite must not reach rows that do not see it: each row multiplies the keys it sees only, with
 * the bits that it has beside finite ones. */
static void values_by_row(struct tile *t, struct keys keys, const float *s, bool accumulate)
{
    for (int r = 0; r < t->rows; r++) {
        struct span see = tile_span(t, r, keys);
        float seen[KEY_BLOCK] = {0};
        if (see.end > see.first)
            tile_edit(t, r, keys, see, seen + see.first);
        add_seen(t, r, see, seen, s + r * t->layout.s_stride, accumulate);
    }
}

static void values_by_group(struct tile *t, struct keys keys, const float *s, bool accumulate)
{
    const struct leaf_table *leaf = t->g->leaf;
    const struct tile_layout *lay = &t->layout;
    for (int64_t group = 0; group < t->v.groups; group++) {
        int64_t channel = group * t->v.group;
        for (int r = 0; r < t->rows; r++)
            leaf->mul_add(s + r * lay->s_stride, t->scales + group * KEY_BLOCK, t->part + r * lay->k_stride, keys.n,
                          false);
        t->sv(t->part, lay->k_stride, stored(&t->v, keys.row, channel), t->o + channel, lay->o_stride, t->rows, keys.n,
              (int)min64(t->v.group, t->g->v_dim - channel), accumulate);
    }
}

/* The block's values as f32, times their group scales. */
static void widen_values(struct tile *t, struct keys keys)
{
    const struct leaf_table *leaf = t->g->leaf;
    int64_t v_dim = t->g->v_dim;
    leaf->widen[cpu_leaf_type(t->v.dtype)](stored(&t->v, keys.row, 0), t->panel, t->layout.v_stride, keys.n,
                                           (int)v_dim);
    for (int j = 0; j < keys.n; j++)
        for (int64_t group = 0; group < t->v.groups; group++)
            leaf->scale(t->panel + j * t->layout.v_stride + group * t->v.group, NULL, t->scales[group * KEY_BLOCK + j],
                        min64(t->v.group, v_dim - group * t->v.group));
}

static bool panel_is_finite(const struct tile *t, int n)
{
    for (int j = 0; j < n; j++)
        if (!isfinite(t->g->leaf->absmax(t->panel + j * t->layout.v_stride, t->g->v_dim)))
            return false;
    return true;
}

void tile_values(struct tile *t, struct keys keys, const float *s, bool all_seen, bool accumulate)
{
    const struct leaf_table *leaf = t->g->leaf;
    const struct tile_layout *lay = &t->layout;
    enum leaf_type type = cpu_leaf_type(t->v.dtype);
    bool may_hold_nan = t->v.groups || (type != LEAF_I8 && type != LEAF_I4);
    if (t->v.groups)
        turn_scales(t, &t->v, keys);
    if (!t->sv || (may_hold_nan && !all_seen)) {
        widen_values(t, keys);
        if (may_hold_nan && !all_seen && !panel_is_finite(t, keys.n))
            values_by_row(t, keys, s, accumulate);
        else
            leaf->sv[LEAF_F32](s, lay->s_stride, panel_rows(t, lay->v_stride), t->o, lay->o_stride, t->rows, keys.n,
                               (int)t->g->v_dim, accumulate);
    } else if (t->v.groups) {
        values_by_group(t, keys, s, accumulate);
    } else {
        t->sv(s, lay->s_stride, stored_before(&t->v, keys.row, &t->k, keys.row + keys.n), t->o, lay->o_stride, t->rows,
              keys.n, (int)t->g->v_dim, accumulate);
    }
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
        tile_scores(t, keys, t->s);
        soften(t, keys, all_seen, first_block);
        tile_values(t, keys, t->s, all_seen, !first_block);
        index += keys.n;
        first_block = false;
    }
}
