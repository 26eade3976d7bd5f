/* What happens to one head's row of a query or key, in f32, before it is stored or multiplied. */
#ifndef CPU_PREPARE_H
#define CPU_PREPARE_H

#include "cpu.h"

/* x = x / sqrt(mean of x^2 + epsilon) * weight; nothing where the desc has no norm. */
void row_norm(const struct leaf_table *leaf, const tdm_norm *norm, const void *weight, float *x, int n);

/* Turn x to `position` of the tables, or back from it; nothing where the desc has no rotary. */
void row_turn(const struct leaf_table *leaf, const tdm_rotary *rotary, const void *cos, const void *sin,
              int64_t position, bool back, float *x);

/* x -= offset, or += when `back`; nothing where it is NULL. */
void row_offset(const float *offset, bool back, float *x, int n);

/* The Walsh-Hadamard transform over blocks of the largest power of two that divides n; its own inverse. */
void row_rotate(const struct leaf_table *leaf, float *x, int n);

#endif
