/* The constants of docs/numerics.md. */
#ifndef TESTS_REFERENCE_BOUNDS_H
#define TESTS_REFERENCE_BOUNDS_H

#define ROUNDOFF   0x1p-24  /* u: half an ulp of f32, relative                                  */
#define UNDERFLOW  0x1p-149 /* eta: the smallest f32                                            */
#define TINY       0x1p-126 /* a probability below it may become 0                              */
#define EXP_ERROR  0x1p-22  /* the relative error that the exponential of a leaf may have       */
#define LOG_ERROR  0x1p-22  /* the same of the logarithm                                        */
#define KEY_BLOCK  32       /* the fewest keys between two changes of the running maximum       */
#define I4_OFFSET  16       /* |value + 8| + 8 - |value| at most: an i4 summed as nibble and offset */

#define SCORE_ROUNDINGS 8 /* of one score beside the dot's own: the scales, and the offset of i4 */
#define FP8_ROUNDINGS   4 /* of one output beside the sums: weight times scale, a_scale, bias    */

/* The relative error of n f32 roundings in a row: n u / (1 - n u) (Higham, 2002, section 3.1). */
static inline double gamma_of(double n)
{
    return n * ROUNDOFF / (1 - n * ROUNDOFF);
}

#endif
