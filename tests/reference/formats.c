#include "formats.h"

#include <math.h>
#include <string.h>

/* A binary format with subnormals: value = mantissa * 2^(exponent - mantissa_bits). */
struct binary {
    int exponent_bits, mantissa_bits, bias;
    double largest;
    int saturates; /* beyond largest: stays there, instead of infinity */
};

static const struct binary f16 = {5, 10, 15, 65504, 0};
static const struct binary bf16 = {8, 7, 127, 0x1.fep127, 0};
static const struct binary f32 = {8, 23, 127, 0x1.fffffep127, 0};
static const struct binary e4m3 = {4, 3, 7, 448, 1};

static const struct binary *binary_of(tdm_dtype dtype)
{
    switch (dtype) {
    case TDM_F16:
        return &f16;
    case TDM_BF16:
        return &bf16;
    case TDM_F32:
        return &f32;
    case TDM_F8E4M3:
        return &e4m3;
    default:
        return NULL;
    }
}

static int bits_of(tdm_dtype dtype)
{
    switch (dtype) {
    case TDM_F32:
        return 32;
    case TDM_F16:
    case TDM_BF16:
        return 16;
    case TDM_I4:
        return 4;
    case TDM_BITS:
        return 1;
    default:
        return 8;
    }
}

int64_t format_bytes(tdm_dtype dtype, int64_t n)
{
    return (n * bits_of(dtype) + 7) / 8;
}

static uint32_t load_bits(tdm_dtype dtype, const void *data, int64_t i)
{
    const unsigned char *bytes = data;
    int width = bits_of(dtype), size = width / 8;
    if (width < 8)
        return bytes[i * width / 8] >> i * width % 8 & ((1u << width) - 1);
    uint32_t bits = 0;
    for (int b = 0; b < size; b++)
        bits |= (uint32_t)bytes[i * size + b] << 8 * b;
    return bits;
}

static void store_bits(tdm_dtype dtype, void *data, int64_t i, uint32_t bits)
{
    unsigned char *bytes = data;
    int width = bits_of(dtype), size = width / 8;
    if (width < 8) {
        unsigned char *byte = &bytes[i * width / 8];
        unsigned shift = (unsigned)(i * width % 8);
        *byte = (unsigned char)((*byte & ~(((1u << width) - 1) << shift)) | bits << shift);
        return;
    }
    for (int b = 0; b < size; b++)
        bytes[i * size + b] = (unsigned char)(bits >> 8 * b);
}

static double decode_binary(const struct binary *format, uint32_t bits)
{
    int exponent = (int)(bits >> format->mantissa_bits) & ((1 << format->exponent_bits) - 1);
    double mantissa = bits & ((1u << format->mantissa_bits) - 1);
    double sign = bits >> (format->exponent_bits + format->mantissa_bits) ? -1 : 1;
    double unit = 1 << format->mantissa_bits;
    int top = (1 << format->exponent_bits) - 1;
    if (format->saturates ? exponent == top && mantissa == unit - 1 : exponent == top && mantissa)
        return NAN;
    if (exponent == top && !format->saturates)
        return sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(mantissa / unit, 1 - format->bias);
    return sign * ldexp(1 + mantissa / unit, exponent - format->bias);
}

double format_decode(tdm_dtype dtype, const void *data, int64_t i)
{
    uint32_t bits = load_bits(dtype, data, i);
    switch (dtype) {
    case TDM_I8:
        return bits >= 128 ? bits - 256.0 : bits;
    case TDM_I4:
        return bits - 8.0;
    case TDM_BOOL:
    case TDM_BITS:
        return bits != 0;
    case TDM_E8M0:
        return bits == 255 ? NAN : ldexp(1, (int)bits - 127);
    default:
        return decode_binary(binary_of(dtype), bits);
    }
}

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static double round_binary(const struct binary *format, double x)
{
    if (isnan(x) || x == 0)
        return x;
    if (isinf(x))
        return format->saturates ? copysign(format->largest, x) : x;
    int exponent = ilogb(x) < 1 - format->bias ? 1 - format->bias : ilogb(x);
    double step = ldexp(1, exponent - format->mantissa_bits);
    double rounded = nearbyint(x / step) * step; /* ties to even: the default rounding direction */
    if (fabs(rounded) <= format->largest)
        return rounded;
    return copysign(format->saturates ? format->largest : INFINITY, x);
}

double format_round(tdm_dtype dtype, double x)
{
    if (dtype == TDM_I8 || dtype == TDM_I4) {
        double largest = dtype == TDM_I8 ? 127 : 7;
        return isnan(x) ? 0 : nearbyint(clamp(x, -largest - 1, largest)) + 0.0;
    }
    if (dtype == TDM_BOOL || dtype == TDM_BITS)
        return x != 0;
    return round_binary(binary_of(dtype), x);
}

static uint32_t encode_binary(const struct binary *format, double value)
{
    int width = format->exponent_bits + format->mantissa_bits;
    uint32_t top = ((1u << format->exponent_bits) - 1) << format->mantissa_bits;
    uint32_t sign = signbit(value) ? 1u << width : 0, unit = 1u << format->mantissa_bits;
    if (isnan(value))
        return top | (format->saturates ? unit - 1 : unit / 2);
    if (isinf(value))
        return sign | top;
    value = fabs(value);
    if (value < ldexp(1, 1 - format->bias))
        return sign | (uint32_t)ldexp(value, format->bias - 1 + format->mantissa_bits);
    int exponent = ilogb(value);
    uint32_t mantissa = (uint32_t)(ldexp(value, format->mantissa_bits - exponent)) - unit;
    return sign | (uint32_t)(exponent + format->bias) << format->mantissa_bits | mantissa;
}

void format_encode(tdm_dtype dtype, void *data, int64_t i, double x)
{
    double value = format_round(dtype, x);
    uint32_t bits = dtype == TDM_I8                          ? (uint32_t)(int32_t)value & 255
                    : dtype == TDM_I4                        ? (uint32_t)(value + 8)
                    : dtype == TDM_BOOL || dtype == TDM_BITS ? (uint32_t)value
                                                             : encode_binary(binary_of(dtype), value);
    store_bits(dtype, data, i, bits);
}
