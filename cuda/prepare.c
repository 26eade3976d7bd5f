#include "prepare.h"

/* The largest power of two that divides n is 4^k or 2 * 4^k: the first factor is exact, the second rounded once. */
float rotation_factor(int32_t rotate, int64_t n)
{
    int64_t block = n & -n;
    float factor = 1;
    if (!rotate || block == 1)
        return 0;
    for (; block >= 4; block /= 4)
        factor *= 0.5f;
    return block == 2 ? factor * 0x1.6a09e6p-1f : factor; /* 1 / sqrt(2) */
}

struct prepare prepare_of(const tdm_norm *norm, const void *weight, const tdm_rotary *rotary, const void *cos,
                          const void *sin, const float *offset, float rotation)
{
    return (struct prepare){.norm = weight,
                            .cos = cos,
                            .sin = sin,
                            .offset = offset,
                            .norm_dtype = norm->dtype,
                            .turn_dtype = rotary->dtype,
                            .epsilon = norm->epsilon,
                            .rotation = rotation,
                            .turned = rotary->dtype ? rotary->dim : 0,
                            .interleaved = rotary->interleaved};
}
