/* cache.h - the key/value cache of all layers, in any of the library's cache types. */
#ifndef CACHE_H
#define CACHE_H

#include "calibration.h"

/* How keys or values are stored. */
typedef struct cache_scheme {
    const char *name; /* "int8-token" */
    tdm_dtype dtype;
    tdm_scaling scaling;
} cache_scheme;

/* The scheme of that name, or NULL. */
const cache_scheme *cache_scheme_find(const char *name);

/* All names, with a space between. */
const char *cache_scheme_names(void);

/* True when the scales are fixed before the run and so come from a calibration. */
bool cache_scheme_is_static(const cache_scheme *scheme);

typedef struct kv_cache {
    tdm_ctx *ctx;
    tdm_kv_cache desc;   /* of one layer, [1, kv_heads, capacity, head_dim] */
    tdm_kv_data *layers; /* [layers] */
    int64_t layer_count;
    size_t bytes; /* of all layers, with their scales */
} kv_cache;

/* scales   needed when a scheme is static, else ignored and may be NULL */
bool kv_cache_create(kv_cache *cache, tdm_ctx *ctx, const config *cfg, int64_t capacity, const cache_scheme *k,
                     const cache_scheme *v, const calibration *scales, error *err);
void kv_cache_destroy(kv_cache *cache);

#endif
