/* What stands between the products and the softmax: windows, sinks, masks, bias, ALiBi, trees, softcap. */
#include "gqa_tile.h"

#include <math.h>
#include <string.h>

static const struct view *row_view(const struct tile *t, int r)
{
    return &t->views[row_token(t->g, t->first + r) - row_token(t->g, t->first)];
}

/* The position of a tree's first new token; past every key without a tree. */
static int64_t tree_start(const struct tile *t)
{
    return t->g->desc->has_tree ? t->g->args->kv_len[t->batch] - t->g->args->q_len[t->batch] : INT64_MAX;
}

bool tile_sees_all(const struct tile *t, struct keys keys)
{
    int64_t end = keys.first + keys.n;
    if (t->g->desc->bias.rank || t->g->desc->mask.rank || end > tree_start(t))
        return false;
    int64_t tokens = row_token(t->g, t->first + t->rows - 1) - row_token(t->g, t->first) + 1;
    for (int64_t i = 0; i < tokens; i++) {
        struct view v = t->views[i];
        if (end > v.end || (keys.first < v.first && end > v.sinks))
            return false;
    }
    return true;
}

struct span tile_span(const struct tile *t, int r, struct keys keys)
{
    struct view v = *row_view(t, r);
    int64_t first = keys.first >= v.sinks ? v.first : 0, end = keys.first + keys.n <= v.first ? v.sinks : v.end;
    struct span see = {(int)min64(max64(first - keys.first, 0), keys.n), (int)min64(end - keys.first, keys.n)};
    return see.end > see.first ? see : (struct span){0, 0};
}

/* ---- what is added to the scores of the keys [first, first + n) ---------------------------- */

struct place {
    int64_t batch, head, token, first;
    int n;
};

static void mask_plane(const tdm_tensor *mask, const void *data, struct place p, float *extra)
{
    const uint8_t *row = cpu_row(mask, data, p.batch, p.head, p.token);
    for (int j = 0; j < p.n; j++) {
        int64_t key = p.first + j;
        bool seen = mask->dtype == TDM_BOOL ? row[key] != 0 : row[key / 8] >> key % 8 & 1;
        if (!seen)
            extra[j] = -INFINITY;
    }
}

/* The new tokens of a tree: hidden unless their bit is set, and as far along as their own depth says. */
static void mask_tree(const struct gqa *g, struct place p, int64_t start, float *extra)
{
    uint64_t bits = g->args->tree[p.batch * g->desc->q.dim[2] + p.token];
    for (int64_t key = max64(p.first, start); key < p.first + p.n; key++)
        if (!(bits >> (key - start) & 1))
            extra[key - p.first] = -INFINITY;
}

static void add_slope(const struct gqa *g, struct place p, int64_t start, float *extra)
{
    float slope = g->args->alibi[p.head];
    int64_t position = query_position(g, p.batch, p.token);
    for (int j = 0; j < p.n; j++) {
        int64_t key = p.first + j, at = key < start ? key : query_position(g, p.batch, key - start);
        extra[j] -= slope * (float)(position > at ? position - at : at - position);
    }
}

/* Fill t->extra; false when nothing is to be added. */
static bool fill_extra(struct tile *t, int r, struct place p)
{
    const struct gqa *g = t->g;
    const tdm_gqa_desc *d = g->desc;
    const struct view *v = row_view(t, r);
    int64_t start = tree_start(t), end = p.first + p.n;
    bool hole = p.first < v->first && end > v->sinks, tree = end > start;
    if (!d->bias.rank && !d->mask.rank && !d->has_alibi && !hole && !tree)
        return false;
    if (d->bias.rank) {
        char *row = cpu_row(&d->bias, g->args->bias, p.batch, p.head, p.token);
        struct leaf_rows from = {row + channel_bytes(d->bias.dtype, p.first), 0, NULL};
        g->leaf->widen[cpu_leaf_type(d->bias.dtype)](from, t->extra, 0, 1, p.n);
    } else {
        memset(t->extra, 0, (size_t)p.n * sizeof *t->extra);
    }
    if (d->has_alibi)
        add_slope(g, p, start, t->extra);
    if (d->mask.rank)
        mask_plane(&d->mask, g->args->mask, p, t->extra);
    if (tree)
        mask_tree(g, p, start, t->extra);
    for (int64_t key = max64(p.first, v->sinks); key < min64(end, v->first); key++)
        t->extra[key - p.first] = -INFINITY;
    return true;
}

/* ---- the edit -------------------------------------------------------------------------------- */

static struct leaf_edit edit_of(struct tile *t, int r, struct keys keys, struct span see)
{
    const struct gqa *g = t->g;
    int64_t row = t->first + r;
    struct place p = {t->batch, row_head(g, t->head, row), row_token(g, row), keys.first + see.first,
                      see.end - see.first};
    return (struct leaf_edit){
        .k_scale = t->k.scaling == TDM_PER_TOKEN ? t->k.scale + keys.row + see.first : NULL,
        .shift = gqa_shifts_scores(g) ? t->shift[r] : 0,
        .softcap = g->desc->softcap,
        .extra = fill_extra(t, r, p) ? t->extra : NULL,
    };
}

const float *tile_edit(struct tile *t, int r, struct keys keys, struct span see, float *s)
{
    struct leaf_edit edit = edit_of(t, r, keys, see);
    if (edit.softcap == 0 && !edit.extra)
        return edit.k_scale;
    t->g->leaf->score(s, see.end - see.first, &edit);
    return NULL;
}

void tile_finish_scores(struct tile *t, int r, struct keys keys, struct span see, float *s)
{
    struct leaf_edit edit = edit_of(t, r, keys, see);
    edit.shift = t->shift[r];
    t->g->leaf->score(s, see.end - see.first, &edit);
}
