/* The constants of docs/numerics.md. */
#ifndef TESTS_REFERENCE_BOUNDS_H
#define TESTS_REFERENCE_BOUNDS_H

#define ROUNDOFF 0x1p-24    /* u: half an ulp of f32, relative                                  */
#define UNDERFLOW 0x1p-149  /* eta: the smallest f32                                            */
#define TINY 0x1p-126       /* a probability below it may become 0                              */
#define FIXED_POINT 0x1p-30 /* what a weight of integers may be off by, as part of the largest */
#define EXP_ERROR 0x1p-22   /* the relative error of a leaf's exponential: 2 ulp               */
#define LOG_ERROR 0x1p-22   /* of the C library's logarithm: 2 ulp                            */
#define TANH_ERROR 0x1p-21  /* of a leaf's hyperbolic tangent: 4 ulp                           */
#define KEY_BLOCK 128       /* the fewest keys between two changes of the running maximum       */
#define MERGES 68           /* the most changes of it besides: 64 parts, the sinks, both ends of a ring  */

/* Roundings beside those of the sums themselves: of a score, of an output of gqa, of one of fp8_matmul. */
#define SCORE_ROUNDINGS 4
#define OUTPUT_ROUNDINGS 4
#define FP8_ROUNDINGS 4
#define FP8_MATRIX_UNIT 3 /* of a term for each column of K, in a sum on a matrix unit */
#define PRODUCT_ROUNDINGS 4
#define MERGE_ROUNDINGS 3 /* of a merged output: the share, its product, and one to spare */

/* The relative error of n f32 roundings in a row: n u / (1 - n u) (Higham, 2002, section 3.1). */
static inline double gamma_of(double n)
{
    return n * ROUNDOFF / (1 - n * ROUNDOFF);
}

#endif
