/* layers.h - the small parts of a transformer layer that are no op of the library, on f32 rows. */
#ifndef LAYERS_H
#define LAYERS_H

#include <stdint.h>

/* out = x / sqrt(mean(x^2) + eps) * weight, for each row (Zhang and Sennrich, 2019). */
void rms_norm(const float *x, const float *weight, int64_t rows, int64_t width, double eps, float *out);

/* Cosines and sines of the rotary embedding of every position (Su et al., 2021): pair i of a head turns by
 * position * theta^(-2i / head_dim). Both tables are [positions, head_dim / 2]. */
void rotary_table(int64_t positions, int64_t head_dim, double theta, float *cosine, float *sine);

/* What a rotated cache does to a row: the orthonormal Walsh-Hadamard transform of each block of channels, a block
 * being the largest power of two that divides their number. */
void walsh_hadamard(float *x, int64_t count);

/* gate = silu(gate) * up, with silu(x) = x / (1 + exp(-x)) (Shazeer, 2020). */
void swiglu(float *gate, const float *up, int64_t count);

/* x += y */
void add(float *x, const float *y, int64_t count);

#endif
