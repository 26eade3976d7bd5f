/* What the two attention impls share: the query rows of one kv head, prepared, and their finished output.
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
    void *scratch;
};

struct gqa gqa_open(const struct tdm_op *op, const struct run *run);

/* The keys [first, end) that a query token sees. */
struct span {
    int64_t first, end;
};
struct span gqa_visible(const struct gqa *g, int64_t batch, int64_t token);

/* The keys that any of the tokens [first, last] sees. */
struct span gqa_visible_to_any(const struct gqa *g, int64_t batch, int64_t first, int64_t last);

/* Rows [first, first + rows) of kv head `head` as f32, times scale and the static K scales. */
void gqa_load_queries(const struct gqa *g, int64_t batch, int64_t head, int64_t first, int rows, float *q,
                      int64_t q_stride);

/* Divide the sums o by l, apply the static V scales, round and write out those rows and their log-sum-exp. */
void gqa_store_output(const struct gqa *g, int64_t batch, int64_t head, int64_t first, int rows, float *o,
                      int64_t o_stride, const float *m, const float *l);

#endif
