/* ops.h - the model's calls of the library, each a trip of activations to where they run and back.
 *
 * The rest of the model holds f32 rows on the host. Values are rounded to the type of activations, where that has 16
 * bits, on their way into an op, and widened on their way out; nothing else changes. Attention may run on another
 * device than the matrix products. */
#ifndef OPS_H
#define OPS_H

#include "attention.h"
#include "products.h"

typedef struct ops {
    tdm_dtype activations;
    device *matmuls;
    products products;
    attention attention;
    buffer in, out, attended; /* of the matmuls' device, in the type of activations */
} ops;

/* matmuls     where matrix products run; attention runs where the cache is
 * max_rows    the most rows of one call; of one that multiplies by the head, at most logit_rows */
bool ops_create(ops *o, device *matmuls, const config *cfg, const weights *w, const kv_cache *cache,
                tdm_dtype activations, int64_t max_rows, int64_t logit_rows, error *err);
void ops_destroy(ops *o);

/* out[i][rows, m[i]->rows] = in[rows, columns] * m[i]^T for `count` matrices, 1..MAX_GROUP. */
enum { MAX_GROUP = 3 };
bool ops_multiply(const ops *o, const matrix *const *m, int count, const float *in, int64_t rows, float *const *out,
                  error *err);

/* out = attention of one layer over q, k and v of `in`, times the output matrix: from [rows, hidden] to the same. The
 * rows sit at position pos; the cache takes them in. */
bool ops_attend(const ops *o, const layer_weights *w, const kv_cache *cache, int64_t layer, const float *in,
                int64_t rows, int64_t pos, float *out, error *err);

#endif
