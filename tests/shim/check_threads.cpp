#include "shim_check.h"

#include <device.cuh>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>

namespace
{

__global__ void divide(float *out, float x, float y)
{
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = __fdiv_rn(x, y);
}

std::atomic<int> clock_of_threads;

/* When each thread of each block ran. */
__global__ void note_time(int *times)
{
    times[blockIdx.x * blockDim.x + threadIdx.x] = clock_of_threads++;
}

std::vector<int> times_in_order(const char *order)
{
    const device_array<int> times(4 * 64);
    choose_order(order);
    clock_of_threads = 0;
    launch(note_time, dim3(4), dim3(64), 0, nullptr, times.get());
    return times.values();
}

/* out[block] = the sum of the block's 256 values: by warps, through shared memory. */
__global__ void block_sum(const float *values, float *out)
{
    float *of_warps = shared_memory<float>();
    float sum = __ldg(values + blockIdx.x * blockDim.x + threadIdx.x);
    for (int bit = 16; bit; bit /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, bit);
    if (threadIdx.x % 32 == 0)
        of_warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    sum = threadIdx.x < blockDim.x / 32 ? of_warps[threadIdx.x] : 0;
    for (int distance = 16; distance; distance /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, distance);
    if (threadIdx.x == 0)
        out[blockIdx.x] = sum;
}

/* Lanes exchange their numbers; those past 20 left before. */
__global__ void exchange(int *out)
{
    const int lane = static_cast<int>(threadIdx.x);
    int *own = out + lane * 4;
    own[0] = __shfl_sync(0xffffffffu, lane * 10, 31 - lane);
    own[1] = __shfl_down_sync(0xffffffffu, lane, 5);
    own[2] = own[3] = -1;
    __syncwarp();
    if (lane > 20)
        return;
    const unsigned mask = (1u << 21) - 1;
    own[2] = __shfl_sync(mask, lane, 20);
    if (lane < 16)
        own[3] = __shfl_xor_sync(0xffffu, lane, 9);
}

/* Each thread says where it is. */
__global__ void where(unsigned *out)
{
    const unsigned in_block = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    out[block * (blockDim.x * blockDim.y * blockDim.z) + in_block] = block * 1000 + in_block;
}

__global__ void nothing()
{
}

} // namespace

/* Threads and blocks run as told, which differs. */
void check_orders()
{
    const std::string order = getenv("SHIM_ORDER");
    std::vector<int> sorted(4 * 64), forward = times_in_order("forward"), reverse = times_in_order("reverse");
    std::iota(sorted.begin(), sorted.end(), 0);
    expect(forward == sorted, "forward is not");
    std::reverse(reverse.begin(), reverse.end());
    expect(reverse == sorted, "reverse is not");
    std::vector<int> first = times_in_order("3"), second = times_in_order("4");
    expect(first != second, "two seeds give the same order");
    expect(first != sorted && second != sorted, "random orders are not");
    std::sort(first.begin(), first.end());
    expect(first == sorted, "a thread did not run once");
    choose_order(order.c_str());

    const device_array<unsigned> places(2 * 3 * 2 * 4 * 5 * 3);
    launch(where, dim3(2, 3, 2), dim3(4, 5, 3), 0, nullptr, places.get());
    const std::vector<unsigned> found = places.values();
    for (unsigned i = 0; i < found.size(); i++)
        expect(found[i] == i / 60 * 1000 + i % 60, "place %u is %u", i, found[i]);
}

void check_block_sum()
{
    std::vector<float> values(3 * 256);
    std::iota(values.begin(), values.end(), 0.f);
    const device_array<float> there(values), out(3);
    launch(block_sum, dim3(3), dim3(256), 8 * sizeof(float), nullptr, there.get(), out.get());
    const std::vector<float> sums = out.values();
    for (size_t i = 0; i < 3; i++)
        expect(sums[i] == std::accumulate(values.begin() + static_cast<long>(i) * 256, /* integers below 2^24: exact */
                                          values.begin() + static_cast<long>(i + 1) * 256, 0.f),
               "the sum of block %zu is %g", i, static_cast<double>(sums[i]));
}

void check_shuffles()
{
    const device_array<int> out(32 * 4);
    launch(exchange, dim3(1), dim3(32), 0, nullptr, out.get());
    const std::vector<int> got = out.values();
    for (int lane = 0; lane < 32; lane++) {
        const int want[] = {(31 - lane) * 10, lane + 5 < 32 ? lane + 5 : lane, lane > 20 ? -1 : 20,
                            lane < 16 ? lane ^ 9 : -1};
        for (int i = 0; i < 4; i++)
            expect(got[static_cast<size_t>(lane * 4 + i)] == want[i], "lane %d gets %d in exchange %d, not %d", lane,
                   got[static_cast<size_t>(lane * 4 + i)], i, want[i]);
    }
}

void check_limits()
{
    static const struct {
        dim3 grid, block;
        size_t shared;
        bool fits;
    } launches[] = {
        {dim3(1), dim3(1024), 48 * 1024, true},
        {dim3(1), dim3(1, 16, 64), 0, true},
        {dim3(1, 65535), dim3(1), 0, true},
        {dim3(1), dim3(1025), 0, false},
        {dim3(1), dim3(32, 33), 0, false},
        {dim3(1), dim3(1, 1, 65), 0, false},
        {dim3(1), dim3(0), 0, false},
        {dim3(0), dim3(1), 0, false},
        {dim3(1, 0), dim3(1), 0, false},
        {dim3(1, 65536), dim3(1), 0, false},
        {dim3(1, 1, 65536), dim3(1), 0, false},
        {dim3(0x80000000u), dim3(1), 0, false},
        {dim3(1), dim3(1), 48 * 1024 + 1, false},
    };
    for (const auto &l : launches) {
        const cudaError_t error = launch(nothing, l.grid, l.block, l.shared, nullptr);
        expect(error == (l.fits ? cudaSuccess : cudaErrorInvalidConfiguration),
               "%u x %u x %u blocks of %u x %u x %u with %zu bytes: %s", l.grid.x, l.grid.y, l.grid.z, l.block.x,
               l.block.y, l.block.z, l.shared, cudaGetErrorName(error));
    }
    expect(wait() == cudaSuccess, "the launches fail");
}

/* Whichever thread of the host waits runs the kernels, with fibers that it does not keep, and a GPU's rounding. */
void check_host_threads()
{
    enum { HOST_THREADS = 40, BLOCKS = 2, THREADS = 1024 };
    const device_array<float> out(BLOCKS * THREADS);
    const volatile float one = 1, three = 3;
    const float third = one / three;
    for (int i = 0; i < HOST_THREADS; i++)
        std::thread([&] {
            fesetround(i % 2 ? FE_UPWARD : FE_DOWNWARD);
            launch(divide, dim3(BLOCKS), dim3(THREADS), 0, nullptr, out.get(), 1.f, 3.f);
            const std::vector<float> got = out.values();
            expect(std::count(got.begin(), got.end(), third) == BLOCKS * THREADS, "1 / 3 is %a",
                   static_cast<double>(got[0]));
            expect(fegetround() == (i % 2 ? FE_UPWARD : FE_DOWNWARD), "the host's rounding is lost");
        }).join();
}
