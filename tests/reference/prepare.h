/* What rows go through before they are stored or multiplied: RMSNorm, rotary embedding, offset, Walsh-Hadamard
 * rotation. Keys and values are prepared in f32, each step rounded, so that the cache's bytes are determined;
 * queries exactly, with a bound on what f32 steps in any order may be off. */
#ifndef TESTS_REFERENCE_PREPARE_H
#define TESTS_REFERENCE_PREPARE_H

#include "tandem.h"

/* The largest power of two that divides n: the channels that are rotated together. */
static inline int64_t rotation_block(int64_t n)
{
    return n & -n;
}

/* The two channels that pair i of the rotary embedding turns. */
static inline void rotary_pair(const tdm_rotary *rotary, int64_t i, int64_t *a, int64_t *b)
{
    *a = rotary->interleaved ? 2 * i : i;
    *b = rotary->interleaved ? 2 * i + 1 : i + rotary->dim / 2;
}

void prepare_norm(const tdm_norm *norm, const void *weight, float *x, int64_t n);
void prepare_rotary(const tdm_rotary *rotary, const void *cos, const void *sin, int64_t position, float *x);
void prepare_offset(const float *offset, float *x, int64_t n);
void prepare_rotation(float *x, int64_t n);

/* Numbers and how far the computed ones may be from them. */
struct uncertain {
    double *value, *error;
};

void uncertain_norm(const tdm_norm *norm, const void *weight, struct uncertain x, int64_t n);
void uncertain_rotary(const tdm_rotary *rotary, const void *cos, const void *sin, int64_t position, struct uncertain x);
void uncertain_rotation(struct uncertain x, int64_t n);

#endif
