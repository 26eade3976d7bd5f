/* What the kernels of fp8_matmul share. */
#ifndef CUDA_FP8_MATH_CUH
#define CUDA_FP8_MATH_CUH

#include "fp8_matmul.h"

#include <device.cuh>

constexpr int WARP = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

__device__ __forceinline__ uint32_t word(const uint4 &v, int i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

template <class P> __device__ __forceinline__ P *move_bytes(P *pointer, int64_t bytes)
{
    return reinterpret_cast<P *>(reinterpret_cast<intptr_t>(pointer) + bytes);
}

/* ---- scales of weights ------------------------------------------------------------- */

/* A scale as it is stored, to be widened when other loads are under way. */
__device__ __forceinline__ uint32_t scale_bits(const fp8_weights &b, int64_t index)
{
    if (b.scale_dtype == TDM_F32)
        return __ldg(static_cast<const uint32_t *>(b.scale) + index);
    if (b.scale_dtype == TDM_BF16)
        return __ldg(static_cast<const unsigned short *>(b.scale) + index);
    return __ldg(static_cast<const unsigned char *>(b.scale) + index);
}

__device__ __forceinline__ float scale_of_bits(const fp8_weights &b, uint32_t bits)
{
    if (b.scale_dtype == TDM_F32)
        return __uint_as_float(bits);
    if (b.scale_dtype == TDM_BF16)
        return __uint_as_float(bits << 16);
    if (bits == 0xff)
        return NAN;
    return __uint_as_float(bits ? bits << 23 : 0x00400000u);
}

__device__ __forceinline__ float scale_at(const fp8_weights &b, int64_t index)
{
    return scale_of_bits(b, scale_bits(b, index));
}

/* Where the scales of weight row n begin. */
__device__ __forceinline__ int64_t scale_row(const fp8_weights &b, uint32_t n)
{
    return static_cast<int64_t>(n / static_cast<uint32_t>(b.block_n)) * b.k_blocks;
}

/* ---- activations ---------------------------------------------------------------------- */

__device__ __forceinline__ float activation_scale(const fp8_gemv &p, int64_t row)
{
    return p.a_scale ? __ldg(p.a_scale + row * p.a_scale_step) : 1.f;
}

/* The code of e4m3(x / scale); the quotient is rounded to f32 first. */
__device__ __forceinline__ uint8_t rounded_code(float x, float scale)
{
    return scale == 0 ? 0 : e4m3_of_f32(__fdiv_rn(x, scale));
}

/* ---- output ------------------------------------------------------------------------------ */

template <class T> __device__ __forceinline__ float bias_at(const void *bias, int64_t column)
{
    return bias ? widen(static_cast<const T *>(bias)[column]) : 0.f;
}

template <class T> __device__ __forceinline__ T *output_row(void *out, int64_t stride, int64_t row)
{
    return static_cast<T *>(move_bytes(out, row * stride));
}

#endif
