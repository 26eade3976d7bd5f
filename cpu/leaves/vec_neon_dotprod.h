/* What dot products of bytes add to the vocabulary for NEON: rows as limbs, and panels of stored bytes. */
#ifndef VEC_NEON_DOTPROD_H
#define VEC_NEON_DOTPROD_H

#include "vec_neon.h"

#include "limbs.h"

/* ---- rows as limbs -------------------------------------------------------------------------------- */

struct limb_row {
    int8_t bytes[LIMB_TERMS * EXACT_LIMBS]; /* by fours of the row, then by limb */
    int32_t sum[EXACT_LIMBS];               /* of each limb */
    float unit;
};

INLINE vf limb_numbers(const float *row, int n)
{
    return n >= VW ? v_load(row) : v_load_part(row, n, v_zero());
}

INLINE float limb_largest(const float *row, int n)
{
    vf top = v_zero();
    for (int i = 0; i < n; i += VW)
        top = v_max_bits(v_abs(limb_numbers(row + i, n - i)), top);
    top = v_max_bits(top, v_swap(top, 1));
    return v_first(v_max_bits(top, v_swap(top, 2)));
}

/* The limbs of four numbers, limb by limb. */
INLINE int8x16_t limbs_of(vf numbers, vf inverse)
{
    const uint8x16_t by_limb = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    const uint32x4_t offset = vdupq_n_u32(limb_offset(EXACT_LIMBS));
    uint32x4_t x = vreinterpretq_u32_s32(vcvtnq_s32_f32(v_mul(numbers, inverse)));
    x = veorq_u32(vaddq_u32(x, offset), offset);
    return vreinterpretq_s8_u8(vqtbl1q_u8(vreinterpretq_u8_u32(x), by_limb));
}

/* False where the row does not fit; then `out` holds nothing of use. */
INLINE bool limb_split(const float *row, int n, enum limb_rule rule, struct limb_row *out, const int limbs)
{
    out->unit = limb_unit(limb_largest(row, n), limbs);
    if (out->unit == 0)
        return false;
    const vf inverse = v_set1(1.0f / out->unit), small = v_set1((float)limb_small(rule, n) * out->unit);
    uint32x4_t nonzero = vdupq_n_u32(0), below = nonzero; /* counted downwards: a truth is -1 */
    vi sum = v_no_sums();
    for (int i = 0; i < n; i += VW) {
        vf number = limb_numbers(row + i, n - i);
        uint32x4_t counts = vtstq_u32(vreinterpretq_u32_f32(v_abs(number)), vdupq_n_u32(UINT32_MAX));
        nonzero = vaddq_u32(nonzero, counts);
        below = vaddq_u32(below, vandq_u32(counts, v_lt(v_abs(number), small)));
        int8x16_t x = limbs_of(number, inverse);
        sum = vdotq_s32(sum, x, vdupq_n_s8(1));
        vst1q_s8(out->bytes + EXACT_LIMBS * i, x);
    }
    if (n <= LIMB_TERMS - VW) /* a step may take eight terms */
        vst1q_s8(out->bytes + EXACT_LIMBS * ((n + VW - 1) / VW * VW), vdupq_n_s8(0));
    vst1q_s32(out->sum, sum);
    return limb_fits(rule, -(int)vaddvq_u32(below), -(int)vaddvq_u32(nonzero));
}

/* limb_join of four columns, whose dots are too large by `bias` times the sum of the limbs. */
INLINE vf limbs_joined(const vi *dot, const struct limb_row *row, int bias)
{
    vi x[EXACT_LIMBS];
    UNROLL
    for (int l = 0; l < EXACT_LIMBS; l++)
        x[l] = vsubq_s32(dot[l], vdupq_n_s32(bias * row->sum[l]));
    vf low = vcvtq_f32_s32(vaddq_s32(vshlq_n_s32(x[1], 8), x[0]));
    low = v_fma(vcvtq_f32_s32(x[2]), v_set1(0x1p16f), low);
    return v_mul(v_fma(vcvtq_f32_s32(x[3]), v_set1(0x1p24f), low), v_set1(row->unit));
}

/* ---- panels: four terms of each of PANEL columns a step ---------------------------------------------- */

enum { PANEL = 16, STEP = 4 * PANEL, PANEL_BYTES = LIMB_TERMS * PANEL };

/* The first n of 16 elements of a stored row from i on, as bytes; nothing is read behind. */
INLINE int8x16_t load_i8(const char *row, int i, int n)
{
    return n >= 16 ? v_bytes(row + i) : v_bytes_part(row + i, n);
}

/* The same of nibbles, as they are stored: 8 too large. */
INLINE int8x16_t load_i4(const char *row, int i, int n)
{
    uint8x16_t pairs = vcombine_u8(bytes_of(row + i / 2, n >= 16 ? 8 : (n + 1) / 2), vdup_n_u8(0));
    return vreinterpretq_s8_u8(vzip1q_u8(vandq_u8(pairs, vdupq_n_u8(15)), vshrq_n_u8(pairs, 4)));
}

/* Four rows of 16 bytes become four vectors in which byte i of each row stands beside those of the others. */
INLINE void zip_bytes(int8x16_t *x)
{
    int8x16x2_t low = vzipq_s8(x[0], x[2]), high = vzipq_s8(x[1], x[3]);
    int8x16x2_t left = vzipq_s8(low.val[0], high.val[0]), right = vzipq_s8(low.val[1], high.val[1]);
    x[0] = left.val[0], x[1] = left.val[1], x[2] = right.val[0], x[3] = right.val[1];
}

/* Four rows of 16 bytes become four vectors in which dword i of each row stands beside those of the others. */
INLINE void zip_fours(int8x16_t *x)
{
    vf wide[4];
    memcpy(wide, x, sizeof wide);
    v_transpose(wide);
    memcpy(x, wide, sizeof wide);
}

#endif
