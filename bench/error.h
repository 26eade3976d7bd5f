/* How far results are from exact ones. */
#ifndef BENCH_ERROR_H
#define BENCH_ERROR_H

#include "tandem.h"

/* The largest difference of a tensor from the exact values, relative to the largest exact value. */
double largest_error(const tdm_tensor *tensor, const void *data, const double *exact);

/* Compare the stored bytes and the scales of a cache tensor, which must be equal. NULL when they are, else what
 * differs; *error is that of the values that they stand for. */
const char *check_stored(const tdm_tensor *tensor, const void *got, const float *got_scale, const void *want,
                         const float *want_scale, double *error);

#endif
