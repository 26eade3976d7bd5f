/* The two products of a tile: queries by keys, probabilities by values. */
#include "gqa_tile.h"

#include <math.h>
#include <string.h>

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

/* ---- by the widened panel ----------------------------------------------------------------- */

/* Rows that are multiplied together and the keys that any of them sees. Where rows see different keys few are taken at
 * a time, and the keys that none of those sees are left out: hidden scores are not read, and values with a p of 0 change
 * no bit. */
struct rows_seen {
    int rows;
    struct span see;
};

static struct rows_seen next_rows(const struct tile *t, int first, struct keys keys, bool all_seen)
{
    if (all_seen)
        return (struct rows_seen){t->rows - first, {0, keys.n}};
    struct rows_seen part = {(int)min64(t->rows - first, 2 * t->g->leaf->row_step), {keys.n, 0}};
    for (int r = first; r < first + part.rows; r++) {
        struct span see = tile_span(t, r, keys);
        if (see.end == see.first)
            continue;
        part.see.first = see.first < part.see.first ? see.first : part.see.first;
        part.see.end = see.end > part.see.end ? see.end : part.see.end;
    }
    return part;
}

/* s = q . panel, whose columns are the keys. */
static void multiply_keys(struct tile *t, struct keys keys, float *s, bool all_seen)
{
    const struct tile_layout *lay = &t->layout;
    struct rows_seen part;
    for (int r = 0; r < t->rows; r += part.rows) {
        part = next_rows(t, r, keys, all_seen);
        if (part.see.end <= part.see.first)
            continue;
        int first = part.see.first & ~15, end = (int)min64((part.see.end + 15) & ~15, keys.n); /* whole vectors */
        struct leaf_rows panel = {t->panel + first, lay->k_stride * (int64_t)sizeof(float), NULL};
        t->g->leaf->sv[LEAF_F32](t->q + r * lay->q_stride, lay->q_stride, panel, s + r * lay->s_stride + first,
                                 lay->s_stride, part.rows, (int)t->g->k_dim, end - first, false);
    }
}

/* o (+)= s . panel, whose rows are the values. */
static void multiply_values(struct tile *t, struct keys keys, const float *s, bool all_seen, bool accumulate)
{
    const struct tile_layout *lay = &t->layout;
    struct rows_seen part;
    for (int r = 0; r < t->rows; r += part.rows) {
        part = next_rows(t, r, keys, all_seen);
        float *o = t->o + r * lay->o_stride;
        int first = part.see.first, n = part.see.end - first;
        struct leaf_rows panel = {t->panel + first * lay->v_stride, lay->v_stride * (int64_t)sizeof(float), NULL};
        if (n > 0)
            t->g->leaf->sv[LEAF_F32](s + r * lay->s_stride + first, lay->s_stride, panel, o, lay->o_stride, part.rows,
                                     n, (int)t->g->v_dim, accumulate);
        else if (!accumulate)
            memset(o, 0, (size_t)(part.rows * lay->o_stride) * sizeof *o);
    }
}

/* ---- by what is stored ---------------------------------------------------------------------- */

/* The scales of a run of rows, turned: those of group g stand at scales + g * KEY_BLOCK. */
static void turn_scales(struct tile *t, const struct head_rows *rows, struct keys keys)
{
    struct leaf_rows scales = {rows->scale + keys.row * rows->groups, rows->groups * (int64_t)sizeof(float), NULL};
    t->g->leaf->transpose[LEAF_F32](scales, t->scales, KEY_BLOCK, keys.n, (int)rows->groups);
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

void tile_scores(struct tile *t, struct keys keys, float *s, bool all_seen)
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
        multiply_keys(t, keys, s, all_seen);
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
            multiply_values(t, keys, s, all_seen, accumulate);
    } else if (t->v.groups) {
        values_by_group(t, keys, s, accumulate);
    } else {
        t->sv(s, lay->s_stride, stored_before(&t->v, keys.row, &t->k, keys.row + keys.n), t->o, lay->o_stride, t->rows,
              keys.n, (int)t->g->v_dim, accumulate);
    }
}
