/* The vocabulary for NEON, as every AArch64 processor has it: 4 lanes, 32 registers. */
#ifndef VEC_NEON_H
#define VEC_NEON_H

#include "common/convert.h"
#include "vec.h"

#include <arm_neon.h>
#include <string.h>

enum { VW = 4, QK_ROWS = 4, SV_ROWS = 6, DOT_STEP = 16, FP8_STEP = 8 };
#define QK_KEYS(rows) ((rows) <= 2 ? 8 : 4)
#define SV_VECTORS(rows) ((rows) <= 3 ? 8 : 4)
#define FP8_PARTS(rows) ((rows) <= 4 ? 4 : 2)

typedef float32x4_t vf;
typedef uint32x4_t vm;
typedef int8x16_t vb;
typedef int32x4_t vi;

INLINE vf v_zero(void)
{
    return vdupq_n_f32(0.0f);
}

INLINE vf v_set1(float x)
{
    return vdupq_n_f32(x);
}

INLINE float v_first(vf x)
{
    return vgetq_lane_f32(x, 0);
}

INLINE vf v_load(const float *p)
{
    return vld1q_f32(p);
}

INLINE void v_store(float *p, vf x)
{
    vst1q_f32(p, x);
}

INLINE vf v_load_part(const float *p, int n, vf fill)
{
    fill = vld1q_lane_f32(p, fill, 0);
    if (n > 1)
        fill = vld1q_lane_f32(p + 1, fill, 1);
    return n > 2 ? vld1q_lane_f32(p + 2, fill, 2) : fill;
}

INLINE void v_store_part(float *p, int n, vf x)
{
    vst1q_lane_f32(p, x, 0);
    if (n > 1)
        vst1q_lane_f32(p + 1, x, 1);
    if (n > 2)
        vst1q_lane_f32(p + 2, x, 2);
}

INLINE vf v_add(vf a, vf b)
{
    return vaddq_f32(a, b);
}

INLINE vf v_sub(vf a, vf b)
{
    return vsubq_f32(a, b);
}

INLINE vf v_mul(vf a, vf b)
{
    return vmulq_f32(a, b);
}

INLINE vf v_div(vf a, vf b)
{
    return vdivq_f32(a, b);
}

INLINE vf v_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}

INLINE vm v_lt(vf a, vf b)
{
    return vcltq_f32(a, b);
}

INLINE vm v_eq(vf a, vf b)
{
    return vceqq_f32(a, b);
}

INLINE vf v_select(vm m, vf a, vf b)
{
    return vbslq_f32(m, a, b);
}

INLINE vf v_max(vf a, vf b)
{
    return v_select(vcgtq_f32(a, b), a, b);
}

INLINE vf v_min(vf a, vf b)
{
    return v_select(vcltq_f32(a, b), a, b);
}

INLINE vf v_abs(vf x)
{
    return vabsq_f32(x);
}

INLINE vf v_max_bits(vf a, vf b)
{
    return vreinterpretq_f32_s32(vmaxq_s32(vreinterpretq_s32_f32(a), vreinterpretq_s32_f32(b)));
}

INLINE vf v_exponent(vf x)
{
    return vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(x), 23));
}

INLINE float v_hmax(vf x)
{
    return vmaxvq_f32(x);
}

INLINE void v_sums(const vf *acc, const int n, float *out)
{
    UNROLL
    for (int i = 0; i < n; i += 4) {
        vf low = vpaddq_f32(acc[i], i + 1 < n ? acc[i + 1] : v_zero());
        vf high = i + 2 < n ? vpaddq_f32(acc[i + 2], i + 3 < n ? acc[i + 3] : v_zero()) : v_zero();
        v_store(out + i, vpaddq_f32(low, high));
    }
}

INLINE vf v_swap(vf x, int h)
{
    return h == 1 ? vrev64q_f32(x) : vextq_f32(x, x, 2);
}

INLINE void v_transpose(vf *x)
{
    float32x4x2_t even = vzipq_f32(x[0], x[2]), odd = vzipq_f32(x[1], x[3]);
    float32x4x2_t left = vzipq_f32(even.val[0], odd.val[0]), right = vzipq_f32(even.val[1], odd.val[1]);
    x[0] = left.val[0], x[1] = left.val[1], x[2] = right.val[0], x[3] = right.val[1];
}

/* n bytes, 0 < n <= 8, in the low end of a vector. */
INLINE uint8x8_t bytes_of(const char *p, int n)
{
    return n == 8 ? vld1_u8((const uint8_t *)p) : vcreate_u8(few_bytes(p, n));
}

INLINE vf from_f16(uint8x8_t x)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(x));
}

INLINE vf from_bf16(uint8x8_t x)
{
    return vreinterpretq_f32_u16(vzip1q_u16(vdupq_n_u16(0), vreinterpretq_u16_u8(vcombine_u8(x, vdup_n_u8(0)))));
}

/* 4 bytes, each moved to the top of its lane, where it counts 2^-24. */
INLINE vf from_i8(uint32_t x)
{
    const uint8x16_t to_top = {16, 16, 16, 0, 16, 16, 16, 1, 16, 16, 16, 2, 16, 16, 16, 3}; /* 16 gives 0 */
    uint8x16_t top = vqtbl1q_u8(vreinterpretq_u8_u32(vdupq_n_u32(x)), to_top);
    return vcvtq_n_f32_s32(vreinterpretq_s32_u8(top), 24);
}

INLINE vf from_i4(uint16_t x)
{
    const int32x4_t right = {0, -4, -8, -12};
    uint32x4_t nibbles = vandq_u32(vshlq_u32(vdupq_n_u32(x), right), vdupq_n_u32(15));
    return vcvtq_f32_s32(vsubq_s32(vreinterpretq_s32_u32(nibbles), vdupq_n_s32(8)));
}

/* A code sign-extended, shifted left by 7 and with bit 14 cleared is an f16 of 2^-8 times its value, subnormals
 * included. Only the NaN codes need repair: with the sign set they are 0xbf80, and all ones is a NaN in f16. */
INLINE float16x8_t halves_of_e4m3(uint8x8_t x)
{
    uint16x8_t half = vreinterpretq_u16_s16(vshll_n_s8(vreinterpret_s8_u8(x), 7));
    half = vbicq_u16(half, vdupq_n_u16(0x4000));
    uint16x8_t negative = vorrq_u16(half, vdupq_n_u16(0x8000));
    return vreinterpretq_f16_u16(vorrq_u16(half, vceqq_u16(negative, vdupq_n_u16(0xbf80))));
}

INLINE vf from_f8e4m3(uint8x8_t codes)
{
    return vmulq_f32(vcvt_f32_f16(vget_low_f16(halves_of_e4m3(codes))), vdupq_n_f32(256.0f));
}

INLINE vf v_load_f32(const char *row, int64_t i)
{
    return v_load((const float *)row + i);
}

INLINE vf v_part_f32(const char *row, int64_t i, int n)
{
    return v_load_part((const float *)row + i, n, v_zero());
}

INLINE vf v_load_f16(const char *row, int64_t i)
{
    return from_f16(bytes_of(row + 2 * i, 8));
}

INLINE vf v_part_f16(const char *row, int64_t i, int n)
{
    return from_f16(bytes_of(row + 2 * i, 2 * n));
}

INLINE vf v_load_bf16(const char *row, int64_t i)
{
    return from_bf16(bytes_of(row + 2 * i, 8));
}

INLINE vf v_part_bf16(const char *row, int64_t i, int n)
{
    return from_bf16(bytes_of(row + 2 * i, 2 * n));
}

INLINE vf v_load_i8(const char *row, int64_t i)
{
    return from_i8((uint32_t)few_bytes(row + i, 4));
}

INLINE vf v_part_i8(const char *row, int64_t i, int n)
{
    return from_i8((uint32_t)few_bytes(row + i, n));
}

INLINE vf v_load_i4(const char *row, int64_t i)
{
    uint16_t x;
    memcpy(&x, row + i / 2, sizeof x);
    return from_i4(x);
}

INLINE vf v_part_i4(const char *row, int64_t i, int n)
{
    return from_i4((uint16_t)few_bytes(row + i / 2, (n + 1) / 2));
}

INLINE vf v_load_f8e4m3(const char *row, int64_t i)
{
    return from_f8e4m3(bytes_of(row + i, 4));
}

INLINE vf v_part_f8e4m3(const char *row, int64_t i, int n)
{
    return from_f8e4m3(bytes_of(row + i, n));
}

INLINE vi v_step_f8e4m3(const char *codes, vf *x, vi top)
{
    float16x8_t halves = halves_of_e4m3(bytes_of(codes, 8));
    x[0] = vcvt_f32_f16(vget_low_f16(halves));
    x[1] = vcvt_high_f32_f16(halves);
    return top;
}

/* The step knows NaN itself. */
INLINE bool v_tops_nan(vi top)
{
    (void)top;
    return false;
}

INLINE vi v_no_sums(void)
{
    return vdupq_n_s32(0);
}

INLINE vb v_bytes(const char *p)
{
    return vld1q_s8((const int8_t *)p);
}

INLINE vb v_bytes_part(const char *p, int n)
{
    uint8x8_t low = bytes_of(p, n < 8 ? n : 8), high = n > 8 ? bytes_of(p + 8, n - 8) : vdup_n_u8(0);
    return vreinterpretq_s8_u8(vcombine_u8(low, high));
}

INLINE vi v_dot(vi acc, vb a, vb b)
{
#ifdef __ARM_FEATURE_DOTPROD
    return vdotq_s32(acc, a, b);
#else
    acc = vpadalq_s16(acc, vmull_s8(vget_low_s8(a), vget_low_s8(b)));
    return vpadalq_s16(acc, vmull_high_s8(a, b));
#endif
}

INLINE void v_totals(const vi *acc, const int n, int32_t *out)
{
    UNROLL
    for (int i = 0; i < n; i += 4) {
        vi low = vpaddq_s32(acc[i], i + 1 < n ? acc[i + 1] : v_no_sums());
        vi high = i + 2 < n ? vpaddq_s32(acc[i + 2], i + 3 < n ? acc[i + 3] : v_no_sums()) : v_no_sums();
        vst1q_s32(out + i, vpaddq_s32(low, high));
    }
}

INLINE void v_store_f16(uint16_t *p, vf x)
{
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x)));
}

INLINE void v_store_bf16(uint16_t *p, vf x)
{
    uint32x4_t bits = vreinterpretq_u32_f32(x), odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    vst1_u16(p, vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), rounded, quiet), 16));
}

INLINE void v_store_i8(int8_t *p, vf x)
{
    int16x4_t halves = vmovn_s32(vcvtnq_s32_f32(x));
    int8x8_t bytes = vmovn_s16(vcombine_s16(halves, halves));
    memcpy(p, &bytes, 4);
}

INLINE void v_store_f8e4m3(uint8_t *p, vf x)
{
    float lane[VW];
    vst1q_f32(lane, x);
    for (int i = 0; i < VW; i++)
        p[i] = e4m3_of_f32(lane[i]);
}

#endif
