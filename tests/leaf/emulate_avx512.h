/* The AVX-512 functions of vec_avx512.h in portable C: SIMDe's, and those that SIMDe 0.7.4 lacks. */
#ifndef EMULATE_AVX512_H
#define EMULATE_AVX512_H

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

#include "common/convert.h"

#include <math.h>

/* The names of the tables; leaf_avx2 need not exist on the machine that emulates. */
#define leaf_avx512 leaf_avx512_emulated
#define leaf_avx512vnni leaf_avx512vnni_emulated
#define leaf_avx512vnni_2 leaf_avx512vnni_2_emulated
#define leaf_avx512vnni_1 leaf_avx512vnni_1_emulated
#define leaf_amx leaf_amx_emulated
#define leaf_avx2 leaf_scalar

#define EMULATED static inline __attribute__((unused))

typedef simde__mmask16 __mmask16;
typedef simde__mmask32 __mmask32;
typedef simde__mmask64 __mmask64;

#define _mm512_shuffle_f32x4(a, b, order) \
    _mm512_castsi512_ps(_mm512_shuffle_i32x4(_mm512_castps_si512(a), _mm512_castps_si512(b), order))

EMULATED __m512 _mm512_mask_loadu_ps(__m512 fill, __mmask16 mask, const void *p)
{
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            memcpy((char *)&fill + 4 * i, (const char *)p + 4 * i, 4);
    return fill;
}

EMULATED __m512i _mm512_zextsi256_si512(__m256i low)
{
    __m512i out = _mm512_setzero_si512();
    memcpy(&out, &low, sizeof low);
    return out;
}

EMULATED __m512 _mm512_maskz_loadu_ps(__mmask16 mask, const void *p)
{
    return _mm512_mask_loadu_ps(_mm512_setzero_ps(), mask, p);
}

EMULATED void _mm512_mask_storeu_ps(void *p, __mmask16 mask, __m512 x)
{
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            memcpy((char *)p + 4 * i, (const char *)&x + 4 * i, 4);
}

EMULATED __m128i _mm_maskz_loadu_epi8(__mmask16 mask, const void *p)
{
    char out[16] = {0};
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            out[i] = ((const char *)p)[i];
    return _mm_loadu_si128((const __m128i *)out);
}

EMULATED __m256i _mm256_maskz_loadu_epi8(__mmask32 mask, const void *p)
{
    char out[32] = {0};
    for (int i = 0; i < 32; i++)
        if (mask >> i & 1)
            out[i] = ((const char *)p)[i];
    return _mm256_loadu_si256((const __m256i *)out);
}

EMULATED __m512i _mm512_maskz_loadu_epi8(__mmask64 mask, const void *p)
{
    char out[64] = {0};
    for (int i = 0; i < 64; i++)
        if (mask >> i & 1)
            out[i] = ((const char *)p)[i];
    return _mm512_loadu_si512(out);
}

#undef _mm512_madd_epi16 /* SIMDe 0.7.4 gives this name to another function */
EMULATED __m512i _mm512_madd_epi16(__m512i a, __m512i b)
{
    int16_t left[32], right[32];
    int32_t out[16];
    memcpy(left, &a, sizeof left);
    memcpy(right, &b, sizeof right);
    for (int i = 0; i < 16; i++)
        out[i] = left[2 * i] * right[2 * i] + left[2 * i + 1] * right[2 * i + 1];
    return _mm512_loadu_si512(out);
}

EMULATED __m256i _mm256_maskz_loadu_epi16(__mmask16 mask, const void *p)
{
    char out[32] = {0};
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            memcpy(out + 2 * i, (const char *)p + 2 * i, 2);
    return _mm256_loadu_si256((const __m256i *)out);
}

EMULATED int _mm512_reduce_max_epi32(__m512i x)
{
    int32_t in[16], most;
    memcpy(in, &x, sizeof in);
    most = in[0];
    for (int i = 1; i < 16; i++)
        most = in[i] > most ? in[i] : most;
    return most;
}

EMULATED __mmask16 _mm512_mask_cmpgt_epu32_mask(__mmask16 among, __m512i a, __m512i b)
{
    uint32_t left[16], right[16];
    unsigned mask = 0;
    memcpy(left, &a, sizeof left);
    memcpy(right, &b, sizeof right);
    for (int i = 0; i < 16; i++)
        mask |= (unsigned)(left[i] > right[i]) << i;
    return (__mmask16)(mask & among);
}

EMULATED __mmask32 _mm512_cmpeq_epi16_mask(__m512i a, __m512i b)
{
    uint32_t mask = 0;
    for (int i = 0; i < 32; i++)
        mask |= (uint32_t)(memcmp((const char *)&a + 2 * i, (const char *)&b + 2 * i, 2) == 0) << i;
    return mask;
}

EMULATED __m512i _mm512_cvtepi8_epi32(__m128i x)
{
    int8_t in[16];
    int32_t out[16];
    memcpy(in, &x, sizeof in);
    for (int i = 0; i < 16; i++)
        out[i] = in[i];
    return _mm512_loadu_si512(out);
}

EMULATED __m512i _mm512_cvtepu8_epi16(__m256i x)
{
    uint8_t in[32];
    uint16_t out[32];
    memcpy(in, &x, sizeof in);
    for (int i = 0; i < 32; i++)
        out[i] = in[i];
    return _mm512_loadu_si512(out);
}

EMULATED __m512i _mm512_cvtepu16_epi32(__m256i x)
{
    uint16_t in[16];
    uint32_t out[16];
    memcpy(in, &x, sizeof in);
    for (int i = 0; i < 16; i++)
        out[i] = in[i];
    return _mm512_loadu_si512(out);
}

EMULATED __m512 _mm512_cvtepi32_ps(__m512i x)
{
    int32_t in[16];
    float out[16];
    memcpy(in, &x, sizeof in);
    for (int i = 0; i < 16; i++)
        out[i] = (float)in[i];
    return _mm512_loadu_ps(out);
}

EMULATED __m512i _mm512_cvtps_epi32(__m512 x)
{
    float in[16];
    int32_t out[16];
    memcpy(in, &x, sizeof in);
    for (int i = 0; i < 16; i++)
        out[i] = (int32_t)rintf(in[i]);
    return _mm512_loadu_si512(out);
}

EMULATED __m128i _mm512_cvtepi32_epi8(__m512i x)
{
    char out[16];
    for (int i = 0; i < 16; i++)
        out[i] = ((const char *)&x)[4 * i];
    return _mm_loadu_si128((const __m128i *)out);
}

EMULATED __m256i _mm512_cvtepi32_epi16(__m512i x)
{
    char out[32];
    for (int i = 0; i < 16; i++)
        memcpy(out + 2 * i, (const char *)&x + 4 * i, 2);
    return _mm256_loadu_si256((const __m256i *)out);
}

EMULATED __m512 _mm512_cvtph_ps(__m256i x)
{
    uint16_t in[16];
    float out[16];
    memcpy(in, &x, sizeof in);
    for (int i = 0; i < 16; i++)
        out[i] = f32_of_f16(in[i]);
    return _mm512_loadu_ps(out);
}

/* The one rounding that is used: to nearest even. */
EMULATED __m256i _mm512_cvtps_ph(__m512 x, int rounding)
{
    (void)rounding;
    float in[16];
    uint16_t out[16];
    memcpy(in, &x, sizeof in);
    for (int i = 0; i < 16; i++)
        out[i] = f16_of_f32(in[i]);
    return _mm256_loadu_si256((const __m256i *)out);
}

#undef _mm512_multishift_epi64_epi8 /* SIMDe 0.7.4 shifts by 64 where it is told 0 */
EMULATED __m512i _mm512_multishift_epi64_epi8(__m512i from, __m512i x)
{
    uint8_t first[64], out[64];
    uint64_t in[8];
    memcpy(first, &from, sizeof first);
    memcpy(in, &x, sizeof in);
    for (int i = 0; i < 64; i++) {
        int right = first[i] % 64;
        out[i] = (uint8_t)(in[i / 8] >> right | in[i / 8] << (64 - right) % 64);
    }
    return _mm512_loadu_si512(out);
}

#endif
