/* Many e4m3 codes at once for AVX2: a step of a dot, and a turned square. */
#ifndef VEC_AVX2_FP8_H
#define VEC_AVX2_FP8_H

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

/* v_turn_f8e4m3: bytes are transposed before they are widened, 32 in each step. The bits of most codes are the upper ones
 * of their bf16, with an exponent 120 larger. Codes without an exponent (0 too) and NaN are odd: they are looked for
 * apart. */
#define FP8_TURN 16

/* Twice a code, less 16, is 0xee or more for the odd ones alone. */
INLINE __m256i see_codes(__m256i codes, __m256i top)
{
    return _mm256_max_epu8(top, _mm256_sub_epi8(_mm256_add_epi8(codes, codes), _mm256_set1_epi8(16)));
}

INLINE bool saw_odd(__m256i top)
{
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(top, _mm256_set1_epi8((char)0xee)), top)) != 0;
}

/* One level of a transpose: byte i of x[j] and of x[j + 4] side by side. */
INLINE void interleave_bytes(__m256i *x)
{
    __m256i y[8];
    UNROLL
    for (int j = 0; j < 4; j++) {
        y[2 * j] = _mm256_unpacklo_epi8(x[j], x[j + 4]);
        y[2 * j + 1] = _mm256_unpackhi_epi8(x[j], x[j + 4]);
    }
    UNROLL
    for (int j = 0; j < 8; j++)
        x[j] = y[j];
}

INLINE void store_scaled(float *out, __m256i codes, const vf *by)
{
    __m256i bits = _mm256_and_si256(_mm256_srai_epi16(codes, 4), _mm256_set1_epi16((short)0x87ff));
    bits = _mm256_add_epi16(bits, _mm256_set1_epi16(120 << 7));
    const __m256i zero = _mm256_setzero_si256();
    v_store(out, v_mul(_mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, bits)), by[0]));
    v_store(out + 8, v_mul(_mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, bits)), by[1]));
}

INLINE bool v_turn_f8e4m3(const char *w, int64_t stride, const vf *by, float *out, int64_t out_stride)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i x[8], top = zero;
    UNROLL
    for (int i = 0; i < 8; i++) { /* the unpacks below leave 4 columns of each lane together */
        const char *low = w + (i + i / 4 * 4) * stride;
        __m128i high = _mm_loadu_si128((const __m128i *)(low + 4 * stride));
        x[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)low)), high, 1);
        top = see_codes(x[i], top);
    }
    interleave_bytes(x);
    interleave_bytes(x);
    interleave_bytes(x);
    UNROLL
    for (int i = 0; i < 8; i++, out += 2 * out_stride) {
        store_scaled(out, _mm256_unpacklo_epi8(zero, x[i]), by);
        store_scaled(out + out_stride, _mm256_unpackhi_epi8(zero, x[i]), by);
    }
    return !saw_odd(top);
}

#endif
