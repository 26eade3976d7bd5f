/* Sums of products of f32 rows with stored integers on i8 tiles: the rows as limbs (limbs.h), exact sums, one join. */
#ifndef TILES_LIMBS_H
#define TILES_LIMBS_H

#include "limbs.h"
#include "tiles_attention.h"

enum {
    BYTE_STEP = 64, /* terms of a sum that one instruction takes */
    BYTE_STEPS = LIMB_TERMS / BYTE_STEP,
    LEFT_TILES = ROW_TILES * 2 * EXACT_LIMBS /* so many rows of two steps, or half as many of four */
};

struct limb_left {
    LINES uint8_t tile[LEFT_TILES][TILE_BYTES]; /* of row tile i, step j, limb l: [(i * steps + j) * EXACT_LIMBS + l] */
    float unit[LEFT_ROWS];                      /* 0: left to the base */
    bool any_odd;
    int rows, steps;
};

struct limb_right {
    LINES uint8_t tile[4 * BYTE_STEPS][TILE_BYTES]; /* of column tile i, step j: [i * BYTE_STEPS + j] */
    int columns;
};

/* Terms 4 * i .. of a step stand in this line of B, which is dword i of 16 as the limbs of rows come out. */
INLINE int quad_line(int i)
{
    return i % 4 * 4 + i / 4;
}

/* ---- left ----------------------------------------------------------------------------------------- */

/* Line `to` of each limb's tile from the 64 integers in x. */
INLINE void split_limbs(const __m512i *x, uint8_t (*tile)[TILE_BYTES], int line)
{
    const __m128i by_limb = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i order = _mm512_broadcast_i32x4(by_limb), offset = _mm512_set1_epi32((int)limb_offset(EXACT_LIMBS));
    __m512i limb[4];
    UNROLL
    for (int i = 0; i < 4; i++)
        limb[i] = _mm512_shuffle_epi8(_mm512_xor_si512(_mm512_add_epi32(x[i], offset), offset), order);
    __m512i a = _mm512_unpacklo_epi32(limb[0], limb[1]), b = _mm512_unpackhi_epi32(limb[0], limb[1]);
    __m512i c = _mm512_unpacklo_epi32(limb[2], limb[3]), d = _mm512_unpackhi_epi32(limb[2], limb[3]);
    limb[0] = _mm512_unpacklo_epi64(a, c);
    limb[1] = _mm512_unpackhi_epi64(a, c);
    limb[2] = _mm512_unpacklo_epi64(b, d);
    limb[3] = _mm512_unpackhi_epi64(b, d);
    UNROLL
    for (int i = 0; i < 4; i++)
        _mm512_storeu_si512(tile[i] + line * TILE_LINE, limb[i]);
}

/* Returns the unit, 0 where the row does not fit. */
INLINE float load_limbs(const float *x, int terms, const enum limb_rule rule, uint8_t (*tile)[TILE_BYTES], int line)
{
    vf top = v_zero();
    for (int i = 0; i < terms; i += VW)
        top = v_max_bits(top, v_abs(part_or_zero(x + i, terms - i)));
    float unit = limb_unit(float_of_bits((uint32_t)_mm512_reduce_max_epi32(bits_of(top))), EXACT_LIMBS);
    if (unit == 0)
        return 0;
    const vf inverse = v_set1(1.0f / unit), limit = v_set1((float)limb_small(rule, terms) * unit);
    int nonzero = 0, small = 0;
    for (int i = 0; i < terms; i += BYTE_STEP, tile += EXACT_LIMBS) {
        __m512i integer[4];
        UNROLL
        for (int j = 0; j < 4; j++) {
            vf number = part_or_zero(x + i + j * VW, terms - i - j * VW);
            __mmask16 zero = v_eq(number, v_zero()), few = v_lt(v_abs(number), limit) & (__mmask16)~zero;
            if (rule == LIMBS_OF_QUERIES) { /* where one is too many */
                small |= few;
            } else {
                nonzero += VW - __builtin_popcount(zero);
                small += __builtin_popcount(few);
            }
            integer[j] = _mm512_cvtps_epi32(v_mul(number, inverse));
        }
        split_limbs(integer, tile, line);
    }
    return limb_fits(rule, small, nonzero) ? unit : 0;
}

/* Lines of tiles behind the last row keep what they hold: they make rows of sums that nobody reads. */
INLINE void load_limb_rows(struct limb_left *left, const float *x, int64_t stride, int rows, int terms,
                           const enum limb_rule rule)
{
    left->rows = rows;
    left->steps = (terms + BYTE_STEP - 1) / BYTE_STEP;
    left->any_odd = false;
    for (int r = 0; r < rows; r++) {
        uint8_t(*tile)[TILE_BYTES] = left->tile + r / TILE_ROWS * left->steps * EXACT_LIMBS;
        left->unit[r] = terms < LIMB_LEAST_TERMS ? 0 : load_limbs(x + r * stride, terms, rule, tile, r % TILE_ROWS);
        left->any_odd |= left->unit[r] == 0;
    }
}

/* ---- right ---------------------------------------------------------------------------------------- */

/* n values of a row from its byte p on, n at most 64, as signed bytes; behind them anything. */
INLINE __m512i load_bytes(const char *p, int n, const bool nibbles)
{
    if (!nibbles)
        return n >= 64 ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(((__mmask64)1 << n) - 1, p);
    int bytes = (n + 1) / 2;
    __m256i pairs = bytes >= 32 ? _mm256_loadu_si256((const __m256i *)p)
                                : _mm256_maskz_loadu_epi8((uint32_t)(((uint64_t)1 << bytes) - 1), p);
    __m512i wide = _mm512_cvtepu8_epi16(pairs);
    wide = _mm512_and_si512(_mm512_or_si512(wide, _mm512_slli_epi16(wide, 4)), _mm512_set1_epi8(15));
    return _mm512_sub_epi8(wide, _mm512_set1_epi8(8));
}

/* Keys are the columns, their channels the terms. */
INLINE void pack_key_bytes(struct limb_right *right, struct leaf_rows k, int keys, int channels, const bool nibbles)
{
    for (int j = 0; j < keys; j += VW)
        for (int c = 0; c < channels; c += BYTE_STEP) {
            uint8_t *tile = right->tile[j / VW * BYTE_STEPS + c / BYTE_STEP];
            vf line[VW];
            UNROLL
            for (int i = 0; i < VW; i++) {
                const char *from = (const char *)k.data + (j + i) * k.stride + (nibbles ? c / 2 : c);
                int n = channels - c < BYTE_STEP ? channels - c : BYTE_STEP;
                line[i] = _mm512_castsi512_ps(load_bytes(from, j + i < keys ? n : 0, nibbles));
            }
            v_transpose(line);
            UNROLL
            for (int i = 0; i < VW; i++)
                _mm512_storeu_si512(tile + quad_line(i) * TILE_LINE, bits_of(line[i]));
        }
}

/* Byte b of four rows, 16 bytes of each, becomes byte r of dword b. */
INLINE void four_side_by_side(__m512i a, __m512i b, __m512i c, __m512i d, __m512i *out)
{
    __m512i ab = _mm512_unpacklo_epi8(a, b), ab_high = _mm512_unpackhi_epi8(a, b);
    __m512i cd = _mm512_unpacklo_epi8(c, d), cd_high = _mm512_unpackhi_epi8(c, d);
    out[0] = _mm512_unpacklo_epi16(ab, cd);
    out[1] = _mm512_unpackhi_epi16(ab, cd);
    out[2] = _mm512_unpacklo_epi16(ab_high, cd_high);
    out[3] = _mm512_unpackhi_epi16(ab_high, cd_high);
}

/* The four quarters of x[0], then of x[1], ..: turned, quarter i of each is a row. */
INLINE void turn_quarters(__m512i *x)
{
    __m512i a = _mm512_shuffle_i32x4(x[0], x[1], 0x44), b = _mm512_shuffle_i32x4(x[2], x[3], 0x44);
    __m512i c = _mm512_shuffle_i32x4(x[0], x[1], 0xee), d = _mm512_shuffle_i32x4(x[2], x[3], 0xee);
    x[0] = _mm512_shuffle_i32x4(a, b, 0x88);
    x[1] = _mm512_shuffle_i32x4(a, b, 0xdd);
    x[2] = _mm512_shuffle_i32x4(c, d, 0x88);
    x[3] = _mm512_shuffle_i32x4(c, d, 0xdd);
}

/* Up to 64 channels are the columns, keys the terms. */
INLINE void pack_value_bytes(struct limb_right *right, struct leaf_rows v, int channels, int keys, const bool nibbles)
{
    for (int j = 0; j < keys; j += 4) {
        const char *row = (const char *)v.data + j * v.stride;
        __m512i x[4], columns[4];
        UNROLL
        for (int i = 0; i < 4; i++)
            x[i] = j + i < keys ? load_bytes(row + i * v.stride, channels, nibbles) : _mm512_setzero_si512();
        four_side_by_side(x[0], x[1], x[2], x[3], columns);
        turn_quarters(columns);
        int line = quad_line(j % BYTE_STEP / 4) * TILE_LINE;
        UNROLL
        for (int i = 0; i < 4; i++)
            _mm512_storeu_si512(right->tile[i * BYTE_STEPS + j / BYTE_STEP] + line, columns[i]);
    }
    int end = (keys + BYTE_STEP - 1) / BYTE_STEP * BYTE_STEP; /* the terms behind the last meet zeros */
    for (int j = (keys + 3) / 4 * 4; j < end; j += 4)
        for (int i = 0; i < 4; i++)
            memset(right->tile[i * BYTE_STEPS + j / BYTE_STEP] + quad_line(j % BYTE_STEP / 4) * TILE_LINE, 0,
                   TILE_LINE);
}

/* ---- the product ---------------------------------------------------------------------------------- */

/* The sums of row tile i and column tile j, by limb. */
INLINE void multiply_limbs(const struct limb_left *left, int i, const struct limb_right *right, int j,
                           int32_t (*c)[TILE_ROWS * VW])
{
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    for (int step = 0; step < left->steps; step++) {
        const uint8_t(*a)[TILE_BYTES] = left->tile + (i * left->steps + step) * EXACT_LIMBS;
        TILE_LOAD(4, right->tile[j * BYTE_STEPS + step]);
        TILE_LOAD(5, a[0]);
        TILE_DOT_I8(0, 5, 4);
        TILE_LOAD(6, a[1]);
        TILE_DOT_I8(1, 6, 4);
        TILE_LOAD(7, a[2]);
        TILE_DOT_I8(2, 7, 4);
        TILE_LOAD(5, a[3]);
        TILE_DOT_I8(3, 5, 4);
    }
    TILE_STORE(0, c[0]);
    TILE_STORE(1, c[1]);
    TILE_STORE(2, c[2]);
    TILE_STORE(3, c[3]);
}

/* limb_join of sixteen columns. */
INLINE vf join_limbs(int32_t (*c)[TILE_ROWS * VW], int r, vf unit)
{
    __m512i dot[EXACT_LIMBS];
    UNROLL
    for (int l = 0; l < EXACT_LIMBS; l++)
        dot[l] = _mm512_loadu_si512(c[l] + r * VW);
    vf sum = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(dot[1], 8), dot[0]));
    sum = v_fma(_mm512_cvtepi32_ps(dot[2]), v_set1(0x1p16f), sum);
    sum = v_fma(_mm512_cvtepi32_ps(dot[3]), v_set1(0x1p24f), sum);
    return v_mul(sum, unit);
}

INLINE void multiply_limb_rows(const struct limb_left *left, const struct limb_right *right, float *out, int64_t stride,
                               bool accumulate)
{
    LINES int32_t c[EXACT_LIMBS][TILE_ROWS * VW];
    for (int first = 0; first < left->rows; first += TILE_ROWS)
        for (int column = 0; column < right->columns; column += VW) {
            int rows = left->rows - first < TILE_ROWS ? left->rows - first : TILE_ROWS;
            int n = right->columns - column;
            const __mmask16 lanes = n >= VW ? 0xffff : first_lanes(n);
            multiply_limbs(left, first / TILE_ROWS, right, column / VW, c);
            for (int r = 0; r < rows; r++) {
                float *to = out + (first + r) * stride + column;
                vf sum = join_limbs(c, r, v_set1(left->unit[first + r]));
                if (left->unit[first + r] == 0)
                    continue;
                _mm512_mask_storeu_ps(to, lanes, accumulate ? v_add(_mm512_maskz_loadu_ps(lanes, to), sum) : sum);
            }
        }
}

static void multiply_odd_limb_rows(const struct matrices *m, const struct limb_left *left, leaf_qk *base,
                                   const bool is_qk)
{
    for (int r = 0; r < left->rows; r++)
        if (left->unit[r] == 0)
            base(m->left + r * m->left_stride, m->left_stride, m->stored, m->out + r * m->out_stride, m->out_stride, 1,
                 is_qk ? m->columns : m->terms, is_qk ? m->terms : m->columns, m->accumulate);
}

INLINE void limb_product(const struct matrices *m, leaf_qk *base, const bool is_qk, const bool nibbles)
{
    struct limb_left left;
    struct limb_right right;
    for (int term = 0; term < m->terms; term += LIMB_TERMS) {
        int terms = m->terms - term < LIMB_TERMS ? m->terms - term : LIMB_TERMS;
        int most = terms > 2 * BYTE_STEP ? LEFT_ROWS / 2 : LEFT_ROWS;
        for (int r = 0; r < m->rows; r += most) {
            struct matrices rows = block_of(m, term, r, 0, is_qk, nibbles ? 4 : 8);
            rows.terms = terms;
            rows.rows = rows.rows < most ? rows.rows : most;
            load_limb_rows(&left, rows.left, m->left_stride, rows.rows, terms,
                           is_qk ? LIMBS_OF_QUERIES : LIMBS_OF_WEIGHTS);
            for (int column = 0; column < m->columns; column += BYTE_STEP) {
                struct matrices b = block_of(&rows, 0, 0, column, is_qk, nibbles ? 4 : 8);
                right.columns = b.columns < BYTE_STEP ? b.columns : BYTE_STEP;
                if (is_qk)
                    pack_key_bytes(&right, b.stored, right.columns, terms, nibbles);
                else
                    pack_value_bytes(&right, b.stored, right.columns, terms, nibbles);
                multiply_limb_rows(&left, &right, b.out, b.out_stride, b.accumulate);
            }
            if (left.any_odd)
                multiply_odd_limb_rows(&rows, &left, base, is_qk);
        }
    }
}

#define LIMB_LEAVES(of, type, nibbles)                                                                          \
    static void qk_tiles_##of(const float *q, int64_t q_stride, struct leaf_rows k, float *s, int64_t s_stride, \
                              int rows, int keys, int channels, bool accumulate)                                \
    {                                                                                                           \
        struct matrices m = {q, q_stride, k, s, s_stride, rows, keys, channels, accumulate};                    \
        limb_product(&m, leaf_avx512.qk[type], true, nibbles);                                                  \
    }                                                                                                           \
    static void sv_tiles_##of(const float *p, int64_t p_stride, struct leaf_rows v, float *o, int64_t o_stride, \
                              int rows, int keys, int channels, bool accumulate)                                \
    {                                                                                                           \
        struct matrices m = {p, p_stride, v, o, o_stride, rows, channels, keys, accumulate};                    \
        limb_product(&m, leaf_avx512.sv[type], false, nibbles);                                                 \
    }
LIMB_LEAVES(i8, LEAF_I8, false)
LIMB_LEAVES(i4, LEAF_I4, true)

#endif
