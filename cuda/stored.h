/* A tensor [batch, heads, rows, channels] as kernels see it: rows of any type and scaling. */
#ifndef CUDA_STORED_H
#define CUDA_STORED_H

#include "tandem.h"

struct stored {
    void *data;
    float *scale;      /* NULL: unscaled                             */
    int64_t stride[3]; /* bytes, of batch, head and row              */
    int64_t heads, rows;
    int32_t channels;
    int32_t group, groups; /* PER_GROUP: channels of a scale, scales of a row              */
    int32_t sinks, turns;  /* of a ring: rows that stay, and those that are reused; 0: none */
    tdm_dtype dtype;
    tdm_scaling scaling;
};

/* Of a settled tensor: rank 4, explicit strides. */
static inline struct stored stored_of(const tdm_tensor *tensor, const void *data, const float *scale)
{
    int64_t channels = tensor->dim[3];
    struct stored s = {(void *)(uintptr_t)data,
                       (float *)(uintptr_t)scale,
                       {tensor->stride[0], tensor->stride[1], tensor->stride[2]},
                       tensor->dim[1],
                       tensor->dim[2],
                       (int32_t)channels,
                       (int32_t)channels,
                       1,
                       0,
                       0,
                       tensor->dtype,
                       tensor->scaling};
    if (s.scaling == TDM_PER_GROUP && tensor->block[1] < channels) {
        s.group = (int32_t)tensor->block[1];
        s.groups = (int32_t)((channels + s.group - 1) / s.group);
    }
    return s;
}

/* A half of a cache. */
static inline struct stored stored_half(const tdm_kv_cache *cache, const tdm_tensor *half, const void *data,
                                        const float *scale)
{
    struct stored s = stored_of(half, data, scale);
    if (cache->ring) {
        s.sinks = cache->ring_sinks;
        s.turns = (int32_t)(half->dim[2] - cache->ring_sinks);
    }
    return s;
}

#endif
