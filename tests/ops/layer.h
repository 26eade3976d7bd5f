/* An attention layer in use: what each token gives it, its caches, and calls that append and attend. */
#ifndef TESTS_OPS_LAYER_H
#define TESTS_OPS_LAYER_H

#include "problem.h"
#include "types.h"

#include <stdbool.h>

enum { TOKENS = 120, Q_HEADS = 4, KV_HEADS = 2, DIM = 24, WINDOW = 20, SINKS = 3, STEP = 5, POSITIONS = 128 };

/* What all tokens give it, and its tables. */
struct layer {
    tdm_tensor q, k, v; /* [1, heads, TOKENS, DIM] f32 */
    void *q_data, *k_data, *v_data;
    float weight[DIM], cos[POSITIONS * DIM / 2], sin[POSITIONS * DIM / 2], offset[KV_HEADS * DIM];
    tdm_norm norm;
    tdm_rotary rotary;
};

struct layer *layer_new(uint64_t seed);
void layer_free(struct layer *layer);

struct cache {
    tdm_kv_cache desc;
    tdm_kv_data data;
};

/* Keys and values rotated, keys less an offset. Filled with 0xff, NaN where the type has one, until something is
 * appended. */
struct cache cache_new(const struct layer *layer, const struct stored_type *type, int64_t capacity, bool ring);
void cache_free(struct cache *cache);

/* One op ready to run; of its descs and args those of the op. */
struct call {
    struct problem problem;
    tdm_kv_append_desc append;
    tdm_kv_append_args append_args;
    tdm_gqa_desc gqa;
    tdm_gqa_args gqa_args;
    int32_t n, length; /* new tokens, and their position or the keys there are then */
};

/* Append tokens [first, first + n) of the layer as positions from pos on. */
void call_append(struct call *call, const struct layer *layer, const struct cache *cache, int32_t first, int32_t n,
                 int32_t pos);

/* Attend with the queries of tokens [first, first + n), the last of kv_len; out is that of all tokens. */
void call_gqa(struct call *call, const struct layer *layer, const struct cache *cache, int32_t first, int32_t n,
              int32_t kv_len, float *out);

#endif
