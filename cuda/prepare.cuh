/* The steps of `struct prepare` on a row x of n numbers in shared memory, by a warp. Each is a correctly rounded f32
 * operation in the order that docs/numerics.md states, so that what is stored is the same on every device. */
#ifndef CUDA_PREPARE_CUH
#define CUDA_PREPARE_CUH

#include "prepare.h"
#include "stored.cuh"

/* Every lane adds all squares: their order is part of the result. */
__device__ __forceinline__ void row_norm(const prepare &p, float *x, int n)
{
    if (!p.norm)
        return;
    double squares = 0;
    for (int c = 0; c < n; c++)
        squares += static_cast<double>(x[c]) * static_cast<double>(x[c]);
    const float inverse = static_cast<float>(1 / sqrt(squares / n + static_cast<double>(p.epsilon)));
    __syncwarp();
    for (int c = lane_index(); c < n; c += WARP)
        x[c] = __fmul_rn(__fmul_rn(x[c], inverse), number_at(p.norm_dtype, p.norm, c));
    __syncwarp();
}

__device__ __forceinline__ void row_turn(const prepare &p, int64_t position, float *x)
{
    const int half = p.turned / 2, step = p.interleaved ? 2 : 1, partner = p.interleaved ? 1 : half;
    for (int i = lane_index(); i < half; i += WARP) {
        const float c = number_at(p.turn_dtype, p.cos, position * half + i);
        const float s = number_at(p.turn_dtype, p.sin, position * half + i);
        const float a = x[i * step], b = x[i * step + partner];
        x[i * step] = __fsub_rn(__fmul_rn(a, c), __fmul_rn(b, s));
        x[i * step + partner] = __fadd_rn(__fmul_rn(b, c), __fmul_rn(a, s));
    }
    __syncwarp();
}

/* The Walsh-Hadamard transform over blocks of the largest power of two that divides n; factor 0: nothing. */
__device__ __forceinline__ void row_rotate(float factor, float *x, int n)
{
    if (factor == 0)
        return;
    const int block = n & -n;
    for (int h = 1; h < block; h *= 2) {
        for (int i = lane_index(); i < n / 2; i += WARP) {
            float *pair = x + 2 * (i - i % h) + i % h;
            const float a = pair[0], b = pair[h];
            pair[0] = __fadd_rn(a, b);
            pair[h] = __fsub_rn(a, b);
        }
        __syncwarp();
    }
    for (int c = lane_index(); c < n; c += WARP)
        x[c] = __fmul_rn(x[c], factor);
    __syncwarp();
}

#endif
