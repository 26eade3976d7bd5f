/* What the attention impls share: the query rows of one kv head, prepared, and their finished output.
 *
 * A row is one query head of the group at one query token; row r belongs to token r / group. All rows of one
 * kv head are rows of the same leaf calls, so that each key and value is read and converted once for them. */
#ifndef CPU_GQA_H
#define CPU_GQA_H

#include "rows.h"

/* One run, as the tasks see it. */
struct gqa {
    const tdm_gqa_desc *desc;
    const tdm_gqa_args *args;
    const struct leaf_table *leaf;
    int64_t kv_heads, group, k_dim, v_dim;
    bool integer; /* scores are integer dots: int8_decode */
    void *scratch;
};

struct gqa gqa_open(const struct tdm_op *op, const struct run *run);

/* The token and the query head of a row. */
static inline int64_t row_token(const struct gqa *g, int64_t row)
{
    return row / g->group;
}
static inline int64_t row_head(const struct gqa *g, int64_t head, int64_t row)
{
    return head * g->group + row % g->group;
}

/* The position of query `token`; with a tree its depth counts. */
int64_t query_position(const struct gqa *g, int64_t batch, int64_t token);

/* Rows [first, first + rows) of kv head `head` as f32: normed, turned, rotated, times scale and the static K scales.
 * shift[r] receives scale * q . k_offset, 0 without an offset. */
void gqa_load_queries(const struct gqa *g, int64_t batch, int64_t head, int64_t first, int rows, float *q,
                      int64_t q_stride, float *shift);

/* Write the rows' output and log-sum-exp from the unnormalised o, in units of unit[r], and the softmax state m and l.
 * Where the scores have not got their shift yet it counts now. m[r] and l[r] become the state of the finished scores,
 * with their shift and the sink. */
void gqa_store_output(const struct gqa *g, int64_t batch, int64_t head, int64_t first, int rows, float *o,
                      int64_t o_stride, const float *unit, float *m, float *l, const float *shift);

/* Whether the shift is added to each score (before a softcap) rather than to the finished log-sum-exp. */
static inline bool gqa_shifts_scores(const struct gqa *g)
{
    return g->desc->softcap != 0;
}

#endif
