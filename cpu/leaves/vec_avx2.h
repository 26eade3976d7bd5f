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

#include "vec_avx2_types.h"

#include "vec_avx2_fp8.h"

#endif
