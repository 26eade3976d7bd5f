/* What happens to one head's row of a query or key before it is stored or multiplied. */
#ifndef CUDA_PREPARE_H
#define CUDA_PREPARE_H

#include "tandem.h"

struct prepare {
    const void *norm; /* the weight of the norm, NULL: none     */
    const void *cos, *sin;
    const float *offset; /* of keys, [kv_heads, channels]; NULL: none */
    tdm_dtype norm_dtype, turn_dtype;
    float epsilon;
    float rotation; /* 1 / sqrt of a rotated block's channels, 0: none */
    int32_t turned; /* channels that rotary turns, 0: none             */
    int32_t interleaved;
};

#ifdef __cplusplus
extern "C" {
#endif

/* The factor of the rotation of n channels, for `prepare`. */
float rotation_factor(int32_t rotate, int64_t n);

struct prepare prepare_of(const tdm_norm *norm, const void *weight, const tdm_rotary *rotary, const void *cos,
                          const void *sin, const float *offset, float rotation);

#ifdef __cplusplus
}
#endif
#endif
