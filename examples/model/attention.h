/* attention.h - appending to the cache and attending to it, on the device that holds the cache. */
#ifndef ATTENTION_H
#define ATTENTION_H

#include "cache.h"

typedef struct attention {
    device *at;
    void *cosine, *sine; /* of the rotary embedding, [positions of the cache, head_dim / 2] */
    tdm_op *ops[2];      /* kv_append, gqa */
    tdm_workspace *workspaces[2];
} attention;

/* activations  the type of q, k, v and out
 * max_rows     the most rows of one run */
bool attention_create(attention *a, const config *cfg, const kv_cache *cache, tdm_dtype activations, int64_t max_rows,
                      error *err);
void attention_destroy(attention *a);

/* Append rows of keys and values at position pos of one layer's cache, then attend with the queries, which sit at
 * the same positions; the rotary embedding of both is done here. q and out are [rows, heads * head_dim], k and v
 * [rows, kv_heads * head_dim], all on the device. */
bool attention_run(const attention *a, const kv_cache *cache, int64_t layer, const void *q, const void *k,
                   const void *v, int64_t rows, int64_t pos, void *out, error *err);

#endif
