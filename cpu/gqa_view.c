#include "gqa_view.h"

#include "ring.h"

/* A tree's new tokens are all in view; its bits mask them later. */
struct view view_of(const struct gqa *g, int64_t batch, int64_t token)
{
    const tdm_gqa_desc *d = g->desc;
    int64_t kv_len = g->args->kv_len[batch], position = query_position(g, batch, token);
    int64_t end = d->window_right < 0 || d->has_tree ? kv_len : min64(kv_len, position + d->window_right + 1);
    struct view v = {0, d->window_left < 0 ? 0 : max64(0, position - d->window_left), end};
    v.sinks = max64(0, min64(d->sink_tokens, end));
    if (d->has_tree)
        v.first = min64(v.first, max64(0, kv_len - g->args->q_len[batch]));
    if (v.end <= v.first)
        v.first = v.end = v.sinks;
    if (v.first <= v.sinks)
        v.first = v.sinks = 0;
    return v;
}

struct view view_of_tokens(const struct gqa *g, int64_t batch, int64_t first, int64_t last)
{
    struct view all = {0, 0, 0};
    for (int64_t token = first; token <= last; token++) {
        struct view v = view_of(g, batch, token);
        if (v.end == 0)
            continue;
        all.first = all.end == 0 ? v.first : min64(all.first, v.first);
        all.end = max64(all.end, v.end);
        all.sinks = max64(all.sinks, v.sinks);
    }
    if (all.first <= all.sinks)
        all.first = all.sinks = 0;
    return all;
}

struct keys view_keys(const struct gqa *g, struct view view, int64_t index, int64_t end, int64_t most)
{
    const tdm_kv_cache *cache = &g->desc->cache;
    int64_t n = min64(end - index, most), position = index;
    if (index < view.sinks)
        n = min64(n, view.sinks - index);
    else
        position += view.first - view.sinks;
    int64_t row = ring_row(cache, position);
    return (struct keys){position, row, (int)min64(n, cache->k.dim[2] - row)};
}
