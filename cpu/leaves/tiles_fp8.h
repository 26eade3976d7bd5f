/* f8e4m3 on bf16 tiles: exact in one limb, NaN and all. */
#ifndef TILES_FP8_H
#define TILES_FP8_H

#include "tiles_attention.h"

/* The high and the low byte of the bf16 of each magnitude, 64 codes a vector. */
struct e4m3_table {
    __m512i high[2], low[2];
};

INLINE struct e4m3_table e4m3_bytes(void)
{
    struct e4m3_table table;
    uint8_t code[128], high[128], low[128];
    for (int i = 0; i < 128; i++)
        code[i] = (uint8_t)i;
    for (int i = 0; i < 128; i += VW) {
        __m512i bits = bits_of(v_abs(v_load_f8e4m3((const char *)code, i)));
        _mm_storeu_si128((__m128i *)(high + i), _mm512_cvtepi32_epi8(_mm512_srli_epi32(bits, 24)));
        _mm_storeu_si128((__m128i *)(low + i), _mm512_cvtepi32_epi8(_mm512_srli_epi32(bits, 16)));
    }
    for (int i = 0; i < 2; i++) {
        table.high[i] = _mm512_loadu_si512(high + 64 * i);
        table.low[i] = _mm512_loadu_si512(low + 64 * i);
    }
    return table;
}

/* Lines of tiles from four codes of each column: codes 0 and 2, and 1 and 3. */
INLINE void widen_codes(const struct e4m3_table *table, __m512i codes, uint8_t *even, uint8_t *odd)
{
    const __m512i upper = _mm512_set1_epi16((short)0xff00);
    __m512i high = _mm512_permutex2var_epi8(table->high[0], codes, table->high[1]);
    __m512i low = _mm512_permutex2var_epi8(table->low[0], codes, table->low[1]);
    high = _mm512_or_si512(high, _mm512_and_si512(codes, _mm512_set1_epi8((char)0x80)));
    _mm512_storeu_si512(even, _mm512_or_si512(_mm512_slli_epi16(high, 8), _mm512_andnot_si512(upper, low)));
    _mm512_storeu_si512(odd, _mm512_or_si512(_mm512_and_si512(upper, high), _mm512_srli_epi16(low, 8)));
}

INLINE __m512i load_codes(const char *p, int n)
{
    return n >= 64 ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(n > 0 ? ((uint64_t)1 << n) - 1 : 0, p);
}

enum { AHEAD = 512 }; /* bytes of a row between what is packed and what is fetched from memory */

static void pack_codes(struct right *right, struct leaf_rows w, int columns, int depth)
{
    const struct e4m3_table table = e4m3_bytes();
    for (int j = 0; j < columns; j += VW) {
        uint8_t(*tile)[TILE_BYTES] = right->tile + j / VW * STEPS;
        for (int k = 0; k < depth; k += 2 * STEP, tile += 2) {
            vf line[VW];
            UNROLL
            for (int i = 0; i < VW; i++) {
                const char *from = (const char *)w.data + (j + i) * w.stride + k;
                line[i] = _mm512_castsi512_ps(load_codes(from, j + i < columns ? depth - k : 0));
                __builtin_prefetch(from + AHEAD, 0, 2);
            }
            v_transpose(line);
            UNROLL
            for (int i = 0; i < VW; i++)
                widen_codes(&table, bits_of(line[i]), tile[0] + i * TILE_LINE, tile[1] + i * TILE_LINE);
        }
    }
}

static void qk_tiles_f8e4m3(const float *q, int64_t q_stride, struct leaf_rows k, float *s, int64_t s_stride, int rows,
                            int keys, int channels, bool accumulate)
{
    struct matrices m = {q, q_stride, k, s, s_stride, rows, keys, channels, accumulate};
    tile_product(&m, pack_codes, leaf_avx512.qk[LEAF_F8E4M3], true, 1, 8, BY_FOUR);
}

/* ---- fp8_many ------------------------------------------------------------------------------------- */

/* The terms of a sum from k on that share a scale, as many as a block of tiles takes. */
INLINE int same_scale(int64_t k, int64_t depth, int64_t block)
{
    int64_t n = block - k % block;
    n = n < depth - k ? n : depth - k;
    return (int)(n < DEPTH ? n : DEPTH);
}

/* Rows that the tiles cannot take. */
static void multiply_odd_rows(const float *a, int64_t a_stride, struct leaf_rows w, const struct left *left,
                              const struct right *right, int depth, float *out, int64_t stride, bool accumulate)
{
    for (int r = 0; r < left->rows; r++)
        for (int j = 0; j < right->columns && left->odd[r]; j++) {
            struct leaf_rows one = {(const char *)w.data + j * w.stride, w.stride, NULL};
            float *to = out + r * stride + j, sum;
            leaf_avx512.fp8_dot(a + r * a_stride, a_stride, one, right->by + j, 1, depth, &sum, 1, 1, 1, depth);
            *to = accumulate ? *to + sum : sum;
        }
}

static void fp8_tiles(const float *a, int64_t a_stride, struct leaf_rows w, const float *scale, int64_t scale_stride,
                      int64_t block, float *out, int64_t out_stride, int rows, int columns, int64_t depth)
{
    struct left left;
    struct right right;
    right.odd = 0;
    for (int r = 0; r < rows && depth == 0; r++)
        memset(out + r * out_stride, 0, (size_t)columns * sizeof *out);
    for (int64_t k = 0, n; k < depth; k += n) {
        n = same_scale(k, depth, block);
        for (int r = 0; r < rows; r += LEFT_ROWS) {
            const float *part = a + r * a_stride + k;
            load_left(&left, part, a_stride, rows - r < LEFT_ROWS ? rows - r : LEFT_ROWS, (int)n, BY_FOUR);
            for (int j = 0; j < columns; j += COLUMNS(1)) {
                struct leaf_rows panel = {(const char *)w.data + j * w.stride + k, w.stride, NULL};
                float *to = out + r * out_stride + j;
                right.columns = columns - j < COLUMNS(1) ? columns - j : COLUMNS(1);
                for (int i = 0; i < right.columns; i++)
                    right.by[i] = scale[(j + i) * scale_stride + k / block];
                pack_codes(&right, panel, right.columns, (int)n);
                multiply(&left, &right, 1, to, out_stride, k > 0);
                if (left.any_odd)
                    multiply_odd_rows(part, a_stride, panel, &left, &right, (int)n, to, out_stride, k > 0);
            }
        }
    }
}

#endif
