#include "shim_check.h"

#include <device.cuh>

#include <cstring>

namespace
{

constexpr unsigned ALL = 0xffffffffu;

__global__ void leaves_before_barrier(float *)
{
    if (threadIdx.x == 37)
        return;
    __syncthreads();
}

__global__ void two_barriers(float *)
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
}

__global__ void barrier_against_shuffle(float *out)
{
    if (threadIdx.x % 2)
        out[0] = __shfl_xor_sync(ALL, 1.f, 2);
    else
        __syncthreads();
}

__global__ void one_lane_leaves_a_shuffle(float *out)
{
    if (threadIdx.x == 5)
        return;
    out[threadIdx.x] = __shfl_sync(ALL, 1.f, 0);
}

__global__ void reads_outside_the_mask(float *out)
{
    if (threadIdx.x < 16)
        out[threadIdx.x] = __shfl_xor_sync(0xffffu, 1.f, 16);
}

__global__ void mask_without_caller(float *out)
{
    out[threadIdx.x] = __shfl_sync(0xffffu, 1.f, 0);
}

__global__ void two_masks(float *)
{
    __syncwarp(threadIdx.x < 16 ? ALL : 0xffff8000u);
}

__global__ void two_operations(float *out)
{
    if (threadIdx.x < 16)
        __syncwarp();
    else
        out[threadIdx.x] = __shfl_sync(ALL, 1.f, 0);
}

__global__ void two_shuffles(float *out)
{
    if (threadIdx.x < 16)
        out[threadIdx.x] = __shfl_sync(ALL, 1.f, 0);
    else
        out[threadIdx.x] = __shfl_sync(ALL, 2.f, 1);
}

__global__ void half_a_product(float *out)
{
    float d[4] = {};
    const uint32_t a[4] = {}, b[2] = {};
    if (threadIdx.x < 16)
        mma_16x8x16<f16>(d, a, b);
    out[threadIdx.x] = d[0];
}

/* In line order two dependent lanes would each wait for the other's first step. */
__global__ void each_waits_for_the_other(float *)
{
    const unsigned warp = threadIdx.x / 32;
    if (warp == 0 && threadIdx.x == 0)
        __syncthreads();
    __syncwarp();
    if (threadIdx.x)
        __syncthreads();
}

__global__ void odd_vector(float *out)
{
    const uint4 v = load_once(reinterpret_cast<const uint4 *>(reinterpret_cast<const char *>(out) + 8));
    out[0] = static_cast<float>(v.x);
}

__global__ void odd_pair(float *out)
{
    const uint2 v = __ldg(reinterpret_cast<const uint2 *>(reinterpret_cast<const char *>(out) + 4));
    out[0] = static_cast<float>(v.x);
}

/* The words that must stand in the report; threads: of the block. */
const struct {
    const char *name;
    void (*kernel)(float *);
    unsigned threads;
    const char *report;
} wrongs[] = {
    {"leaves_before_barrier", leaves_before_barrier, 64, "thread (37,0,0): returned before this barrier"},
    {"two_barriers", two_barriers, 64, "waits at another barrier than thread"},
    {"barrier_against_shuffle", barrier_against_shuffle, 32, "which is at __syncthreads in line"},
    {"one_lane_leaves_a_shuffle", one_lane_leaves_a_shuffle, 32, "a shuffle waits for lane 5, which has returned"},
    {"reads_outside_the_mask", reads_outside_the_mask, 32, "which is not in the mask 0000ffff"},
    {"mask_without_caller", mask_without_caller, 32, "the mask 0000ffff is without the calling lane"},
    {"two_masks", two_masks, 32, "__syncwarp with mask"},
    {"two_operations", two_operations, 32, "meets lane"},
    {"two_shuffles", two_shuffles, 32, "a shuffle meets lane"},
    {"half_a_product", half_a_product, 32, "mma waits for lane"},
    {"a_short_block", half_a_product, 16, "of the mask ffffffff does not exist"},
    {"each_waits_for_the_other", each_waits_for_the_other, 32, "__syncwarp waits for lane 0"},
    {"odd_vector", odd_vector, 1, "reads 16 bytes"},
    {"odd_pair", odd_pair, 1, "reads 8 bytes"},
};

} // namespace

/* Each wrong kernel is refused, with its place and its thread, where somebody waits; what follows fails, too. */
void check_misuse()
{
    const device_array<float> out(64);
    for (const auto &wrong : wrongs) {
        const cudaError_t launched = launch(wrong.kernel, dim3(2), dim3(wrong.threads), 0, nullptr, out.get());
        expect(launched == cudaSuccess, "%s: the launch fails", wrong.name);
        const cudaError_t ran = wait(), then = launch(wrong.kernel, dim3(1), dim3(1), 0, nullptr, out.get());
        expect(ran == cudaErrorLaunchFailure, "%s: %s", wrong.name, cudaGetErrorName(ran));
        expect(then == cudaErrorLaunchFailure, "%s: the next launch gives %s", wrong.name, cudaGetErrorName(then));
        const char *report = shim::last_misuse();
        expect(strstr(report, wrong.report) && strstr(report, "check_misuse.cpp:") && strstr(report, "thread ("),
               "%s is reported as '%s'", wrong.name, report);
        shim::recover();
    }
}
