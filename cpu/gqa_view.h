/* Which keys a query sees, but for masks, and where they lie. */
#ifndef CPU_GQA_VIEW_H
#define CPU_GQA_VIEW_H

#include "gqa.h"

/* Keys [0, sinks) and [first, end); sinks is 0 or at most first. Counted through, from 0 to view_count, these are
 * the view's indices. */
struct view {
    int64_t sinks, first, end;
};

static inline int64_t view_count(struct view v)
{
    return v.sinks + v.end - v.first;
}

struct view view_of(const struct gqa *g, int64_t batch, int64_t token);

/* The least view that holds those of the tokens [first, last]. */
struct view view_of_tokens(const struct gqa *g, int64_t batch, int64_t first, int64_t last);

/* A run of keys with neighbouring positions in neighbouring rows. */
struct keys {
    int64_t first, row; /* position and cache row of the first key */
    int n;
};

/* The keys at the view's indices [index, end), as far as they are one run and at most `most`. */
struct keys view_keys(const struct gqa *g, struct view view, int64_t index, int64_t end, int64_t most);

#endif
