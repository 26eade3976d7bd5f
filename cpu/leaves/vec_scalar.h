/* The vocabulary in plain C: a vector of one. */
#ifndef VEC_SCALAR_H
#define VEC_SCALAR_H

#include "common/convert.h"
#include "vec.h"

enum { VW = 1, QK_ROWS = 4, SV_ROWS = 4, DOT_STEP = 1, FP8_STEP = 2 };
#define QK_KEYS(rows) 2
#define SV_VECTORS(rows) ((rows) == 1 ? 8 : 2)
#define FP8_PARTS(rows) ((rows) <= 2 ? 4 : 1)

typedef float vf;
typedef bool vm;
typedef int32_t vb;
typedef int32_t vi;

INLINE vf v_zero(void)
{
    return 0.0f;
}

INLINE vf v_set1(float x)
{
    return x;
}

INLINE float v_first(vf x)
{
    return x;
}

INLINE vf v_load(const float *p)
{
    return *p;
}

INLINE void v_store(float *p, vf x)
{
    *p = x;
}

/* There is no part of one lane. */
INLINE vf v_load_part(const float *p, int n, vf fill)
{
    (void)p, (void)n;
    return fill;
}

INLINE void v_store_part(float *p, int n, vf x)
{
    (void)p, (void)n, (void)x;
}

INLINE vf v_add(vf a, vf b)
{
    return a + b;
}

INLINE vf v_sub(vf a, vf b)
{
    return a - b;
}

INLINE vf v_mul(vf a, vf b)
{
    return a * b;
}

INLINE vf v_div(vf a, vf b)
{
    return a / b;
}

/* fmaf is a slow library call where the hardware has none. */
INLINE vf v_fma(vf a, vf b, vf c)
{
    return a * b + c;
}

INLINE vf v_max(vf a, vf b)
{
    return a > b ? a : b;
}

INLINE vf v_min(vf a, vf b)
{
    return a < b ? a : b;
}

INLINE vm v_lt(vf a, vf b)
{
    return a < b;
}

INLINE vm v_eq(vf a, vf b)
{
    return a == b;
}

INLINE vf v_select(vm m, vf a, vf b)
{
    return m ? a : b;
}

INLINE vf v_abs(vf x)
{
    return float_of_bits(bits_of_float(x) & 0x7fffffff);
}

INLINE vf v_max_bits(vf a, vf b)
{
    return bits_of_float(a) > bits_of_float(b) ? a : b;
}

INLINE vf v_exponent(vf x)
{
    return float_of_bits(bits_of_float(x) << 23);
}

INLINE float v_hmax(vf x)
{
    return x;
}

INLINE void v_sums(const vf *acc, const int n, float *out)
{
    UNROLL
    for (int i = 0; i < n; i++)
        out[i] = acc[i];
}

/* There is nothing to swap in one lane. */
INLINE vf v_swap(vf x, int h)
{
    (void)h;
    return x;
}

INLINE void v_transpose(vf *x)
{
    (void)x;
}

INLINE vf v_load_f32(const char *row, int64_t i)
{
    return ((const float *)row)[i];
}

INLINE vf v_load_f16(const char *row, int64_t i)
{
    return f32_of_f16(((const uint16_t *)row)[i]);
}

INLINE vf v_load_bf16(const char *row, int64_t i)
{
    return f32_of_bf16(((const uint16_t *)row)[i]);
}

INLINE vf v_load_i8(const char *row, int64_t i)
{
    return ((const int8_t *)row)[i];
}

INLINE vf v_load_i4(const char *row, int64_t i)
{
    return (float)((((const uint8_t *)row)[i / 2] >> i % 2 * 4 & 15) - 8);
}

INLINE vf v_load_f8e4m3(const char *row, int64_t i)
{
    return f32_of_e4m3(((const uint8_t *)row)[i]);
}

INLINE vi v_step_f8e4m3(const char *codes, vf *x, vi top)
{
    x[0] = v_load_f8e4m3(codes, 0) * 0x1p-8f;
    x[1] = v_load_f8e4m3(codes, 1) * 0x1p-8f;
    return top;
}

/* The step knows NaN itself. */
INLINE bool v_tops_nan(vi top)
{
    (void)top;
    return false;
}

#define v_part_f32(row, i, n) v_load_f32(row, i)
#define v_part_f16(row, i, n) v_load_f16(row, i)
#define v_part_bf16(row, i, n) v_load_bf16(row, i)
#define v_part_i8(row, i, n) v_load_i8(row, i)
#define v_part_i4(row, i, n) v_load_i4(row, i)
#define v_part_f8e4m3(row, i, n) v_load_f8e4m3(row, i)

INLINE vi v_no_sums(void)
{
    return 0;
}

INLINE vb v_bytes(const char *p)
{
    return *(const int8_t *)p;
}

/* There is no part of one byte. */
INLINE vb v_bytes_part(const char *p, int n)
{
    (void)p, (void)n;
    return 0;
}

INLINE vi v_dot(vi acc, vb a, vb b)
{
    return acc + a * b;
}

INLINE void v_totals(const vi *acc, const int n, int32_t *out)
{
    UNROLL
    for (int i = 0; i < n; i++)
        out[i] = acc[i];
}

INLINE void v_store_f16(uint16_t *p, vf x)
{
    *p = f16_of_f32(x);
}

INLINE void v_store_bf16(uint16_t *p, vf x)
{
    *p = bf16_of_f32(x);
}

INLINE void v_store_i8(int8_t *p, vf x)
{
    /* 1.5 * 2^23 leaves the rounded integer in the low bits. */
    *p = (int8_t)(bits_of_float(x + 0x1.8p23f) & 0xff);
}

INLINE void v_store_f8e4m3(uint8_t *p, vf x)
{
    *p = e4m3_of_f32(x);
}

#endif
