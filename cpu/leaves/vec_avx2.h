/* The vocabulary for AVX2 with FMA and F16C: 8 lanes, 16 registers. */
#ifndef VEC_AVX2_H
#define VEC_AVX2_H

#include "vec.h"

#include <immintrin.h>
#include <string.h>

enum { VW = 8, QK_ROWS = 4, SV_ROWS = 6, DOT_STEP = 16, FP8_STEP = 32 };
#define QK_KEYS(rows) ((rows) == 1 ? 8 : (rows) == 2 ? 4 : 3)
#define SV_VECTORS(rows) ((rows) == 1 ? 8 : (rows) <= 3 ? 4 : 2)
#define FP8_PARTS(rows) ((rows) <= 3 ? 4 : (rows) <= 6 ? 2 : 1)

typedef __m256 vf;
typedef __m256 vm;
typedef __m256i vb; /* 16 bits each */
typedef __m256i vi;

INLINE vf v_zero(void)
{
    return _mm256_setzero_ps();
}

INLINE vf v_set1(float x)
{
    return _mm256_set1_ps(x);
}

INLINE float v_first(vf x)
{
    return _mm256_cvtss_f32(x);
}

INLINE vf v_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

INLINE void v_store(float *p, vf x)
{
    _mm256_storeu_ps(p, x);
}

INLINE __m256i first_lanes(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Parts go in pieces of 4, 2 and 1: masked stores take many steps on some processors, and the emulators that the tests
 * use read what a masked load leaves out. */
INLINE __m128 few_floats(const float *p, int n)
{
    __m128 last = n & 1 ? _mm_load_ss(p + (n & 2)) : _mm_setzero_ps();
    return n & 2 ? _mm_movelh_ps(_mm_castsi128_ps(_mm_loadl_epi64((const __m128i *)p)), last) : last;
}

INLINE vf few_lanes(const float *p, int n)
{
    if (n < 4)
        return _mm256_zextps128_ps256(few_floats(p, n));
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), few_floats(p + 4, n - 4), 1);
}

INLINE vf v_load_part(const float *p, int n, vf fill)
{
    return _mm256_blendv_ps(fill, few_lanes(p, n), _mm256_castsi256_ps(first_lanes(n)));
}

INLINE void v_store_part(float *p, int n, vf x)
{
    __m128 rest = _mm256_castps256_ps128(x);
    if (n & 4) {
        _mm_storeu_ps(p, rest);
        rest = _mm256_extractf128_ps(x, 1);
        p += 4;
    }
    if (n & 2) {
        _mm_storel_epi64((__m128i *)p, _mm_castps_si128(rest));
        rest = _mm_movehl_ps(rest, rest);
        p += 2;
    }
    if (n & 1)
        _mm_store_ss(p, rest);
}

INLINE vf v_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}

INLINE vf v_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}

INLINE vf v_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}

INLINE vf v_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}

INLINE vf v_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

INLINE vf v_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

INLINE vf v_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}

INLINE vm v_lt(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}

INLINE vm v_eq(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}

INLINE vf v_select(vm m, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, m);
}

INLINE vf v_abs(vf x)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

INLINE vf v_max_bits(vf a, vf b)
{
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}

INLINE vf v_exponent(vf x)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x), 23));
}

INLINE float v_hmax(vf x)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

/* Lane i of each half: the sum of that half of acc[i]. */
INLINE __m256 half_sums(const vf *acc, const int n)
{
    __m256 zero = v_zero(), low = _mm256_hadd_ps(acc[0], n > 1 ? acc[1] : zero);
    return _mm256_hadd_ps(low, n > 2 ? _mm256_hadd_ps(acc[2], n > 3 ? acc[3] : zero) : zero);
}

INLINE void v_sums(const vf *acc, const int n, float *out)
{
    UNROLL
    for (int i = 0; i < n; i += 4) {
        __m256 sums = half_sums(acc + i, n - i);
        _mm_storeu_ps(out + i, _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1)));
    }
}

INLINE vf v_swap(vf x, int h)
{
    return h == 1 ? _mm256_permute_ps(x, 0xb1) : h == 2 ? _mm256_permute_ps(x, 0x4e) : _mm256_permute2f128_ps(x, x, 1);
}

INLINE void v_transpose(vf *x)
{
    __m256 t[8];
    UNROLL
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
    UNROLL
    for (int i = 0; i < 8; i += 4) {
        x[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        x[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        x[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        x[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(x[i], x[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(x[i], x[i + 4], 0x31);
    }
    UNROLL
    for (int i = 0; i < 8; i++)
        x[i] = t[i];
}

INLINE __m128i few_halves(const char *p, int n)
{
    if (n < 4)
        return _mm_cvtsi64_si128((long long)few_bytes(p, 2 * n));
    __m128i low = _mm_loadl_epi64((const __m128i *)p);
    return n == 4 ? low : _mm_insert_epi64(low, (long long)few_bytes(p + 8, 2 * n - 8), 1);
}

INLINE vf from_f16(__m128i x)
{
    return _mm256_cvtph_ps(x);
}

INLINE vf from_bf16(__m128i x)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}

INLINE vf from_i8(__m128i x)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x));
}

INLINE vf from_i4(int x)
{
    __m256i nibbles = _mm256_srlv_epi32(_mm256_set1_epi32(x), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    nibbles = _mm256_and_si256(nibbles, _mm256_set1_epi32(15));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(nibbles, _mm256_set1_epi32(8)));
}

/* A code sign-extended, shifted left by 7 and with bit 14 cleared is an f16 of 2^-8 times its value, subnormals
 * included. Only the NaN codes need repair: with the sign set they are 0xbf80, and all ones is a NaN in f16. */
INLINE __m256i halves_of_e4m3(__m128i x)
{
    __m256i half = _mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(x), 7), _mm256_set1_epi16((short)0xbfff));
    __m256i negative = _mm256_or_si256(half, _mm256_set1_epi16((short)0x8000));
    return _mm256_or_si256(half, _mm256_cmpeq_epi16(negative, _mm256_set1_epi16((short)0xbf80)));
}

INLINE vf from_f8e4m3(__m128i half)
{
    return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256.0f));
}

INLINE vf v_load_f32(const char *row, int64_t i)
{
    return v_load((const float *)row + i);
}

INLINE vf v_part_f32(const char *row, int64_t i, int n)
{
    return few_lanes((const float *)row + i, n);
}

INLINE vf v_load_f16(const char *row, int64_t i)
{
    return from_f16(_mm_loadu_si128((const __m128i *)(row + 2 * i)));
}

INLINE vf v_part_f16(const char *row, int64_t i, int n)
{
    return from_f16(few_halves(row + 2 * i, n));
}

INLINE vf v_load_bf16(const char *row, int64_t i)
{
    return from_bf16(_mm_loadu_si128((const __m128i *)(row + 2 * i)));
}

INLINE vf v_part_bf16(const char *row, int64_t i, int n)
{
    return from_bf16(few_halves(row + 2 * i, n));
}

INLINE vf v_load_i8(const char *row, int64_t i)
{
    return from_i8(_mm_loadl_epi64((const __m128i *)(row + i)));
}

INLINE vf v_part_i8(const char *row, int64_t i, int n)
{
    return from_i8(_mm_cvtsi64_si128((long long)few_bytes(row + i, n)));
}

INLINE vf v_load_i4(const char *row, int64_t i)
{
    int x;
    memcpy(&x, row + i / 2, 4);
    return from_i4(x);
}

INLINE vf v_part_i4(const char *row, int64_t i, int n)
{
    return from_i4((int)few_bytes(row + i / 2, (n + 1) / 2));
}

/* The upper half of a float holds the numbers -8 .. 7, and there is a table for each of its bytes. */
#define i4_MANY 4
INLINE void v_many_i4(const char *row, int64_t i, vf *x)
{
    const __m256i first = _mm256_broadcastsi128_si256(_mm_set_epi64x(0x4040404040403f00, (int64_t)0xbfc0c0c0c0c0c0c1));
    const __m256i second =
        _mm256_broadcastsi128_si256(_mm_set_epi64x((int64_t)0xe0c0a08040008000, (int64_t)0x80004080a0c0e000));
    const __m256i upper = _mm256_set1_epi32((int)0xffff0000);
    __m256i codes = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(row + i / 2)));
    codes = _mm256_srlv_epi32(codes, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4)); /* even channels, odd channels */
    codes = _mm256_and_si256(codes, _mm256_set1_epi8(15));
    __m256i high = _mm256_shuffle_epi8(first, codes), low = _mm256_shuffle_epi8(second, codes);
    __m256i early = _mm256_unpacklo_epi8(low, high), late = _mm256_unpackhi_epi8(low, high);
    x[0] = _mm256_castsi256_ps(_mm256_slli_epi32(early, 16));
    x[1] = _mm256_castsi256_ps(_mm256_and_si256(early, upper));
    x[2] = _mm256_castsi256_ps(_mm256_slli_epi32(late, 16));
    x[3] = _mm256_castsi256_ps(_mm256_and_si256(late, upper));
}

/* Each two vectors of v_many_i4 hold 16 channels as a 4 x 4 matrix that lies transposed. */
INLINE void v_sort_i4(vf *x)
{
    UNROLL
    for (int i = 0; i < i4_MANY; i += 2) {
        vf even = _mm256_permute2f128_ps(x[i], x[i + 1], 0x20), odd = _mm256_permute2f128_ps(x[i], x[i + 1], 0x31);
        __m256d low = _mm256_castps_pd(_mm256_unpacklo_ps(even, odd));
        __m256d high = _mm256_castps_pd(_mm256_unpackhi_ps(even, odd));
        x[i] = _mm256_castpd_ps(_mm256_permute4x64_pd(low, 0xd8));
        x[i + 1] = _mm256_castpd_ps(_mm256_permute4x64_pd(high, 0xd8));
    }
}

INLINE vf v_load_f8e4m3(const char *row, int64_t i)
{
    return from_f8e4m3(_mm256_castsi256_si128(halves_of_e4m3(_mm_loadl_epi64((const __m128i *)(row + i)))));
}

INLINE vf v_part_f8e4m3(const char *row, int64_t i, int n)
{
    __m128i codes = _mm_cvtsi64_si128((long long)few_bytes(row + i, n));
    return from_f8e4m3(_mm256_castsi256_si128(halves_of_e4m3(codes)));
}

INLINE vi v_step_f8e4m3(const char *codes, vf *x, vi top)
{
    const __m256i zero = _mm256_setzero_si256(), mask = _mm256_set1_epi16((short)0xbfff);
    __m256i all = _mm256_loadu_si256((const __m256i *)codes);
    __m256i even = _mm256_and_si256(_mm256_srai_epi16(_mm256_unpacklo_epi8(zero, all), 1), mask);
    __m256i odd = _mm256_and_si256(_mm256_srai_epi16(_mm256_unpackhi_epi8(zero, all), 1), mask);
    x[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(even));
    x[1] = _mm256_cvtph_ps(_mm256_castsi256_si128(odd));
    x[2] = _mm256_cvtph_ps(_mm256_extracti128_si256(even, 1));
    x[3] = _mm256_cvtph_ps(_mm256_extracti128_si256(odd, 1));
    return _mm256_max_epu8(top, _mm256_add_epi8(all, all));
}

INLINE bool v_tops_nan(vi top)
{
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(top, _mm256_set1_epi8((char)0xfe))) != 0;
}

INLINE vi v_no_sums(void)
{
    return _mm256_setzero_si256();
}

INLINE vb v_bytes(const char *p)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
}

INLINE vb v_bytes_part(const char *p, int n)
{
    if (n < 8)
        return _mm256_cvtepi8_epi16(_mm_cvtsi64_si128((long long)few_bytes(p, n)));
    __m128i low = _mm_loadl_epi64((const __m128i *)p);
    return _mm256_cvtepi8_epi16(n == 8 ? low : _mm_insert_epi64(low, (long long)few_bytes(p + 8, n - 8), 1));
}

INLINE vi v_dot(vi acc, vb a, vb b)
{
    return _mm256_add_epi32(acc, _mm256_madd_epi16(a, b));
}

INLINE void v_totals(const vi *acc, const int n, int32_t *out)
{
    vi zero = v_no_sums();
    UNROLL
    for (int i = 0; i < n; i += 4) {
        vi low = _mm256_hadd_epi32(acc[i], i + 1 < n ? acc[i + 1] : zero);
        vi high = i + 2 < n ? _mm256_hadd_epi32(acc[i + 2], i + 3 < n ? acc[i + 3] : zero) : zero;
        vi sums = _mm256_hadd_epi32(low, high);
        _mm_storeu_si128((__m128i *)(out + i),
                         _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1)));
    }
}

/* The low halves of 8 lanes that fit in 16 bits. */
INLINE __m128i low_halves(__m256i x)
{
    return _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}

INLINE void v_store_f16(uint16_t *p, vf x)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

INLINE void v_store_bf16(uint16_t *p, vf x)
{
    __m256i bits = _mm256_castps_si256(x), high = _mm256_srli_epi32(bits, 16);
    __m256i half = _mm256_add_epi32(_mm256_set1_epi32(0x7fff), _mm256_and_si256(high, _mm256_set1_epi32(1)));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
    __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    _mm_storeu_si128((__m128i *)p, low_halves(_mm256_blendv_epi8(rounded, quiet, is_nan)));
}

INLINE void v_store_i8(int8_t *p, vf x)
{
    __m256i i = _mm256_cvtps_epi32(x);
    __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packs_epi16(halves, halves));
}

/* Below 2^-6 the step of e4m3 is 2^-9, that of f32 at 2^14; above, the code is the upper bits of the f32. */
INLINE void v_store_f8e4m3(uint8_t *p, vf x)
{
    vf magnitude = _mm256_min_ps(v_abs(x), _mm256_set1_ps(448.0f)), base = _mm256_set1_ps(0x1p14f);
    __m256i bits = _mm256_castps_si256(magnitude),
            odd = _mm256_and_si256(_mm256_srli_epi32(bits, 20), _mm256_set1_epi32(1));
    __m256i large = _mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7ffff - (120 << 23)));
    __m256i small = _mm256_sub_epi32(_mm256_castps_si256(v_add(magnitude, base)), _mm256_castps_si256(base));
    vf code = v_select(v_lt(magnitude, _mm256_set1_ps(0x1p-6f)), _mm256_castsi256_ps(small),
                       _mm256_castsi256_ps(_mm256_srli_epi32(large, 20)));
    vf nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7f));
    __m256i sign = _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(x), 24), _mm256_set1_epi32(0x80));
    __m128i halves = low_halves(_mm256_or_si256(_mm256_castps_si256(v_select(v_eq(x, x), code, nan)), sign));
    _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(halves, halves));
}

#endif
