#include "half.h"

#include <math.h>
#include <string.h>

/* Added to the bits of an f16 in place, this turns its exponent's bias of 15 into the 127 of an f32. */
static const uint32_t REBIAS = (127 - 15) << 23;

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint16_t to_f16(float value)
{
    const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) {
        return (uint16_t)(sign | 0x7e00);
    }
    if (magnitude >= bits_of(65520.0f)) { /* halfway from the largest f16 to the next step: infinity */
        return (uint16_t)(sign | 0x7c00);
    }
    if (magnitude < bits_of(0x1p-14f)) { /* subnormal: next to 0.5 an f32 has steps of 2^-24, as these have */
        return (uint16_t)(sign | (bits_of(fabsf(value) + 0.5f) - bits_of(0.5f)));
    }
    const uint32_t odd = magnitude >> 13 & 1;
    return (uint16_t)(sign | (magnitude - REBIAS + 0xfff + odd) >> 13);
}

static float from_f16(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;
    if (magnitude < 0x400) {
        return float_of(sign | bits_of((float)magnitude * 0x1p-24f));
    }
    const uint32_t special = magnitude >= 0x7c00 ? REBIAS : 0; /* infinity and NaN go to the top exponent */
    return float_of(sign | ((magnitude << 13) + REBIAS + special));
}

static uint16_t to_bf16(float value)
{
    const uint32_t bits = bits_of(value);
    if (isnan(value)) {
        return (uint16_t)(bits >> 16 | 0x40);
    }
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void narrow(const float *values, int64_t count, tdm_dtype dtype, void *out)
{
    uint16_t *halves = out;
    if (dtype == TDM_F32) {
        memcpy(out, values, (size_t)count * sizeof *values);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        halves[i] = dtype == TDM_F16 ? to_f16(values[i]) : to_bf16(values[i]);
    }
}

void widen(const void *values, int64_t count, tdm_dtype dtype, float *out)
{
    const uint16_t *halves = values;
    if (dtype == TDM_F32) {
        memcpy(out, values, (size_t)count * sizeof *out);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        out[i] = dtype == TDM_F16 ? from_f16(halves[i]) : float_of((uint32_t)halves[i] << 16);
    }
}
