/* Does an output hold what it should? Each function returns NULL for yes, else a text that names the first
 * bad place; it is overwritten by the next call. */
#ifndef TESTS_REFERENCE_COMPARE_H
#define TESTS_REFERENCE_COMPARE_H

#include "tandem.h"

#include <stddef.h>

/* The exact results of a tensor's elements, dense, and how far an f32 result may be from each. */
struct expected {
    double *value, *bound;
};

struct expected expected_new(int64_t n);
void expected_free(struct expected *expected);

/* Rows [0, rows[b]) of every head (all rows when rows is NULL) against what is expected: NaN and infinities
 * must be in the same places; a finite value must be one that rounding a number of
 * [value - bound, value + bound] to the tensor's dtype can give. */
const char *compare_tensor(const tdm_tensor *tensor, const void *data, const struct expected *expected,
                           const int32_t *rows);

/* Two memories of one tensor, byte for byte; elements that are NaN in both may differ in their payload. */
const char *compare_memory(const tdm_tensor *tensor, const void *got, const void *want);

/* Plain bytes; what says what they are. */
const char *compare_bytes(const char *what, const void *got, const void *want, size_t bytes);

/* Whether every byte that is in no element of rows [0, rows[b]) still holds `fill`. */
const char *compare_untouched(const tdm_tensor *tensor, const void *data, const int32_t *rows, int fill);

#endif
