/* leaf_qk and leaf_sv by blocks of rows, columns and terms on bf16 tiles. */
#ifndef TILES_ATTENTION_H
#define TILES_ATTENTION_H

#include "tiles_float.h"

/* out[r][column] (+)= sum over term of left[r][term] * stored: stored[column][term] for qk, [term][column] for sv. */
struct matrices {
    const float *left;
    int64_t left_stride;
    struct leaf_rows stored;
    float *out;
    int64_t out_stride;
    int rows, columns, terms;
    bool accumulate;
};

/* Fills the tiles of so many columns and terms. */
typedef void pack_right(struct right *right, struct leaf_rows stored, int columns, int terms);

/* The block of m from term, row and column on. */
INLINE struct matrices block_of(const struct matrices *m, int term, int r, int column, const bool is_qk, const int bits)
{
    struct matrices b = *m;
    int key = is_qk ? column : term, channel = is_qk ? term : column;
    b.left += r * m->left_stride + term;
    b.stored.data = (const char *)m->stored.data + key * m->stored.stride + channel * (int64_t)bits / 8;
    b.stored.next = NULL;
    b.out += r * m->out_stride + column;
    b.rows -= r;
    b.columns -= column;
    b.terms -= term;
    b.accumulate |= term > 0;
    return b;
}

/* leaf_qk and leaf_sv are one type: what differs is which sizes are which. */
static void multiply_odd(const struct matrices *m, const struct left *left, const struct right *right, leaf_qk *base,
                         const bool is_qk, const int bits)
{
    for (int r = 0; r < left->rows; r++)
        for (int j = 0; j < right->columns; j++) {
            if (!is_odd(left, r, right, j))
                continue;
            struct matrices one = block_of(m, 0, r, j, is_qk, bits);
            base(one.left, one.left_stride, one.stored, one.out, one.out_stride, 1, is_qk ? 1 : m->terms,
                 is_qk ? m->terms : 1, m->accumulate);
        }
}

INLINE void tile_product(const struct matrices *m, pack_right *pack, leaf_qk *base, const bool is_qk, const int limbs,
                         const int bits, const enum order order)
{
    struct left left;
    struct right right;
    for (int i = 0; i < COLUMNS(1); i++)
        right.by[i] = 1.0f;
    for (int term = 0; term < m->terms; term += DEPTH)
        for (int r = 0; r < m->rows; r += LEFT_ROWS) {
            struct matrices rows = block_of(m, term, r, 0, is_qk, bits);
            rows.terms = rows.terms < DEPTH ? rows.terms : DEPTH;
            rows.rows = rows.rows < LEFT_ROWS ? rows.rows : LEFT_ROWS;
            load_left(&left, rows.left, m->left_stride, rows.rows, rows.terms, order);
            for (int column = 0; column < m->columns; column += COLUMNS(limbs)) {
                struct matrices b = block_of(&rows, 0, 0, column, is_qk, bits);
                right.columns = b.columns < COLUMNS(limbs) ? b.columns : COLUMNS(limbs);
                right.odd = 0;
                pack(&right, b.stored, right.columns, b.terms);
                multiply(&left, &right, limbs, b.out, b.out_stride, b.accumulate);
                if (left.any_odd || right.odd)
                    multiply_odd(&b, &left, &right, base, is_qk, bits);
            }
        }
}

#endif
