/* kv_append: a warp prepares a row in shared memory and stores it. */
#include "kv_append.h"

#include "prepare.cuh"
#include "stored.cuh"

namespace
{

constexpr int WARPS = 4;
constexpr int64_t MOST_HEADS = 65535;

static_assert(sizeof(append_params) <= 4096, "kernel parameters");

__device__ __forceinline__ void append_row(const append_half &half, int64_t batch, int64_t head, int64_t token,
                                           int place, int64_t position, float *x)
{
    const head_rows from = head_of(half.from, batch, head);
    const prepare &p = half.prepare;
    const int n = from.channels;
    for (int c = lane_index(); c < n; c += WARP)
        x[c] = number_at(from.dtype, row_at(from, token), c);
    __syncwarp();
    row_norm(p, x, n);
    row_turn(p, position, x);
    if (p.offset)
        for (int c = lane_index(); c < n; c += WARP)
            x[c] = __fsub_rn(x[c], p.offset[head * n + c]);
    __syncwarp();
    row_rotate(p.rotation, x, n);
    const head_rows to = head_of(half.to, batch, head);
    store_row(x, to, row_of(to, place));
    __syncwarp();
}

/* Grid: tokens of a run, WARPS at a time; heads; keys and values of each run. */
__global__ void __launch_bounds__(WARPS *WARP, 1) append_kernel(const append_params p)
{
    const append_half &half = p.half[blockIdx.z % 2];
    const token_run &run = p.runs.run[blockIdx.z / 2];
    const int warp = static_cast<int>(threadIdx.x / WARP);
    const int64_t i = static_cast<int64_t>(blockIdx.x) * WARPS + warp;
    if (i >= run.count)
        return;
    float *x = shared_memory<float>() + warp * max(p.half[0].from.channels, p.half[1].from.channels);
    const int place = static_cast<int>(run.position + i);
    const int position = run.given < 0 ? place : p.runs.position[run.given + i];
    for (int64_t head = blockIdx.y; head < half.to.heads; head += gridDim.y)
        append_row(half, run.sequence, head, run.first + i, place, position, x);
}

} // namespace

cudaError_t append_launch(const append_params *p, cudaStream_t stream)
{
    const int channels = max(p->half[0].from.channels, p->half[1].from.channels);
    const int64_t heads = min(p->half[0].to.heads, MOST_HEADS);
    const dim3 grid((token_runs_longest(&p->runs) + WARPS - 1) / WARPS, static_cast<unsigned>(heads),
                    2 * p->runs.count);
    return launch(append_kernel, grid, dim3(WARPS * WARP), WARPS * channels * sizeof(float), stream, *p);
}
