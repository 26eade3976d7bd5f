/* The vocabulary for AVX-512 F, BW, DQ and VL: 16 lanes, 32 registers, tails by masks. With TANDEM_EMULATE the tests
 * supply its functions in portable C, to run it on every machine. */
#ifndef VEC_AVX512_H
#define VEC_AVX512_H

#include "vec.h"

#ifndef TANDEM_EMULATE
#include <immintrin.h>
#endif

enum { VW = 16, QK_ROWS = 4, SV_ROWS = 12, FP8_STEP = 32 };
#define QK_KEYS(rows) ((rows) <= 2 ? 8 : 4)
#define SV_VECTORS(rows) ((rows) <= 3 ? 8 : (rows) <= 6 ? 4 : 2)
#define FP8_PARTS(rows) ((rows) <= 4 ? 4 : 2)

typedef __m512 vf;
typedef __mmask16 vm;
typedef __m512i vi;

INLINE vf v_zero(void)
{
    return _mm512_setzero_ps();
}

INLINE vf v_set1(float x)
{
    return _mm512_set1_ps(x);
}

INLINE float v_first(vf x)
{
    return _mm_cvtss_f32(_mm512_castps512_ps128(x));
}

INLINE vf v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

INLINE void v_store(float *p, vf x)
{
    _mm512_storeu_ps(p, x);
}

INLINE __mmask16 first_lanes(int n)
{
    return (__mmask16)((1u << n) - 1);
}

INLINE vf v_load_part(const float *p, int n, vf fill)
{
    return _mm512_mask_loadu_ps(fill, first_lanes(n), p);
}

INLINE void v_store_part(float *p, int n, vf x)
{
    _mm512_mask_storeu_ps(p, first_lanes(n), x);
}

INLINE vf v_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

INLINE vf v_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

INLINE vf v_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

INLINE vf v_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

INLINE vf v_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

INLINE vf v_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

INLINE vf v_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

INLINE vm v_lt(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

INLINE vm v_eq(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}

INLINE vf v_select(vm m, vf a, vf b)
{
    return _mm512_mask_blend_ps(m, b, a);
}

INLINE vf v_abs(vf x)
{
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff)));
}

INLINE vf v_max_bits(vf a, vf b)
{
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}

INLINE vf v_exponent(vf x)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x), 23));
}

INLINE float v_hmax(vf x)
{
    x = v_max(x, _mm512_shuffle_f32x4(x, x, 0x4e));
    x = v_max(x, _mm512_shuffle_f32x4(x, x, 0xb1));
    x = v_max(x, _mm512_shuffle_ps(x, x, 0x4e));
    return v_first(v_max(x, _mm512_shuffle_ps(x, x, 0xb1)));
}

/* Lane i of each quarter: the sum of that quarter of acc[i]. */
INLINE vf quarter_sums(const vf *acc, const int n)
{
    vf zero = v_zero(), b = n > 1 ? acc[1] : zero, c = n > 2 ? acc[2] : zero, d = n > 3 ? acc[3] : zero;
    __m512d ab = _mm512_castps_pd(v_add(_mm512_unpacklo_ps(acc[0], b), _mm512_unpackhi_ps(acc[0], b)));
    __m512d cd = _mm512_castps_pd(v_add(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d)));
    return v_add(_mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd)), _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd)));
}

/* The even quarters of a and b plus the odd ones. */
INLINE vf add_quarters(vf a, vf b)
{
    return v_add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

INLINE void v_sums(const vf *acc, const int n, float *out)
{
    vf quarters[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        quarters[i] = 4 * i < n ? quarter_sums(acc + 4 * i, n - 4 * i) : v_zero();
    v_store(out, add_quarters(add_quarters(quarters[0], quarters[1]), add_quarters(quarters[2], quarters[3])));
}

INLINE vf v_swap(vf x, int h)
{
    return h == 1   ? _mm512_shuffle_ps(x, x, 0xb1)
           : h == 2 ? _mm512_shuffle_ps(x, x, 0x4e)
           : h == 4 ? _mm512_shuffle_f32x4(x, x, 0xb1)
                    : _mm512_shuffle_f32x4(x, x, 0x4e);
}

INLINE void v_transpose(vf *x)
{
    __m512 t[16];
    UNROLL
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
    }
    UNROLL
    for (int i = 0; i < 16; i += 4) {
        x[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
        x[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
        x[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        x[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    /* Quarter k of x[4 * i + j] holds rows 4 * i .. of column 4 * k + j. */
    UNROLL
    for (int j = 0; j < 4; j++) {
        vf low = _mm512_shuffle_f32x4(x[j], x[j + 4], 0x88), high = _mm512_shuffle_f32x4(x[j + 8], x[j + 12], 0x88);
        t[j] = _mm512_shuffle_f32x4(low, high, 0x88);
        t[j + 8] = _mm512_shuffle_f32x4(low, high, 0xdd);
        low = _mm512_shuffle_f32x4(x[j], x[j + 4], 0xdd), high = _mm512_shuffle_f32x4(x[j + 8], x[j + 12], 0xdd);
        t[j + 4] = _mm512_shuffle_f32x4(low, high, 0x88);
        t[j + 12] = _mm512_shuffle_f32x4(low, high, 0xdd);
    }
    UNROLL
    for (int i = 0; i < 16; i++)
        x[i] = t[i];
}

INLINE vf from_f16(__m256i x)
{
    return _mm512_cvtph_ps(x);
}

INLINE vf from_bf16(__m256i x)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

INLINE vf from_i8(__m128i x)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x));
}

INLINE vf from_i4(__m128i x)
{
    const __m512i shifts = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    const __m512i halves = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    __m512i nibbles = _mm512_srlv_epi32(_mm512_permutexvar_epi32(halves, _mm512_castsi128_si512(x)), shifts);
    nibbles = _mm512_and_si512(nibbles, _mm512_set1_epi32(15));
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(nibbles, _mm512_set1_epi32(8)));
}

/* A code sign-extended, shifted left by 7 and with bit 14 cleared is an f16 of 2^-8 times its value, subnormals
 * included. NaN codes become numbers. */
INLINE __m512i numbers_of_e4m3(__m256i x)
{
    return _mm512_and_si512(_mm512_slli_epi16(_mm512_cvtepi8_epi16(x), 7), _mm512_set1_epi16((short)0xbfff));
}

/* With the sign set those numbers are 0xbf80, and all ones is a NaN in f16. */
INLINE __m512i halves_of_e4m3(__m256i x)
{
    __m512i half = numbers_of_e4m3(x);
    __m512i negative = _mm512_or_si512(half, _mm512_set1_epi16((short)0x8000));
    __mmask32 is_nan = _mm512_cmpeq_epi16_mask(negative, _mm512_set1_epi16((short)0xbf80));
    return _mm512_mask_blend_epi16(is_nan, half, _mm512_set1_epi16(-1));
}

INLINE vf from_f8e4m3(__m128i codes)
{
    __m512i halves = halves_of_e4m3(_mm256_castsi128_si256(codes));
    return _mm512_mul_ps(_mm512_cvtph_ps(_mm512_castsi512_si256(halves)), _mm512_set1_ps(256.0f));
}

INLINE vf v_load_f32(const char *row, int64_t i)
{
    return v_load((const float *)row + i);
}

INLINE vf v_part_f32(const char *row, int64_t i, int n)
{
    return _mm512_maskz_loadu_ps(first_lanes(n), (const float *)row + i);
}

INLINE vf v_load_f16(const char *row, int64_t i)
{
    return from_f16(_mm256_loadu_si256((const __m256i *)(row + 2 * i)));
}

INLINE vf v_part_f16(const char *row, int64_t i, int n)
{
    return from_f16(_mm256_maskz_loadu_epi16(first_lanes(n), row + 2 * i));
}

INLINE vf v_load_bf16(const char *row, int64_t i)
{
    return from_bf16(_mm256_loadu_si256((const __m256i *)(row + 2 * i)));
}

INLINE vf v_part_bf16(const char *row, int64_t i, int n)
{
    return from_bf16(_mm256_maskz_loadu_epi16(first_lanes(n), row + 2 * i));
}

INLINE vf v_load_i8(const char *row, int64_t i)
{
    return from_i8(_mm_loadu_si128((const __m128i *)(row + i)));
}

INLINE vf v_part_i8(const char *row, int64_t i, int n)
{
    return from_i8(_mm_maskz_loadu_epi8(first_lanes(n), row + i));
}

INLINE vf v_load_i4(const char *row, int64_t i)
{
    return from_i4(_mm_loadl_epi64((const __m128i *)(row + i / 2)));
}

INLINE vf v_part_i4(const char *row, int64_t i, int n)
{
    return from_i4(_mm_maskz_loadu_epi8(first_lanes((n + 1) / 2), row + i / 2));
}

INLINE vf v_load_f8e4m3(const char *row, int64_t i)
{
    return from_f8e4m3(_mm_loadu_si128((const __m128i *)(row + i)));
}

INLINE vf v_part_f8e4m3(const char *row, int64_t i, int n)
{
    return from_f8e4m3(_mm_maskz_loadu_epi8(first_lanes(n), row + i));
}

INLINE vi v_step_f8e4m3(const char *codes, vf *x, vi top)
{
    __m256i all = _mm256_loadu_si256((const __m256i *)codes);
    __m512i halves = numbers_of_e4m3(all);
    x[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
    x[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
    return _mm512_max_epu8(top, _mm512_zextsi256_si512(_mm256_add_epi8(all, all)));
}

INLINE bool v_tops_nan(vi top)
{
    return _mm512_cmpeq_epi8_mask(top, _mm512_set1_epi8((char)0xfe)) != 0;
}

#ifndef VEC_BYTE_DOTS
enum { DOT_STEP = 32 };
typedef __m512i vb; /* 16 bits each */

INLINE vb v_bytes(const char *p)
{
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)p));
}

INLINE vb v_bytes_part(const char *p, int n)
{
    return _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8((1u << n) - 1, p));
}

INLINE vi v_dot(vi acc, vb a, vb b)
{
    return _mm512_add_epi32(acc, _mm512_madd_epi16(a, b));
}
#endif

INLINE vi v_no_sums(void)
{
    return _mm512_setzero_si512();
}

/* Lane i of each half: the sum of that half of acc[i] with its upper half folded onto its lower. */
INLINE __m256i half_totals(const vi *acc, const int n)
{
    __m256i half[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        half[i] = i < n ? _mm256_add_epi32(_mm512_castsi512_si256(acc[i]), _mm512_extracti64x4_epi64(acc[i], 1))
                        : _mm256_setzero_si256();
    return _mm256_hadd_epi32(_mm256_hadd_epi32(half[0], half[1]), _mm256_hadd_epi32(half[2], half[3]));
}

INLINE void v_totals(const vi *acc, const int n, int32_t *out)
{
    UNROLL
    for (int i = 0; i < n; i += 4) {
        __m256i sums = half_totals(acc + i, n - i);
        _mm_storeu_si128((__m128i *)(out + i),
                         _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1)));
    }
}

INLINE void v_store_f16(uint16_t *p, vf x)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

INLINE void v_store_bf16(uint16_t *p, vf x)
{
    __m512i bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16);
    __m512i half = _mm512_add_epi32(_mm512_set1_epi32(0x7fff), _mm512_and_si512(high, _mm512_set1_epi32(1)));
    __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
    __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
    __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_mask_blend_epi32(is_nan, rounded, quiet)));
}

INLINE void v_store_i8(int8_t *p, vf x)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)));
}

/* Below 2^-6 the step of e4m3 is 2^-9, that of f32 at 2^14; above, the code is the upper bits of the f32. */
INLINE void v_store_f8e4m3(uint8_t *p, vf x)
{
    vf magnitude = _mm512_min_ps(v_abs(x), _mm512_set1_ps(448.0f)), base = _mm512_set1_ps(0x1p14f);
    __m512i bits = _mm512_castps_si512(magnitude),
            odd = _mm512_and_si512(_mm512_srli_epi32(bits, 20), _mm512_set1_epi32(1));
    __m512i large = _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7ffff - (120 << 23)));
    __m512i small = _mm512_sub_epi32(_mm512_castps_si512(v_add(magnitude, base)), _mm512_castps_si512(base));
    vf code = v_select(v_lt(magnitude, _mm512_set1_ps(0x1p-6f)), _mm512_castsi512_ps(small),
                       _mm512_castsi512_ps(_mm512_srli_epi32(large, 20)));
    vf nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7f));
    __m512i sign = _mm512_and_si512(_mm512_srli_epi32(_mm512_castps_si512(x), 24), _mm512_set1_epi32(0x80));
    __m512i code_and_sign = _mm512_or_si512(_mm512_castps_si512(v_select(v_eq(x, x), code, nan)), sign);
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(code_and_sign));
}

#endif
