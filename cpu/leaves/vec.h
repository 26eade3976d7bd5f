/* The vector vocabulary: what the shared bodies (body_*.inc) are written in. One header per instruction set
 * includes this one and defines, all static:
 *
 *   VW, vf, vm                    lanes of a vector; a vector of f32; a mask with one truth per lane
 *   v_zero v_set1 v_load v_store  v_first(x): lane 0
 *   v_load_part(p, n, fill)       the first n lanes (0 < n < VW) from memory, the others from fill
 *   v_store_part(p, n, x)         the first n lanes only
 *   v_add v_sub v_mul v_div       v_fma(a, b, c) = a * b + c, rounded once where the hardware can
 *   v_max v_min (a, b)            b when either is a NaN
 *   v_lt v_eq v_select(m, a, b)   m ? a : b; comparisons with a NaN are false
 *   v_abs v_max_bits              the magnitude; the larger bit pattern (of magnitudes: a NaN wins)
 *   v_exponent(x)                 the float whose exponent field is the low byte of x's bits: 2^(byte - 127)
 *   v_hmax(x)                     the largest lane
 *   v_sums(acc, n, out)           out[i] = sum of the lanes of acc[i], i < n: always the same tree of additions;
 *                                 out holds n rounded up to a multiple of VW, n is a constant
 *   v_swap(x, h)                  lane i of the result is lane i ^ h of x; h a power of two below VW
 *   v_transpose(x)                the VW x VW matrix in x[VW]
 *   v_load_T(row, i)              elements i .. i + VW of a stored row of type T, widened exactly
 *   v_part_T(row, i, n)           the first n of them, nothing read behind; the other lanes hold finite values
 *   T_MANY                        if defined, as many vectors of T widen faster together; divides SV_VECTORS above rows
 *   v_many_T(row, i, x)           elements i .. i + T_MANY * VW of a stored row, in an order of their own
 *   v_sort_T(x)                   x[T_MANY] from that order into the order of the row
 *   v_step_f8e4m3(codes, x, top)  FP8_STEP elements times 2^-8, the cheapest multiple, as FP8_STEP / VW vectors. It may
 *                                 take a NaN for a number: then it is in the result, top with these codes seen
 *   v_tops_nan(top)               whether it is
 *   v_turn_f8e4m3(w, stride, by, out, out_stride)  maybe, with FP8_TURN, a multiple of VW: out[k][j] = w[j][k] * by[j]
 *                                 for FP8_TURN columns of as many codes. It may take some codes for another number, and
 *                                 is false then; by is FP8_TURN / VW vectors
 *   vb, vi, DOT_STEP              bytes as an integer dot takes them; a vector of its 32-bit sums; bytes of a step
 *   v_bytes(p)                    DOT_STEP bytes
 *   v_bytes_part(p, n)            the first n of them (0 < n < DOT_STEP), nothing read behind; the others 0
 *   v_no_sums v_dot(acc, a, b)    acc and the products of the bytes of a and b, exact
 *   v_totals(acc, n, out)         as v_sums, of vi
 *   v_store_f16 v_store_bf16 (p, x), v_store_i8(p, x) with x in [-128, 127]: rounded to nearest even
 *   v_store_f8e4m3(p, x)          the same, saturating at 448; a NaN stays one
 *
 * and the register blocking: how many rows a block holds and, for each count of rows, how much of the other side. */
#ifndef VEC_H
#define VEC_H

#include "cpu/isa.h"

#include <string.h>

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)

/* Bodies are specialised for constant sizes by inlining them, and loops over registers are unrolled: always, save in
 * an emulation or under a sanitizer, which would take minutes to compile. */
#if defined(TANDEM_EMULATE) || defined(TANDEM_SANITIZE)
#define INLINE static inline __attribute__((unused))
#define UNROLL
#elif defined(__clang__)
#define INLINE static inline __attribute__((always_inline, unused))
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define INLINE static inline __attribute__((always_inline, unused))
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* The channels of the smallest group that is common: sv gets so many where each group has scales of its own. */
enum { LEAST_WIDTH = 32 };

/* As many of `rows` as fit in a block of at most `most`, the blocks being of almost equal size. */
INLINE int even_part(int rows, const int most)
{
    int blocks = (rows + most - 1) / most;
    return (rows + blocks - 1) / blocks;
}

/* Bring `bytes` bytes from `next` on into the second cache. */
INLINE void bring_row(const char *next, int64_t bytes)
{
    enum { LINE = 64, LOCALITY = 2 };
    for (int64_t i = 0; i < bytes; i += LINE)
        __builtin_prefetch(next + i, 0, LOCALITY);
}

/* n bytes, 0 < n < 8, in the low end of a word; reads no other byte. */
INLINE uint64_t few_bytes(const char *p, int n)
{
    if (n >= 4) {
        uint32_t low, high;
        memcpy(&low, p, 4);
        memcpy(&high, p + n - 4, 4);
        return low | (uint64_t)high << 8 * (n - 4);
    }
    const uint8_t *byte = (const uint8_t *)p; /* of 1, 2 or 3: the first, the middle and the last are all of them */
    return byte[0] | (uint64_t)byte[n / 2] << n / 2 * 8 | (uint64_t)byte[n - 1] << (n - 1) * 8;
}

#endif
