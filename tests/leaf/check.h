/* What the leaf checks share: a suite that counts, a random source, the comparison. Every expected value is computed in
 * double precision by plain code of the checks' own. */
#ifndef CHECK_H
#define CHECK_H

#include "cpu/leaf.h"

#include <math.h>
#include <stddef.h>

struct suite {
    const struct leaf_table *table; /* every slot filled                     */
    bool quick;                     /* fewer sizes                           */
    int cases, failed;              /* of the leaf at hand                   */
    uint64_t random;
};

/* Count a case; a failed one is described, the first few per leaf on standard output. */
void expect(struct suite *suite, bool ok, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The checks, one per slot of the table. Those of slots per type take each type in turn. */
typedef void check_function(struct suite *suite, enum leaf_type type);
check_function check_qk, check_sv, check_error, check_qk_many, check_sv_many, check_dot_i8, check_widen,
    check_transpose, check_fp8_dot, check_fp8_many, check_fp8_panel, check_softmax, check_score, check_mul_add,
    check_rotate, check_to_f16, check_to_bf16, check_scale, check_absmax, check_to_i8, check_to_i4, check_to_f8;

static inline uint64_t random_bits(struct suite *suite)
{
    suite->random ^= suite->random << 13;
    suite->random ^= suite->random >> 7;
    suite->random ^= suite->random << 17;
    return suite->random;
}

/* Uniform in [low, high]. */
static inline int random_int(struct suite *suite, int low, int high)
{
    return low + (int)(random_bits(suite) % (uint64_t)(high - low + 1));
}

static inline bool one_in(struct suite *suite, int n)
{
    return random_int(suite, 1, n) == 1;
}

/* Uniform in [-size, size). */
static inline float random_float(struct suite *suite, float size)
{
    return (float)((double)(random_bits(suite) >> 11) * 0x1p-52 - 1.0) * size;
}

/* NaN and infinities in the places where they are expected, numbers within the bound. */
static inline bool is_close(float got, double want, double bound)
{
    if (isnan(want))
        return isnan(got);
    if (isinf(want))
        return (double)got == want;
    return fabs((double)got - want) <= bound;
}

/* n roundings in f32, in any order, on terms of this total magnitude (Higham's gamma), and underflow. */
static inline double rounding_bound(double magnitude, int64_t n)
{
    double unit = (double)n * 0x1p-24;
    return unit / (1.0 - unit) * magnitude + (double)n * 0x1p-149;
}

#endif
