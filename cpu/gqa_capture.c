/* Captured scores: computed once more when a row's softmax is finished, in pieces that stay in cache. */
#include "gqa_tile.h"

#include <math.h>
#include <string.h>

/* The hidden value for every key of every row. */
static void hide_all(const struct tile *t, float hidden)
{
    const tdm_tensor *scores = &t->g->desc->scores;
    float row[KEY_BLOCK];
    for (int j = 0; j < KEY_BLOCK; j++)
        row[j] = hidden;
    for (int r = 0; r < t->rows; r++) {
        char *out = cpu_row(scores, t->g->args->scores, t->batch, row_head(t->g, t->head, t->first + r),
                            row_token(t->g, t->first + r));
        for (int64_t j = 0; j < scores->dim[3]; j += KEY_BLOCK)
            cpu_narrow(t->g->leaf, row, scores->dtype, out + channel_bytes(scores->dtype, j),
                       min64(KEY_BLOCK, scores->dim[3] - j));
    }
}

/* The finished scores of row r become probabilities. A NaN in the softmax is one for the keys that the row sees. */
static void share_out(const struct tile *t, int r, float *s, int n)
{
    const struct leaf_table *leaf = t->g->leaf;
    float m = t->m[r], l = t->l[r], sum = 0;
    if (isnan(l)) {
        for (int j = 0; j < n; j++)
            s[j] = s[j] == -INFINITY ? 0 : NAN;
        return;
    }
    leaf->softmax(s, n, NULL, NULL, &m, &sum); /* no score exceeds the maximum by more than rounding */
    leaf->scale(s, NULL, l == 0 ? 0 : 1 / l, n);
}

static void capture_row(struct tile *t, int r, struct keys keys)
{
    const struct gqa *g = t->g;
    const tdm_tensor *scores = &g->desc->scores;
    struct span see = tile_span(t, r, keys);
    float *s = t->s + r * t->layout.s_stride + see.first;
    int n = see.end - see.first;
    if (n == 0)
        return;
    tile_finish_scores(t, r, keys, see, s);
    if (g->desc->capture == TDM_CAPTURE_PROBABILITIES)
        share_out(t, r, s, n);
    char *out =
        cpu_row(scores, g->args->scores, t->batch, row_head(g, t->head, t->first + r), row_token(g, t->first + r));
    cpu_narrow(g->leaf, s, scores->dtype, out + channel_bytes(scores->dtype, keys.first + see.first), n);
}

void tile_capture(struct tile *t)
{
    if (t->g->desc->capture == TDM_CAPTURE_NONE)
        return;
    hide_all(t, t->g->desc->capture == TDM_CAPTURE_SCORES ? -INFINITY : 0);
    int64_t end = view_count(t->view);
    for (int64_t index = 0; index < end;) {
        struct keys keys = view_keys(t->g, t->view, index, end, KEY_BLOCK);
        tile_scores(t, keys, t->s, tile_sees_all(t, keys));
        for (int r = 0; r < t->rows; r++)
            capture_row(t, r, keys);
        index += keys.n;
    }
}
