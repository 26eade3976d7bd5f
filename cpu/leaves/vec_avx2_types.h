/* Stored types for AVX2: what is stored as vectors of f32, and those as what is stored. */
#ifndef VEC_AVX2_TYPES_H
#define VEC_AVX2_TYPES_H

/* ---- loads ---------------------------------------------------------------------------------------- */

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

/* ---- stores --------------------------------------------------------------------------------------- */

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
