/* The inner kernels of one instruction set, and the contract they keep.
 *
 * A leaf computes on plain memory: no allocation, no threads, no environment, no global state. It reads no
 * byte past the last element it is asked for, needs no alignment beyond the element's, and writes nothing
 * but its result. Scales never reach qk and sv: the loops fold them into q, the scores, the probabilities and the
 * finished output, and call a leaf once for each group of channels with scales of its own.
 *
 * Each output of qk, sv and fp8_dot has the same bits whatever else the call computes: it depends on the terms
 * of its sum and their order, not on the other rows, keys, columns or channels, the strides or the alignment. */
#ifndef CPU_LEAF_H
#define CPU_LEAF_H

#include <stdbool.h>
#include <stdint.h>

/* What a stored operand of a leaf can be. */
enum leaf_type { LEAF_F32, LEAF_F16, LEAF_BF16, LEAF_I8, LEAF_I4, LEAF_F8E4M3, LEAF_TYPES };

/* A matrix of stored rows: row j starts at data + j * stride bytes. i4 rows start on a byte and hold value
 * nibble - 8, even index low; f8e4m3 codes 0x7f and 0xff read as NaN. Rows of the same length and stride from `next`
 * on, unless it is NULL, are what the caller reads after these: qk, sv and fp8_panel bring them nearer while they
 * compute. */
struct leaf_rows {
    const void *data;
    int64_t stride;
    const void *next;
};

/* s[r * s_stride + j] (+)= sum over c of q[r * q_stride + c] * k[j][c]
 * for r < rows, j < keys, c < channels; all at least 1, strides in floats. Dots for few rows. */
typedef void leaf_qk(const float *q, int64_t q_stride, struct leaf_rows k, float *s, int64_t s_stride, int rows,
                     int keys, int channels, bool accumulate);

/* o[r * o_stride + c] (+)= sum over j of p[r * p_stride + j] * v[j][c]
 * for r < rows, j < keys, c < channels. With f32 rows this is the matrix product of every packed path. A key
 * whose p is 0 still contributes 0 * v. */
typedef void leaf_sv(const float *p, int64_t p_stride, struct leaf_rows v, float *o, int64_t o_stride, int rows,
                     int keys, int channels, bool accumulate);

/* s[r * s_stride + j] = sum over c of q[r * q_stride + c] * k[j][c], exact: k holds i8
 * for r < rows, j < keys, c < channels; all at least 1, channels below 2^17. */
typedef void leaf_dot_i8(const int8_t *q, int64_t q_stride, struct leaf_rows k, int32_t *s, int64_t s_stride, int rows,
                         int keys, int channels);

/* out[j * out_stride + c] = x[j][c]; exact for every type. */
typedef void leaf_widen(struct leaf_rows x, float *out, int64_t out_stride, int rows, int channels);

/* out[c * out_stride + j] = x[j][c]: the widened transpose; j < rows, c < channels. */
typedef void leaf_transpose(struct leaf_rows x, float *out, int64_t out_stride, int rows, int channels);

/* out[i] = x[i] rounded to nearest even in f16 or bf16 (NaN stays NaN, overflow gives infinity). */
typedef void leaf_narrow(const float *x, void *out, int64_t n);

/* One row of one block of scores, the online softmax step:
 *   s[j] *= k_scale[j] when given;  m' = max(m, max of s);  p[j] = exp(s[j] - m')
 *   l = l * exp(m - m') + sum of p;  s[j] = p[j] * v_scale[j] when given
 * *m starts at -infinity and *l at 0. exp(0) is exactly 1 and exp of a NaN is NaN; results below 2^-126 may be 0.
 * A score of -infinity is a masked key: its scales are not used and its p is 0. While every score is -infinity
 * nothing else changes. A NaN score makes its p, *l and *m NaN, and so all that follows. Returns exp(m - m'), by
 * which what was accumulated before shrinks (1 when the maximum did not move or was -infinity). n >= 1. */
typedef float leaf_softmax(float *s, int n, const float *k_scale, const float *v_scale, float *m, float *l);

/* What stands between a product of q and k and the softmax. */
struct leaf_edit {
    const float *k_scale; /* a factor for each key, or NULL                          */
    float shift;          /* added to the scaled score                               */
    float softcap;        /* cap * tanh(score / cap) when not 0                      */
    const float *extra;   /* added last, or NULL; -infinity masks the key, whatever its score is */
};

/* s[j] = cap(s[j] * k_scale[j] + shift) + extra[j]; tanh is off by at most 4 ulp, and NaN for a NaN. n >= 1. */
typedef void leaf_score(float *s, int n, const struct leaf_edit *edit);

/* y[i] (+)= x[i] * by[i]; the product is rounded before the sum, or not. */
typedef void leaf_mul_add(const float *x, const float *by, float *y, int n, bool accumulate);

/* The orthonormal Walsh-Hadamard transform of each block of x: for h = 1, 2, 4, .. block / 2 in this order
 * (x[i], x[i + h]) = (x[i] + x[i + h], x[i] - x[i + h]), then x[i] *= 1 / sqrt(block); each step one rounding.
 * block is a power of two that divides n. */
typedef void leaf_rotate(float *x, int n, int block);

/* x[i] *= factor * (by ? by[i] : 1), the product factor * by[i] rounded first. */
typedef void leaf_scale(float *x, const float *by, float factor, int64_t n);

/* The largest magnitude; NaN when any x[i] is NaN. n >= 1. */
typedef float leaf_absmax(const float *x, int64_t n);

/* out[i] = clamp(round half to even(x[i] * inverse)) to [-128, 127]; inverse[i] when `by_channel`, else
 * inverse[0]. A NaN product stores 0. */
typedef void leaf_to_i8(const float *x, const float *inverse, bool by_channel, int8_t *out, int n);

/* nibble i of out = 8 + clamp(round half to even(x[i] * inverse)) to [-8, 7]; inverse[i] when `by_channel`, else
 * inverse[0]. A NaN product stores 0 (nibble 8), and so does the spare nibble of an odd row. */
typedef void leaf_to_i4(const float *x, const float *inverse, bool by_channel, uint8_t *out, int n);

/* out[i] = the e4m3 code nearest to x[i] / scale, ties to even, saturating at 448; scale[i] when `by_channel`, else
 * scale[0]; a scale of 0 stores 0, a NaN quotient NaN. */
typedef void leaf_to_f8(const float *x, const float *scale, bool by_channel, uint8_t *out, int n);

/* out[r * out_stride + j] = sum over blocks b of scale[j * scale_stride + b] * sum over k in b of a[r][k] * w[j][k]
 * where block b covers k in [b * block, min((b + 1) * block, depth)). w is f8e4m3, a has a_stride floats
 * between rows; rows 1..8, columns >= 1, depth >= 0 (0 gives 0), block >= 1. Each step of a block's sum may be off
 * by 2^-142, and an infinite scale may give NaN. */
typedef void leaf_fp8_dot(const float *a, int64_t a_stride, struct leaf_rows w, const float *scale,
                          int64_t scale_stride, int64_t block, float *out, int64_t out_stride, int rows, int columns,
                          int64_t depth);

/* out[k * out_stride + j] = w[j][k] * scale[j], w being f8e4m3; j < columns, k < depth. */
typedef void leaf_fp8_panel(struct leaf_rows w, const float *scale, float *out, int64_t out_stride, int columns,
                            int depth);

/* Makes this thread ready for the table's leaves, or what it was before. */
typedef void leaf_thread(void);

/* direct_rows of a table whose qk and sv take all types alike. */
#define SAME_FOR_ALL_TYPES(rows)           \
    {                                      \
        rows, rows, rows, rows, rows, rows \
    }

/* One instruction set: a row of the table in cpu/isa.c. A slot left NULL is filled from `base`. */
struct leaf_table {
    const char *name;
    uint64_t needs;                /* enum cpu_feature bits                                    */
    const struct leaf_table *base; /* NULL only for scalar                                    */
    bool approximate;              /* gives up the numeric contract: opt-in                   */
    int direct_rows[LEAF_TYPES];   /* up to here qk and sv on stored rows beat widening first */
    int row_step;                  /* sv on f32 is fastest on a multiple of this many rows    */
    int fp8_rows;                  /* up to here fp8_dot beats fp8_many, where there is one    */
    leaf_qk *qk[LEAF_TYPES];
    leaf_sv *sv[LEAF_TYPES];
    leaf_dot_i8 *dot_i8;
    leaf_widen *widen[LEAF_TYPES];
    leaf_transpose *transpose[LEAF_TYPES];
    leaf_narrow *to_f16, *to_bf16;
    leaf_softmax *softmax;
    leaf_score *score;
    leaf_mul_add *mul_add;
    leaf_rotate *rotate;
    leaf_scale *scale;
    leaf_absmax *absmax;
    leaf_to_i8 *to_i8;
    leaf_to_i4 *to_i4;
    leaf_to_f8 *to_f8;
    leaf_fp8_dot *fp8_dot;
    leaf_fp8_panel *fp8_panel;

    /* The rest may stay empty. The same sums for many rows, where that beats widening first: each has its own bits. */
    leaf_qk *qk_many[LEAF_TYPES]; /* above direct_rows */
    leaf_sv *sv_many[LEAF_TYPES];
    leaf_fp8_dot *fp8_many; /* any number of rows, above fp8_rows */

    /* What a thread does before and after all its calls of the table's leaves in one task; both or neither. */
    leaf_thread *enter, *leave;
};

#define LEAF_FIRST_SLOT qk   /* the function pointers are the tail of the struct: */
#define LEAF_LAST_SLOT leave /* isa.c fills them from the base as one run          */

#endif
