#include "cache.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cache_scheme schemes[] = {
    {"f32", TDM_F32, TDM_UNSCALED},
    {"f16", TDM_F16, TDM_UNSCALED},
    {"bf16", TDM_BF16, TDM_UNSCALED},
    {"int8-tensor", TDM_I8, TDM_PER_TENSOR},
    {"int8-channel", TDM_I8, TDM_PER_CHANNEL},
    {"int8-token", TDM_I8, TDM_PER_TOKEN},
    {"int4-tensor", TDM_I4, TDM_PER_TENSOR},
    {"int4-channel", TDM_I4, TDM_PER_CHANNEL},
    {"int4-token", TDM_I4, TDM_PER_TOKEN},
};
enum { SCHEMES = sizeof schemes / sizeof *schemes };

static const tdm_device CPU = {TDM_CPU, 0};

const cache_scheme *cache_scheme_find(const char *name)
{
    for (int i = 0; i < SCHEMES; i++) {
        if (strcmp(schemes[i].name, name) == 0) {
            return &schemes[i];
        }
    }
    return NULL;
}

const char *cache_scheme_names(void)
{
    static char names[256];
    size_t length = 0;
    for (int i = 0; i < SCHEMES; i++) {
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", i > 0 ? " " : "", schemes[i].name);
    }
    return names;
}

bool cache_scheme_is_static(const cache_scheme *scheme)
{
    return scheme->scaling == TDM_PER_TENSOR || scheme->scaling == TDM_PER_CHANNEL;
}

static size_t row_bytes(tdm_dtype dtype, int64_t channels)
{
    switch (dtype) {
    case TDM_I4:
        return (size_t)(channels + 1) / 2;
    case TDM_I8:
        return (size_t)channels;
    case TDM_F32:
        return (size_t)channels * 4;
    default:
        return (size_t)channels * 2;
    }
}

static int64_t scale_count(const tdm_tensor *t)
{
    switch (t->scaling) {
    case TDM_PER_TENSOR:
        return 1;
    case TDM_PER_CHANNEL:
        return t->dim[1] * t->dim[3];
    case TDM_PER_TOKEN:
        return t->dim[1] * t->dim[2];
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

/* Allocate one layer's keys or values and its scales. */
static bool create_half(kv_cache *cache, const tdm_tensor *t, const float *absmax, void **data, float **scales,
                        error *err)
{
    const size_t bytes = (size_t)(t->dim[1] * t->dim[2]) * row_bytes(t->dtype, t->dim[3]);
    const size_t scale_bytes = (size_t)scale_count(t) * sizeof(float);
    void *scale_memory;
    if (!check(err, tdm_alloc(cache->ctx, CPU, TDM_DEVICE_MEMORY, bytes, data), "KV cache")) {
        return false;
    }
    if (!check(err, tdm_alloc(cache->ctx, CPU, TDM_DEVICE_MEMORY, scale_bytes, &scale_memory), "KV cache scales")) {
        return false;
    }
    *scales = scale_memory;
    cache->bytes += bytes + scale_bytes;
    if (t->scaling == TDM_PER_TENSOR || t->scaling == TDM_PER_CHANNEL) {
        fill_static(t, absmax, *scales);
    }
    return true;
}

static tdm_tensor describe(const config *cfg, int64_t capacity, const cache_scheme *scheme)
{
    return (tdm_tensor){
        .dtype = scheme->dtype,
        .rank = 4,
        .scaling = scheme->scaling,
        .dim = {1, cfg->kv_heads, capacity, cfg->head_dim},
    };
}

bool kv_cache_create(kv_cache *cache, tdm_ctx *ctx, const config *cfg, int64_t capacity, const cache_scheme *k,
                     const cache_scheme *v, const calibration *scales, error *err)
{
    *cache = (kv_cache){.ctx = ctx, .layer_count = cfg->layers};
    cache->desc.k = describe(cfg, capacity, k);
    cache->desc.v = describe(cfg, capacity, v);
    cache->layers = calloc((size_t)cfg->layers, sizeof *cache->layers);
    if (cache->layers == NULL) {
        return fail(err, "KV cache: no memory");
    }
    const int64_t width = cfg->kv_heads * cfg->head_dim;
    for (int64_t i = 0; i < cfg->layers; i++) {
        tdm_kv_data *layer = &cache->layers[i];
        const float *k_absmax = scales != NULL ? scales->k + i * width : NULL;
        const float *v_absmax = scales != NULL ? scales->v + i * width : NULL;
        if (!create_half(cache, &cache->desc.k, k_absmax, &layer->k, &layer->k_scale, err) ||
            !create_half(cache, &cache->desc.v, v_absmax, &layer->v, &layer->v_scale, err)) {
            kv_cache_destroy(cache);
            return false;
        }
    }
    return true;
}

void kv_cache_destroy(kv_cache *cache)
{
    for (int64_t i = 0; cache->layers != NULL && i < cache->layer_count; i++) {
        void *const parts[] = {cache->layers[i].k, cache->layers[i].v, cache->layers[i].k_scale,
                               cache->layers[i].v_scale};
        for (int part = 0; part < 4; part++) {
            tdm_free(cache->ctx, CPU, TDM_DEVICE_MEMORY, parts[part]);
        }
    }
    free(cache->layers);
    *cache = (kv_cache){0};
}
