/* Number formats in plain C, exact in every code: f16, bf16, e4m3 and e8m0 to f32 and back. */
#ifndef COMMON_CONVERT_H
#define COMMON_CONVERT_H

#include <stdint.h>
#include <string.h>

static inline float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float f32_of_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;
    if (magnitude >= 0x7c00)
        return float_of_bits(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    if (magnitude >= 0x0400)
        return float_of_bits(sign | ((magnitude << 13) + (112u << 23)));
    float value = (float)magnitude * 0x1p-24f; /* subnormal: an exact product */
    return float_of_bits(sign | bits_of_float(value));
}

/* Round to nearest even; overflow gives infinity. */
static inline uint16_t f16_of_f32(float value)
{
    uint32_t bits = bits_of_float(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) /* 65520 and up round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* below 2^-14: adding 1/2 leaves the rounded subnormal in the low bits */
        float shifted = float_of_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (bits_of_float(shifted) - bits_of_float(0.5f)));
    }
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (magnitude - (112u << 23)) >> 13);
}

static inline float f32_of_bf16(uint16_t half)
{
    return float_of_bits((uint32_t)half << 16);
}

/* Round to nearest even; overflow gives infinity. */
static inline uint16_t bf16_of_f32(float value)
{
    uint32_t bits = bits_of_float(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float f32_of_e4m3(uint8_t code)
{
    uint32_t sign = (uint32_t)(code & 0x80) << 24, magnitude = code & 0x7f;
    if (magnitude == 0x7f)
        return float_of_bits(sign | 0x7fc00000);
    if (magnitude >= 8)
        return float_of_bits(sign | ((magnitude << 20) + (120u << 23)));
    float value = (float)magnitude * 0x1p-9f;
    return float_of_bits(sign | bits_of_float(value));
}

/* The e4m3 value nearest to `value`, ties to even, saturating at 448 (infinities too); NaN stays NaN. */
static inline float round_to_e4m3(float value)
{
    uint32_t bits = bits_of_float(value), sign = bits & 0x80000000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return value;
    if (magnitude > 0x43e00000)
        return float_of_bits(sign | 0x43e00000);
    if (magnitude < 0x3c800000) { /* below 2^-6 the step is 2^-9: that of f32 at 2^14 */
        float shifted = float_of_bits(magnitude) + 0x1p14f;
        return float_of_bits(sign | bits_of_float(shifted - 0x1p14f));
    }
    magnitude += 0x7ffff + (magnitude >> 20 & 1);
    return float_of_bits(sign | (magnitude & 0xfff00000));
}

/* The code of round_to_e4m3(value). */
static inline uint8_t e4m3_of_f32(float value)
{
    uint32_t bits = bits_of_float(round_to_e4m3(value)), sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint8_t)(sign | 0x7f);
    if (magnitude >= 0x3c800000)
        return (uint8_t)(sign | ((magnitude >> 20) - (120u << 3)));
    return (uint8_t)(sign | (uint32_t)(float_of_bits(magnitude) * 0x1p9f));
}

static inline float f32_of_e8m0(uint8_t code)
{
    if (code == 0xff)
        return float_of_bits(0x7fc00000);
    return float_of_bits(code ? (uint32_t)code << 23 : 0x00400000);
}

#endif
