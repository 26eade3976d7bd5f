/* Rows of f32 as integers of 8-bit limbs: what a query, or a row of probabilities, is to instructions that multiply
 * bytes. Every table that computes with limbs takes the numbers from here, so that all give the same bits.
 *
 *   x[i] = round half to even(row[i] / unit)       |x[i]| <= limb_top(limbs)
 *   x[i] = sum over l of limb[l][i] * 256^l        limb[l][i] in [-128, 127]
 *
 * Stored keys and values enter as unsigned bytes: i8 + 128, i4 + 8. A dot of limbs with them, less that bias times the
 * sum of the limbs, is exact in 32 bits for LIMB_TERMS terms, and so is its conversion to f32. Longer rows are taken in
 * parts. The dots of a row join as limb_join has it.
 *
 * EXACT_LIMBS keep the numeric contract, where limb_fits says so (docs/numerics.md); fewer are for approximate tables,
 * which hold every row that has a unit. */
#ifndef LIMBS_H
#define LIMBS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    EXACT_LIMBS = 4,
    LIMB_TERMS = 256,
    LIMB_LEAST_TERMS = 8, /* shorter rows are left to f32: a join has three roundings */
};

static inline int32_t limb_top(int limbs)
{
    return 127 << 8 * (limbs - 1);
}

/* What a 1 stands for in a row whose largest magnitude is this; 0 when the row cannot be held: it has a NaN, an
 * infinity, or nothing above 2^-95. A power of two where results must be exact, so that the numbers of a row whose
 * magnitudes lie within a factor of 100 are. A row of zeros may have any unit. */
static inline float limb_unit(float largest, int limbs)
{
    if (largest == 0)
        return 1;
    float unit = largest / (float)limb_top(limbs);
    if (!(unit >= 0x1p-126f) || isinf(unit))
        return 0;
    if (limbs < EXACT_LIMBS)
        return unit;
    uint32_t bits;
    memcpy(&bits, &unit, sizeof bits);
    bits = (bits & 0x7f800000) + 0x800000; /* the next power of two above */
    memcpy(&unit, &bits, sizeof unit);
    return unit;
}

/* Added to x and then flipped in it, this makes the bytes of x its limbs. */
static inline uint32_t limb_offset(int limbs)
{
    return 0x808080u & ((1u << 8 * (limbs - 1)) - 1);
}

/* How many numbers of a row may be small: the fixed unit is off by up to half of itself in each of them. */
enum limb_rule {
    /* For queries none but zeros: then each is off by at most n / 2 roundings of f32, n being the row's length. */
    LIMBS_OF_QUERIES,
    /* For probabilities, whose tails have no end, three in four of those that are not 0: it takes more than a few
     * outliers to make the unit large. */
    LIMBS_OF_WEIGHTS,
};

/* x[i] below this in magnitude is small. */
static inline int32_t limb_small(enum limb_rule rule, int n)
{
    return rule == LIMBS_OF_QUERIES ? ((1 << 24) + n - 1) / n : 1 << 21;
}

/* Whether a row may be held; `nonzero` of its numbers are not 0, and `small` of these are small. */
static inline bool limb_fits(enum limb_rule rule, int small, int nonzero)
{
    return rule == LIMBS_OF_QUERIES ? small == 0 : 4 * small <= 3 * nonzero;
}

/* The value of a row's dots, low limb first. */
static inline float limb_join(const int32_t *dot, int limbs, float unit)
{
    float low = (float)(limbs > 1 ? dot[1] * 256 + dot[0] : dot[0]);
    if (limbs > 2)
        low = fmaf((float)dot[2], 0x1p16f, low);
    if (limbs > 3)
        low = fmaf((float)dot[3], 0x1p24f, low);
    return low * unit;
}

#endif
