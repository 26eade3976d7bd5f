/* Rows of every stored type: made at random, and read back in double precision from the definition of the format. */
#ifndef STORED_H
#define STORED_H

#include "check.h"
#include "guard.h"

static const char *const type_names[LEAF_TYPES] = {"f32", "f16", "bf16", "i8", "i4", "f8e4m3"};

static inline size_t stored_bytes(enum leaf_type type, int n)
{
    switch (type) {
    case LEAF_F32:
        return (size_t)n * 4;
    case LEAF_F16:
    case LEAF_BF16:
        return (size_t)n * 2;
    case LEAF_I4:
        return ((size_t)n + 1) / 2;
    default:
        return (size_t)n;
    }
}

/* sign, exponent and fraction fields with the given bias; the top exponent is infinity and NaN. */
static inline double binary_value(unsigned code, int exponent_bits, int fraction_bits, int bias)
{
    int exponent = (int)(code >> fraction_bits) & ((1 << exponent_bits) - 1);
    int fraction = (int)code & ((1 << fraction_bits) - 1);
    double sign = code >> (exponent_bits + fraction_bits) & 1 ? -1.0 : 1.0;
    if (exponent == (1 << exponent_bits) - 1)
        return fraction ? NAN : sign * INFINITY;
    int hidden = exponent ? 1 << fraction_bits : 0;
    return sign * ldexp(fraction + hidden, (exponent ? exponent : 1) - bias - fraction_bits);
}

static inline double e4m3_value(unsigned code)
{
    if ((code & 0x7f) == 0x7f)
        return NAN;
    if ((code & 0x78) == 0x78) /* no infinities: the top exponent is one more binade */
        return (code & 0x80 ? -1.0 : 1.0) * ldexp(8 + (int)(code & 7), 15 - 7 - 3);
    return binary_value(code, 4, 3, 7);
}

/* Element i of a stored row. */
static inline double stored_value(enum leaf_type type, const void *row, int64_t i)
{
    const unsigned char *byte = row;
    uint16_t half;
    float single;
    switch (type) {
    case LEAF_F32:
        memcpy(&single, byte + 4 * i, 4);
        return single;
    case LEAF_F16:
        memcpy(&half, byte + 2 * i, 2);
        return binary_value(half, 5, 10, 15);
    case LEAF_BF16:
        memcpy(&half, byte + 2 * i, 2);
        return binary_value(half, 8, 7, 127);
    case LEAF_I8:
        return byte[i] < 128 ? byte[i] : byte[i] - 256.0;
    case LEAF_I4:
        return (double)(i % 2 ? byte[i / 2] >> 4 : byte[i / 2] & 15) - 8.0;
    default:
        return e4m3_value(byte[i]);
    }
}

static inline void set_random(struct suite *suite, enum leaf_type type, void *row, int64_t i, bool special)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    static const uint16_t odd_f16[] = {0x7e01, 0x7c00, 0xfc00}, odd_bf16[] = {0xffc0, 0x7f80, 0xff80};
    bool is_odd = special && one_in(suite, 40);
    int which = random_int(suite, 0, 2);
    unsigned char *byte = row;
    float single = is_odd ? odd[which] : random_float(suite, 4.0f);
    uint16_t half = is_odd ? odd_f16[which] : (uint16_t)(random_bits(suite) & 0xbfff);
    switch (type) {
    case LEAF_F32:
        memcpy(byte + 4 * i, &single, 4);
        break;
    case LEAF_F16: /* below 2, subnormals among them */
        memcpy(byte + 2 * i, &half, 2);
        break;
    case LEAF_BF16:
        half = is_odd ? odd_bf16[which] : (uint16_t)(random_bits(suite) & 0x83ff) | 0x3c00;
        memcpy(byte + 2 * i, &half, 2);
        break;
    case LEAF_F8E4M3:
        byte[i] = (unsigned char)random_bits(suite);
        if ((byte[i] & 0x7f) == 0x7f && !is_odd)
            byte[i] ^= 1;
        break;
    case LEAF_I4:
        byte[i / 2] = (unsigned char)random_bits(suite);
        break;
    default:
        byte[i] = (unsigned char)random_bits(suite);
    }
}

/* Rows whose last byte is the guard's last, or whose first is its first; `gap` spare elements between them. */
static inline struct leaf_rows random_rows(struct suite *suite, struct guard *guard, enum leaf_type type, int rows,
                                           int columns, int gap, bool at_end, bool special)
{
    size_t bytes = stored_bytes(type, columns), stride = bytes + stored_bytes(type, gap);
    char *data = guarded(guard, (size_t)(rows - 1) * stride + bytes, at_end);
    for (int j = 0; j < rows; j++)
        for (int i = 0; i < columns; i++)
            set_random(suite, type, data + (size_t)j * stride, i, special);
    return (struct leaf_rows){data, (int64_t)stride, NULL};
}

static inline double rows_value(enum leaf_type type, struct leaf_rows x, int j, int64_t i)
{
    return stored_value(type, (const char *)x.data + j * x.stride, i);
}

#endif
