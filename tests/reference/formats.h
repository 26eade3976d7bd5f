/* Number formats by formula, in double. Slow and obvious; shares nothing with the library. */
#ifndef TESTS_REFERENCE_FORMATS_H
#define TESTS_REFERENCE_FORMATS_H

#include "tandem.h"

/* Bytes of n neighbouring elements (i4: packed pairs, bits: eights). */
int64_t format_bytes(tdm_dtype dtype, int64_t n);

/* The value of element i of an array. */
double format_decode(tdm_dtype dtype, const void *data, int64_t i);

/* The value nearest to x that dtype can hold, ties to even. f16, bf16 and f32 overflow to infinity; e4m3
 * saturates at 448; i8 and i4 clamp and take NaN as 0; bool and bits hold 0 or 1. Monotone in x. */
double format_round(tdm_dtype dtype, double x);

/* Store format_round(x) as element i of an array; NaN is stored as the format's quiet NaN. */
void format_encode(tdm_dtype dtype, void *data, int64_t i, double x);

#endif
