/* What kernels are written with beside plain CUDA C++: shared memory, launches, number formats, and the instructions
 * that are spelled as PTX. Included as <device.cuh>: the tests put a header of the same name before this one, in which
 * the same words mean the same on a CPU, so kernels use nothing that is not named here or below.
 *
 *   threadIdx blockIdx blockDim gridDim  dim3 uint2 uint4 float2 make_uint4 ...  __global__ __device__ __forceinline__
 *   __launch_bounds__  __syncthreads __syncwarp  __shfl_sync __shfl_xor_sync __shfl_down_sync (float, int, unsigned)
 *   __ldg  fmaf fminf fmaxf fabsf expf logf tanhf sqrtf rintf  __fmul_rn __fadd_rn __fsub_rn __fdiv_rn __fsqrt_rn
 *   __float_as_uint __uint_as_float __byte_perm  min max  INFINITY NAN */
#ifndef CUDA_DEVICE_CUH
#define CUDA_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <stdint.h>

/* ---- Launches and shared memory ------------------------------------------------- */

/* Enqueue a kernel with `shared` bytes of shared memory. */
template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                   Arguments... arguments)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

/* The block's shared memory, of as many bytes as it was launched with. */
template <class T> __device__ __forceinline__ T *shared_memory()
{
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    return reinterpret_cast<T *>(shared_bytes);
}

/* ---- Number formats --------------------------------------------------------------- */

using f16 = __half;
using bf16 = __nv_bfloat16;

__device__ __forceinline__ float widen(float x)
{
    return x;
}
__device__ __forceinline__ float widen(f16 x)
{
    return __half2float(x);
}
__device__ __forceinline__ float widen(bf16 x)
{
    return __bfloat162float(x);
}

/* Round to nearest even; overflow gives infinity. */
template <class T> __device__ __forceinline__ T narrow(float x);
template <> __device__ __forceinline__ float narrow<float>(float x)
{
    return x;
}
template <> __device__ __forceinline__ f16 narrow<f16>(float x)
{
    return __float2half_rn(x);
}
template <> __device__ __forceinline__ bf16 narrow<bf16>(float x)
{
    return __float2bfloat16_rn(x);
}

/* Two elements in a register, the first in the low half. */
template <class T> __device__ __forceinline__ float2 widen_pair(uint32_t pair);
template <> __device__ __forceinline__ float2 widen_pair<f16>(uint32_t pair)
{
    __half2_raw raw;
    raw.x = static_cast<unsigned short>(pair);
    raw.y = static_cast<unsigned short>(pair >> 16);
    return __half22float2(__half2(raw));
}
template <> __device__ __forceinline__ float2 widen_pair<bf16>(uint32_t pair)
{
    return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

template <class T> __device__ __forceinline__ uint32_t narrow_pair(float low, float high);
template <> __device__ __forceinline__ uint32_t narrow_pair<f16>(float low, float high)
{
    const __half2_raw raw = __floats2half2_rn(low, high);
    return static_cast<uint32_t>(raw.x) | static_cast<uint32_t>(raw.y) << 16;
}
template <> __device__ __forceinline__ uint32_t narrow_pair<bf16>(float low, float high)
{
    const __nv_bfloat162_raw raw = __floats2bfloat162_rn(low, high);
    return static_cast<uint32_t>(raw.x) | static_cast<uint32_t>(raw.y) << 16;
}

/* Two E4M3 codes, in the low half of the register, as a pair of f16: exact, NaN codes become NaN. */
__device__ __forceinline__ uint32_t f16_pair_of_e4m3(uint32_t codes)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 890
    /* No instruction before sm_89: the code's bits are those of an f16 that is 2^8 too small. A NaN code has no
     * counterpart among them. */
    const uint32_t spread = __byte_perm(codes, 0, 0x1404);
    const uint32_t bits = (spread & 0x80008000u) | (spread & 0x7f007f00u) >> 1;
    __half2_raw raw;
    raw.x = static_cast<unsigned short>(bits);
    raw.y = static_cast<unsigned short>(bits >> 16);
    const __half2_raw scaled = __hmul2(__half2(raw), __float2half2_rn(256.f));
    uint32_t pair = static_cast<uint32_t>(scaled.x) | static_cast<uint32_t>(scaled.y) << 16;
    if ((codes & 0x7fu) == 0x7fu)
        pair |= 0x7fffu;
    if ((codes & 0x7f00u) == 0x7f00u)
        pair |= 0x7fff0000u;
    return pair;
#else
    const __half2_raw raw = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(codes), __NV_E4M3);
    return static_cast<uint32_t>(raw.x) | static_cast<uint32_t>(raw.y) << 16;
#endif
}

/* The same as a pair of T, exact. */
template <class T> __device__ __forceinline__ uint32_t pair_of_e4m3(uint32_t codes);
template <> __device__ __forceinline__ uint32_t pair_of_e4m3<f16>(uint32_t codes)
{
    return f16_pair_of_e4m3(codes);
}
template <> __device__ __forceinline__ uint32_t pair_of_e4m3<bf16>(uint32_t codes)
{
    const float2 wide = widen_pair<f16>(f16_pair_of_e4m3(codes));
    return narrow_pair<bf16>(wide.x, wide.y);
}

__device__ __forceinline__ float f32_of_e4m3(uint8_t code)
{
    return widen_pair<f16>(f16_pair_of_e4m3(code)).x;
}

/* Round to nearest even, saturating at 448; NaN stays NaN. */
__device__ __forceinline__ uint8_t e4m3_of_f32(float x)
{
    return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
}

/* ---- Instructions -------------------------------------------------------------------- */

/* 16 bytes that are read once: they need no room in the first cache. */
__device__ __forceinline__ uint4 load_once(const uint4 *from)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
}

/* d += a * b on the warp's tensor core: a is 16 x 16 by rows, b 16 x 8 by columns, d 16 x 8 in f32. With g = lane / 4
 * and t = lane % 4, pairs hold neighbours of one row of a, of one column of b:
 *   a[r]: row g + 8 (r % 2), columns 2 t + 8 (r / 2) and the next     b[r]: rows 2 t + 8 r and the next, column g
 *   d[i]: row g + 8 (i / 2), column 2 t + i % 2                       (PTX ISA, mma.m16n8k16) */
template <class T>
__device__ __forceinline__ void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
template <>
__device__ __forceinline__ void mma_16x8x16<f16>(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <>
__device__ __forceinline__ void mma_16x8x16<bf16>(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif
