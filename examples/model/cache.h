/* cache.h - the key/value cache of all layers, in any of the library's cache types. */
#ifndef CACHE_H
#define CACHE_H

#include "calibration.h"
#include "device.h"
#include "scheme.h"

typedef struct kv_cache {
    device *at;
    tdm_kv_cache desc;   /* of one layer, [1, kv_heads, capacity, head_dim] */
    tdm_kv_data *layers; /* [layers] */
    int64_t layer_count;
    size_t bytes; /* of all layers, with their scales */
} kv_cache;

/* at        where it lies and attention runs; it keeps the memory
 * measured  needed when a scheme is calibrated, else ignored and may be NULL */
bool kv_cache_create(kv_cache *cache, device *at, const config *cfg, int64_t capacity, const cache_scheme *k,
                     const cache_scheme *v, const calibration *measured, error *err);
void kv_cache_destroy(kv_cache *cache);

#endif
