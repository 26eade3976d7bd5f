#include "cache.h"

#include <math.h>
#include <stdlib.h>

static int64_t row_bytes(const tdm_tensor *t)
{
    switch (t->dtype) {
    case TDM_I4:
        return (t->dim[3] + 1) / 2;
    case TDM_I8:
    case TDM_F8E4M3:
        return t->dim[3];
    case TDM_F32:
        return t->dim[3] * 4;
    default:
        return t->dim[3] * 2;
    }
}

static int64_t scale_count(const tdm_tensor *t)
{
    const int64_t rows = t->dim[1] * t->dim[2];
    switch (t->scaling) {
    case TDM_PER_TENSOR:
        return 1;
    case TDM_PER_CHANNEL:
        return t->dim[1] * t->dim[3];
    case TDM_PER_TOKEN:
        return rows;
    case TDM_PER_GROUP:
        return rows * ((t->dim[3] + t->block[1] - 1) / t->block[1]);
    default:
        return 0;
    }
}

/* The scales of one layer from its largest magnitudes. A channel that was all zero gets the scale 0, which the
 * library defines as storing zeros: a made-up scale would be wrong without a sign of it. */
static void fill_static(const tdm_tensor *t, const float *absmax, float *scales)
{
    const float levels = t->dtype == TDM_I8 ? 127 : 7;
    const int64_t channels = t->dim[1] * t->dim[3];
    if (t->scaling == TDM_PER_CHANNEL) {
        for (int64_t i = 0; i < channels; i++) {
            scales[i] = absmax[i] / levels;
        }
        return;
    }
    float largest = 0;
    for (int64_t i = 0; i < channels; i++) {
        largest = fmaxf(largest, absmax[i]);
    }
    *scales = largest / levels;
}

static bool is_static(const tdm_tensor *t)
{
    return t->scaling == TDM_PER_TENSOR || t->scaling == TDM_PER_CHANNEL;
}

static bool create_static_scales(kv_cache *cache, const tdm_tensor *t, const float *absmax, size_t bytes, void **scales,
                                 error *err)
{
    float *values = malloc(bytes);
    if (values == NULL) {
        return fail(err, "KV cache scales: no memory");
    }
    fill_static(t, absmax, values);
    bool ok = device_place(cache->at, values, bytes, "KV cache scales", scales, err);
    free(values);
    return ok;
}

/* Allocate one layer's keys or values and its scales; absmax is needed for static scales. */
static bool create_half(kv_cache *cache, const tdm_tensor *t, const float *absmax, void **data, float **scales,
                        error *err)
{
    const size_t bytes = (size_t)(t->dim[1] * t->dim[2] * row_bytes(t));
    const size_t scale_bytes = (size_t)scale_count(t) * sizeof(float);
    void *scale_memory;
    if (!device_alloc(cache->at, bytes, "KV cache", data, err)) {
        return false;
    }
    bool ok = is_static(t) ? create_static_scales(cache, t, absmax, scale_bytes, &scale_memory, err)
                           : device_alloc(cache->at, scale_bytes, "KV cache scales", &scale_memory, err);
    if (!ok) {
        return false;
    }
    *scales = scale_memory;
    cache->bytes += bytes + scale_bytes;
    return true;
}

static bool create_layer(kv_cache *cache, int64_t i, const calibration *measured, error *err)
{
    const tdm_kv_cache *desc = &cache->desc;
    const float *k_absmax = NULL, *v_absmax = NULL;
    tdm_kv_data *layer = &cache->layers[i];
    if (measured != NULL) {
        const int variant = (desc->rotate_k ? ROTATED : 0) + (desc->has_k_offset ? SHIFTED : 0);
        k_absmax = calibration_get(measured, K_ABSMAX + variant, i);
        v_absmax = calibration_get(measured, V_ABSMAX + (desc->rotate_v ? ROTATED : 0), i);
    }
    if (desc->has_k_offset) {
        const size_t bytes = (size_t)(desc->k.dim[1] * desc->k.dim[3]) * sizeof(float);
        void *offset;
        if (!device_place(cache->at, calibration_get(measured, K_OFFSET, i), bytes, "key offset", &offset, err)) {
            return false;
        }
        layer->k_offset = offset;
    }
    return create_half(cache, &desc->k, k_absmax, &layer->k, &layer->k_scale, err) &&
           create_half(cache, &desc->v, v_absmax, &layer->v, &layer->v_scale, err);
}

static tdm_tensor describe(const config *cfg, int64_t capacity, const cache_scheme *scheme)
{
    tdm_tensor t = {
        .dtype = scheme->dtype,
        .rank = 4,
        .scaling = scheme->scaling,
        .dim = {1, cfg->kv_heads, capacity, cfg->head_dim},
    };
    if (scheme->scaling == TDM_PER_GROUP) {
        t.block[0] = 1;
        t.block[1] = scheme->group;
    }
    return t;
}

bool kv_cache_create(kv_cache *cache, device *at, const config *cfg, int64_t capacity, const cache_scheme *k,
                     const cache_scheme *v, const calibration *measured, error *err)
{
    *cache = (kv_cache){.at = at, .layer_count = cfg->layers};
    cache->desc = (tdm_kv_cache){
        .k = describe(cfg, capacity, k),
        .v = describe(cfg, capacity, v),
        .rotate_k = k->rotate,
        .rotate_v = v->rotate,
        .has_k_offset = k->offset,
    };
    cache->layers = calloc((size_t)cfg->layers, sizeof *cache->layers);
    if (cache->layers == NULL) {
        return fail(err, "KV cache: no memory");
    }
    for (int64_t i = 0; i < cfg->layers; i++) {
        if (!create_layer(cache, i, measured, err)) {
            kv_cache_destroy(cache);
            return false;
        }
    }
    return true;
}

void kv_cache_destroy(kv_cache *cache)
{
    free(cache->layers);
    *cache = (kv_cache){0};
}
