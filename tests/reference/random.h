/* Repeatable test data. */
#ifndef TESTS_REFERENCE_RANDOM_H
#define TESTS_REFERENCE_RANDOM_H

#include "tandem.h"

/* Successive numbers of one seed. */
struct random {
    uint64_t state;
};

uint64_t random_bits(struct random *random);
double random_unit(struct random *random);              /* [-1, 1) */
int64_t random_below(struct random *random, int64_t n); /* [0, n)  */

/* Fill every element: floats in [-magnitude, magnitude), i8 and i4 with any code. Bytes between strided rows
 * keep what they hold. */
void random_fill(const tdm_tensor *tensor, void *data, double magnitude, struct random *random);

/* n scales, of either sign, with magnitudes in [magnitude / 2, magnitude). */
void random_scales(float *scale, int64_t n, double magnitude, struct random *random);

#endif
