#include "shim_check.h"

#include <device.cuh>

#include <cstring>

namespace
{

__global__ void forgets_barrier(float *out)
{
    float *shared = shared_memory<float>();
    shared[threadIdx.x] = 1;
    out[threadIdx.x] = shared[threadIdx.x ^ 1];
}

/* As many times right. */
__global__ void has_barriers(float *out)
{
    float *shared = shared_memory<float>();
    for (int i = 0; i < 3; i++) {
        shared[threadIdx.x] = 1;
        __syncthreads();
        out[threadIdx.x] = shared[threadIdx.x ^ 1];
        __syncthreads();
    }
}

/* All lanes of a warp meet in a shuffle, but that orders no memory. */
__global__ void trusts_shuffles(float *out)
{
    float *shared = shared_memory<float>();
    shared[threadIdx.x] = 1;
    const float x = __shfl_xor_sync(0xffffffffu, 1.f, 1);
    out[threadIdx.x] = shared[threadIdx.x ^ 1] + x;
}

__global__ void shares_an_output(float *out)
{
    if (threadIdx.x == 0)
        out[0] = static_cast<float>(blockIdx.x);
}

__global__ void runs_over(float *)
{
    shared_memory<float>()[64] = 1;
}

__global__ void writes(float *out)
{
    *out = 1;
}

__global__ void reads_a_float_off(float *out)
{
    const uint4 v = *reinterpret_cast<const uint4 *>(out + 1);
    out[0] = static_cast<float>(v.x);
}

void run(void (*kernel)(float *), unsigned blocks, unsigned threads, float *out)
{
    must(launch(kernel, dim3(blocks), dim3(threads), 64 * sizeof(float), nullptr, out), "launch");
    must(wait(), "the kernel");
}

void no_barrier()
{
    const device_array<float> out(64);
    run(has_barriers, 1, 64, out.get());
    run(forgets_barrier, 1, 64, out.get());
}

void shuffle_as_barrier()
{
    const device_array<float> out(64);
    run(trusts_shuffles, 1, 64, out.get());
}

void blocks_collide()
{
    const device_array<float> out(64);
    run(shares_an_output, 1, 64, out.get());
    run(shares_an_output, 1, 64, out.get()); /* launches of one stream do not */
    run(shares_an_output, 2, 64, out.get());
}

void shared_overrun()
{
    const device_array<float> out(64);
    run(runs_over, 1, 1, out.get());
}

void device_overrun()
{
    const device_array<float> out(63);
    run(writes, 1, 1, out.get() + 63);
}

void use_after_free()
{
    void *memory;
    must(cudaMalloc(&memory, 4), "cudaMalloc");
    must(cudaFree(memory), "cudaFree");
    run(writes, 1, 1, static_cast<float *>(memory));
}

void misaligned()
{
    const device_array<float> out(64);
    run(reads_a_float_off, 1, 1, out.get());
}

void leak()
{
    void *memory;
    cudaEvent_t event;
    must(cudaMalloc(&memory, 4), "cudaMalloc");
    must(cudaEventCreate(&event), "cudaEventCreate");
}

} // namespace

bool commit_fault(const char *name)
{
    static const check_group faults[] = {
        {"no_barrier", no_barrier},         {"shuffle_as_barrier", shuffle_as_barrier},
        {"blocks_collide", blocks_collide}, {"shared_overrun", shared_overrun},
        {"device_overrun", device_overrun}, {"use_after_free", use_after_free},
        {"misaligned", misaligned},         {"leak", leak},
    };
    for (const auto &fault : faults)
        if (!strcmp(fault.name, name)) {
            fault.run();
            return true;
        }
    return false;
}
