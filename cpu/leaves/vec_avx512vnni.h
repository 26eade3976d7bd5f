/* What VNNI and VBMI add to the vocabulary for AVX-512: products of unsigned with signed bytes, four to a 32-bit sum. */
#ifndef VEC_AVX512VNNI_H
#define VEC_AVX512VNNI_H

#define VEC_BYTE_DOTS /* the dots below in place of those of vec_avx512.h */
#include "vec_avx512.h"

#include "limbs.h"

/* *acc += u . s by fours; u unsigned, s signed. As an intrinsic, gcc 12 and clang 14 spill the sums. */
INLINE void v_dot4(vi *acc, __m512i u, __m512i s)
{
#ifdef TANDEM_EMULATE
    *acc = _mm512_dpbusd_epi32(*acc, u, s);
#else
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*acc) : "v"(u), "v"(s));
#endif
}

/* ---- dots of signed bytes ------------------------------------------------------------------- */

enum { DOT_STEP = 64 };
typedef __m512i vb;

INLINE vb v_bytes(const char *p)
{
    return _mm512_loadu_si512(p);
}

INLINE vb v_bytes_part(const char *p, int n)
{
    return _mm512_maskz_loadu_epi8(((__mmask64)1 << n) - 1, p);
}

/* (b + 128) . a - 128 . a; the second dot is the same for every b. */
INLINE vi v_dot(vi acc, vb a, vb b)
{
    const __m512i bias = _mm512_set1_epi8((char)128);
    vi excess = v_no_sums();
    v_dot4(&excess, bias, a);
    v_dot4(&acc, _mm512_xor_si512(b, bias), a);
    return _mm512_sub_epi32(acc, excess);
}

/* ---- rows as limbs ---------------------------------------------------------------------------- */

struct limb_row {
    int8_t bytes[LIMB_TERMS * 4]; /* by fours of the row, then by limb */
    int32_t sum[4];               /* of each limb */
    float unit;
};

/* Where byte l of numbers 4 * i .. stands: dword l of quarter i. */
INLINE __m512i limbs_by_four(__m512i x)
{
    const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(order));
}

INLINE vf limb_numbers(const float *row, int n)
{
    return n >= VW ? v_load(row) : v_load_part(row, n, v_zero());
}

INLINE float limb_largest(const float *row, int n)
{
    vf top = v_zero();
    for (int i = 0; i < n; i += VW)
        top = v_max_bits(v_abs(limb_numbers(row + i, n - i)), top);
    UNROLL
    for (int h = 1; h < VW; h *= 2)
        top = v_max_bits(top, v_swap(top, h));
    return v_first(top);
}

/* False where the row does not fit; then `out` holds nothing of use. */
INLINE bool limb_split(const float *row, int n, enum limb_rule rule, struct limb_row *out, const int limbs)
{
    out->unit = limb_unit(limb_largest(row, n), limbs);
    if (out->unit == 0)
        return false;
    const vf inverse = v_set1(1.0f / out->unit), small = v_set1((float)limb_small(rule, n) * out->unit);
    const __m512i offset = _mm512_set1_epi32((int)limb_offset(limbs)), ones = _mm512_set1_epi8(1);
    __m512i sum = _mm512_setzero_si512();
    int zeros = 0, below = 0;
    for (int i = 0; i < n; i += VW) {
        vf number = limb_numbers(row + i, n - i);
        zeros += __builtin_popcount(v_eq(number, v_zero()));
        below += __builtin_popcount(v_lt(v_abs(number), small));
        __m512i x = _mm512_cvtps_epi32(v_mul(number, inverse));
        x = limbs_by_four(_mm512_xor_si512(_mm512_add_epi32(x, offset), offset));
        v_dot4(&sum, ones, x);
        _mm512_storeu_si512(out->bytes + 4 * i, x);
    }
    __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1));
    _mm_storeu_si128((__m128i *)out->sum,
                     _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
    int counted = (n + VW - 1) / VW * VW;
    return limbs < EXACT_LIMBS || limb_fits(rule, below - zeros, counted - zeros);
}

/* limb_join of sixteen columns. */
INLINE vf limbs_joined(const vi *dot, const int limbs, vf unit)
{
    vf low = _mm512_cvtepi32_ps(limbs > 1 ? _mm512_add_epi32(_mm512_slli_epi32(dot[1], 8), dot[0]) : dot[0]);
    if (limbs > 2)
        low = v_fma(_mm512_cvtepi32_ps(dot[2]), v_set1(0x1p16f), low);
    if (limbs > 3)
        low = v_fma(_mm512_cvtepi32_ps(dot[3]), v_set1(0x1p24f), low);
    return v_mul(low, unit);
}

/* ---- panels of unsigned bytes: four terms of each of PANEL columns a step ------------------------- */

enum { PANEL = 64, STEP = 4 * PANEL, PANEL_BYTES = LIMB_TERMS / 4 * STEP };

/* n bytes of each of four rows, `apart` from each other; p is row 0. `whole`: there are four rows of 16 bytes. Else no
 * row is behind the last, and nothing is read behind n <= 16 bytes. */
INLINE __m512i four_rows(const char *p, int64_t stride, int row, int apart, int last, int n, const bool whole)
{
    __m128i part[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        int at = row + i * apart;
        if (whole)
            part[i] = _mm_loadu_si128((const __m128i *)(p + at * stride));
        else
            part[i] = _mm_maskz_loadu_epi8(first_lanes(n), p + (at < last ? at : last) * stride);
    }
    __m512i rows = _mm512_inserti32x4(_mm512_castsi128_si512(part[0]), part[1], 1);
    return _mm512_inserti32x4(_mm512_inserti32x4(rows, part[2], 2), part[3], 3);
}

/* Sixteen rows of sixteen bytes: dword d of row j becomes lane j of turned[d]. */
INLINE void turn_rows(const char *p, int64_t stride, int last, int n, __m512i *turned, const bool whole)
{
    __m512i z[4], pair[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        z[i] = four_rows(p, stride, i, 4, last, n, whole);
    UNROLL
    for (int i = 0; i < 2; i++) {
        pair[i] = _mm512_unpacklo_epi32(z[2 * i], z[2 * i + 1]);
        pair[2 + i] = _mm512_unpackhi_epi32(z[2 * i], z[2 * i + 1]);
    }
    UNROLL
    for (int i = 0; i < 2; i++) {
        turned[2 * i] = _mm512_unpacklo_epi64(pair[2 * i], pair[2 * i + 1]);
        turned[2 * i + 1] = _mm512_unpackhi_epi64(pair[2 * i], pair[2 * i + 1]);
    }
}

INLINE __m512i biased_i8(__m512i x)
{
    return _mm512_xor_si512(x, _mm512_set1_epi8((char)128));
}

/* Eight nibbles of each lane from bit `from` on, as two steps hold them; from is 0 or 16. */
INLINE __m512i four_nibbles(__m512i x, int from)
{
    __m512i bits = _mm512_set1_epi64(0x2c2824200c080400 + 0x0101010101010101 * from);
    return _mm512_and_si512(_mm512_multishift_epi64_epi8(bits, x), _mm512_set1_epi8(15));
}

/* Byte b of four rows becomes byte r of dword b, one row r after the other. */
INLINE __m512i columns_i8(__m512i rows)
{
    const __m512i dword = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i order =
        _mm512_add_epi32(_mm512_set1_epi32(0x30201000), _mm512_mullo_epi32(dword, _mm512_set1_epi32(0x01010101)));
    return biased_i8(_mm512_permutexvar_epi8(order, rows));
}

/* The same of nibbles: those of bytes first .. first + 8, in order. */
INLINE __m512i columns_i4(__m512i rows, int first)
{
    const __m512i byte = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    const __m512i shift = _mm512_setr_epi32(0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4);
    const __m512i order = _mm512_add_epi32(_mm512_set1_epi32(0x30201000 + 0x01010101 * first),
                                           _mm512_mullo_epi32(byte, _mm512_set1_epi32(0x01010101)));
    return _mm512_and_si512(_mm512_srlv_epi32(_mm512_permutexvar_epi8(order, rows), shift), _mm512_set1_epi8(15));
}

#endif
