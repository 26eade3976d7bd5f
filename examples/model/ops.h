/* ops.h - the model's calls of the library: matrix products, cache append, attention.
 *
 * The rest of the model holds f32 rows. With 16-bit activations, values are rounded on their way into an op and
 * widened on their way out; nothing else changes. */
#ifndef OPS_H
#define OPS_H

#include "cache.h"
#include "weights.h"

enum { MAX_PRODUCTS = 16, STAGING_BUFFERS = 4 };

/* One fp8_matmul; all matrices of the same shape and scales share it. */
typedef struct product {
    matrix like; /* whose data is not used */
    tdm_op *op;
    tdm_workspace *workspace;
} product;

typedef struct ops {
    tdm_ctx *ctx;
    tdm_dtype activations;
    int64_t max_rows, q_heads;
    product products[MAX_PRODUCTS];
    int product_count;
    tdm_op *append, *attend;
    float *cosine, *sine; /* of the rotary embedding, [positions of the cache, head_dim / 2] */
    tdm_workspace *append_workspace, *attend_workspace;
    uint16_t *staging[STAGING_BUFFERS]; /* for 16-bit activations */
} ops;

/* max_rows        the most rows of one call
 * max_values      the most values of any input or output of one call */
bool ops_create(ops *o, tdm_ctx *ctx, const config *cfg, const weights *w, const kv_cache *cache, tdm_dtype activations,
                int64_t max_rows, int64_t max_values, error *err);
void ops_destroy(ops *o);

/* out[rows, m->rows] = in[rows, m->columns] * m^T */
bool ops_multiply(const ops *o, const matrix *m, const float *in, int64_t rows, float *out, error *err);

/* Append rows of keys and values at position pos of one layer's cache, then attend with the queries, which sit at
 * the same positions; the rotary embedding of both is the ops' own part. q and out are [rows, heads * head_dim], k and
 * v [rows, kv_heads * head_dim]. */
bool ops_attend(const ops *o, const kv_cache *cache, int64_t layer, const float *q, const float *k, const float *v,
                int64_t rows, int64_t pos, float *out, error *err);

#endif
