/* Sums of products of f32 rows (left) with stored columns (right) on bf16 tiles.
 *
 * An f32 is exactly the sum of three bf16 limbs of 8 bits each, cut off one by one; a stored value is one or two. All
 * their products are added up in f32, the small ones first. Before, a row is multiplied by a power of two that puts its
 * largest value near 2^64: the unit treats what is below 2^-126 as 0, which then is nothing of the contract's concern.
 * Rows and columns whose range leaves no room for that, infinities and NaN are computed by the base's leaf. */
#ifndef TILES_FLOAT_H
#define TILES_FLOAT_H

#include "common/convert.h"
#include "tiles.h"

#include <string.h>

enum {
    STEP = 32,                         /* terms of a sum that one instruction takes */
    STEPS = 4,                         /* instructions' worth of a block            */
    DEPTH = STEP * STEPS,              /* terms of a block                          */
    LIMBS = 3,                         /* of an f32                                 */
    ROW_TILES = 6,                     /* of a block                                */
    LEFT_ROWS = ROW_TILES * TILE_ROWS, /* rows of a block                           */
    RIGHT_TILES = 4 * STEPS            /* four tiles of columns of one limb, or two of two */
};
#define COLUMNS(limbs) (4 / (limbs)*TILE_ROWS)

struct left {
    LINES uint8_t tile[ROW_TILES][STEPS][LIMBS][TILE_BYTES];
    float unit[LEFT_ROWS]; /* what a 1 in the tiles stands for */
    bool odd[LEFT_ROWS];   /* left to the base                 */
    bool any_odd;
    int rows, steps;
};

struct right {
    LINES uint8_t tile[RIGHT_TILES][TILE_BYTES]; /* of column tile i, step j, limb k: [(i * STEPS + j) * limbs + k] */
    float by[COLUMNS(1)];                        /* a factor for each finished column                             */
    uint64_t odd;                                /* columns left to the base                                      */
    int columns;
};

/* Which terms of a sum lie beside each other in a tile, as (low half, high half) of its 32-bit columns. */
enum order {
    HALVES, /* (i, i + 16) of 32 terms                                     */
    BY_FOUR /* (4 * i, 4 * i + 2) of 64, then (4 * i + 1, 4 * i + 3) of them */
};

INLINE __m512i bits_of(vf x)
{
    return _mm512_castps_si512(x);
}

/* The first limb of x, an f32 itself, and in *rest what is left; exact. */
INLINE __m512i cut_limb(vf x, vf *rest)
{
    __m512i limb = _mm512_and_si512(bits_of(x), _mm512_set1_epi32((int)0xffff0000u));
    *rest = v_sub(x, _mm512_castsi512_ps(limb));
    return limb;
}

/* Limbs of low and high side by side. */
INLINE __m512i pair_limbs(__m512i low, __m512i high)
{
    return _mm512_or_si512(_mm512_srli_epi32(low, 16), high);
}

/* limb[i] = the i-th limbs of low and high. */
INLINE void split(vf low, vf high, const int limbs, __m512i *limb)
{
    UNROLL
    for (int i = 0; i < limbs; i++) {
        __m512i a = cut_limb(low, &low), b = cut_limb(high, &high);
        limb[i] = pair_limbs(a, b);
    }
}

/* ---- left ----------------------------------------------------------------------------------------- */

INLINE vf part_or_zero(const float *x, int n)
{
    return n >= VW ? v_load(x) : n > 0 ? v_load_part(x, n, v_zero()) : v_zero();
}

/* x[i] = elements i, i + 4, .. of the 64 in x. */
INLINE void by_fours(vf *x)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    vf a = _mm512_permutex2var_ps(x[0], even, x[1]), b = _mm512_permutex2var_ps(x[0], odd, x[1]);
    vf c = _mm512_permutex2var_ps(x[2], even, x[3]), d = _mm512_permutex2var_ps(x[2], odd, x[3]);
    x[0] = _mm512_permutex2var_ps(a, even, c);
    x[1] = _mm512_permutex2var_ps(b, even, d);
    x[2] = _mm512_permutex2var_ps(a, odd, c);
    x[3] = _mm512_permutex2var_ps(b, odd, d);
}

/* Line `r` of the tiles of two steps. */
INLINE void split_terms(struct left *left, int r, int step, vf *x, const enum order order)
{
    const int middle = order == BY_FOUR ? 2 : 1;
    __m512i limb[2][LIMBS];
    split(x[0], x[middle], LIMBS, limb[0]);
    split(x[3 - middle], x[3], LIMBS, limb[1]);
    UNROLL
    for (int i = 0; i < 2 * LIMBS; i++)
        _mm512_storeu_si512(left->tile[r / TILE_ROWS][step + i / LIMBS][i % LIMBS] + r % TILE_ROWS * TILE_LINE,
                            limb[i / LIMBS][i % LIMBS]);
}

/* Lines of tiles behind the last row keep what they hold: they make rows of sums that nobody reads. */
INLINE void load_left(struct left *left, const float *x, int64_t stride, int rows, int depth, const enum order order)
{
    const uint32_t most = 0x53800000; /* 2^40 */
    left->rows = rows;
    left->steps = order == BY_FOUR ? (depth + 63) / 64 * 2 : (depth + STEP - 1) / STEP;
    left->any_odd = false;
    for (int r = 0; r < rows; r++, x += stride) {
        vf top = v_zero();
        for (int i = 0; i < depth; i += VW)
            top = v_max_bits(top, v_abs(part_or_zero(x + i, depth - i)));
        uint32_t largest = (uint32_t)_mm512_reduce_max_epi32(bits_of(top)), exponent = largest >> 23;
        left->odd[r] = largest > most;
        left->any_odd |= left->odd[r];
        uint32_t shift = 127 + 64 + 127 - exponent, limit = 127 + 126;
        shift = left->odd[r] ? 127 : shift < limit ? shift : limit;
        left->unit[r] = float_of_bits((254 - shift) << 23);
        vf factor = v_set1(float_of_bits(shift << 23));
        for (int i = 0; i < depth; i += 4 * VW) {
            vf part[4];
            UNROLL
            for (int j = 0; j < 4; j++)
                part[j] = v_mul(part_or_zero(x + i + j * VW, depth - i - j * VW), factor);
            if (order == BY_FOUR)
                by_fours(part);
            split_terms(left, r, i / STEP, part, order);
        }
    }
}

/* ---- right ---------------------------------------------------------------------------------------- */

/* Lanes that are neither 0 nor within [2^-100, 2^30]. */
INLINE __mmask16 out_of_range(vf x)
{
    const __m512i least = _mm512_set1_epi32(0x0d800000), most = _mm512_set1_epi32(0x4e800000 - 0x0d800000);
    __m512i size = _mm512_and_si512(bits_of(x), _mm512_set1_epi32(0x7fffffff));
    return _mm512_mask_cmpgt_epu32_mask(_mm512_test_epi32_mask(size, size), _mm512_sub_epi32(size, least), most);
}

/* ---- the product ---------------------------------------------------------------------------------- */

/* Two row tiles from i on by two column tiles from j on; of each the second may be missing. */
INLINE void multiply_square(const struct left *left, int i, const struct right *right, int j, const int limbs,
                            float (*c)[TILE_ROWS * VW])
{
    const bool high = (i + 1) * TILE_ROWS < left->rows, wide = (j + 1) * TILE_ROWS < right->columns;
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    for (int step = 0; step < left->steps; step++)
        for (int k = limbs - 1; k >= 0; k--) {
            TILE_LOAD(4, right->tile[(j * STEPS + step) * limbs + k]);
            if (wide)
                TILE_LOAD(5, right->tile[((j + 1) * STEPS + step) * limbs + k]);
            for (int l = LIMBS - 1; l >= 0; l--) {
                TILE_LOAD(6, left->tile[i][step][l]);
                TILE_DOT_BF16(0, 6, 4);
                if (wide)
                    TILE_DOT_BF16(1, 6, 5);
                if (!high)
                    continue;
                TILE_LOAD(7, left->tile[i + 1][step][l]);
                TILE_DOT_BF16(2, 7, 4);
                if (wide)
                    TILE_DOT_BF16(3, 7, 5);
            }
        }
    TILE_STORE(0, c[0]);
    TILE_STORE(1, c[1]);
    TILE_STORE(2, c[2]);
    TILE_STORE(3, c[3]);
}

/* One row tile by up to four column tiles of one limb: a sum meets the next instruction that adds to it soon enough
 * only where others stand between. */
INLINE void multiply_strip(const struct left *left, int i, const struct right *right, float (*c)[TILE_ROWS * VW])
{
    const int tiles = (right->columns + TILE_ROWS - 1) / TILE_ROWS;
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    for (int step = 0; step < left->steps; step++)
        for (int l = LIMBS - 1; l >= 0; l--) {
            TILE_LOAD(4, left->tile[i][step][l]);
            TILE_LOAD(5, right->tile[step]);
            TILE_DOT_BF16(0, 4, 5);
            if (tiles > 1) {
                TILE_LOAD(6, right->tile[STEPS + step]);
                TILE_DOT_BF16(1, 4, 6);
            }
            if (tiles > 2) {
                TILE_LOAD(7, right->tile[2 * STEPS + step]);
                TILE_DOT_BF16(2, 4, 7);
            }
            if (tiles > 3) {
                TILE_LOAD(5, right->tile[3 * STEPS + step]);
                TILE_DOT_BF16(3, 4, 5);
            }
        }
    TILE_STORE(0, c[0]);
    TILE_STORE(1, c[1]);
    TILE_STORE(2, c[2]);
    TILE_STORE(3, c[3]);
}

/* The sums of row tile i and column tile j go to out. */
INLINE void finish(const float *c, const struct left *left, int i, const struct right *right, int j, float *out,
                   int64_t stride, bool accumulate)
{
    int first = i * TILE_ROWS, column = j * VW, n = right->columns - column;
    if (first >= left->rows || n <= 0)
        return;
    int rows = left->rows - first < TILE_ROWS ? left->rows - first : TILE_ROWS;
    __mmask16 lanes = (n >= VW ? 0xffff : first_lanes(n)) & (__mmask16) ~(right->odd >> column);
    vf by = v_load(right->by + column);
    for (int r = 0; r < rows; r++) {
        float *to = out + (first + r) * stride + column;
        if (left->odd[first + r])
            continue;
        vf x = v_mul(v_load(c + r * VW), v_set1(left->unit[first + r]));
        x = accumulate ? v_fma(x, by, _mm512_maskz_loadu_ps(lanes, to)) : v_mul(x, by);
        _mm512_mask_storeu_ps(to, lanes, x);
    }
}

/* out (+)= by * left . right for all that is not odd. */
INLINE void multiply(const struct left *left, const struct right *right, const int limbs, float *out, int64_t stride,
                     bool accumulate)
{
    LINES float c[4][TILE_ROWS * VW];
    const int row_tiles = (left->rows + TILE_ROWS - 1) / TILE_ROWS;
    for (int i = 0; i < row_tiles; i += 2) {
        if (limbs == 1 && i + 1 == row_tiles) {
            multiply_strip(left, i, right, c);
            for (int j = 0; j < 4; j++)
                finish(c[j], left, i, right, j, out, stride, accumulate);
            break;
        }
        for (int j = 0; j * TILE_ROWS < right->columns; j += 2) {
            multiply_square(left, i, right, j, limbs, c);
            for (int part = 0; part < 4; part++)
                finish(c[part], left, i + part / 2, right, j + part % 2, out, stride, accumulate);
        }
    }
}

/* Whether the base has to compute the sum of this row and column. */
INLINE bool is_odd(const struct left *left, int r, const struct right *right, int column)
{
    return left->odd[r] || (right->odd >> column & 1);
}

#endif
