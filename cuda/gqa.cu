/* Attention by blocks of keys: a block of threads holds a tile of up to 8 query rows of one kv head and goes through
 * one part of the keys. Keys and values are widened to f32 in shared memory, 32 channels at a time, whatever their
 * type, so that each is read once for all rows of the tile. No row's arithmetic depends on which others share its
 * tile. */
#include "gqa.h"

#include "gqa_rows.cuh"
#include "gqa_stage.cuh"
#include "stored.cuh"

namespace
{

constexpr int QUARTERS = 4; /* lanes that share the keys of a channel of V: each has 8 of every 32 */
constexpr int64_t MOST_HEADS = 65535;
constexpr size_t MOST_SHARED = 48 * 1024;

static_assert(static_cast<int>(MAX_PARTS) <= WARP, "a lane has a part");
static_assert(sizeof(gqa_params) <= 4096, "kernel parameters");

/* In shared memory, followed by the queries and the outputs of the rows, whole chunks each. */
template <int R> struct alignas(16) tile {
    float stage[KEYS * STRIDE];
    float p[R][KEYS]; /* scores, then probabilities; -1 for keys that the row does not see */
    row_state row[R];
};

/* Whose rows they are. */
struct place {
    int64_t batch, head, first; /* first: the tile's first row of the run */
    int rows;                   /* of the tile                            */
};

__device__ __forceinline__ int chunks(int channels)
{
    return (channels + CHUNK - 1) / CHUNK * CHUNK;
}

__device__ __forceinline__ float *partial_of(const gqa_params &p, const place &at, int part, int64_t row)
{
    const int64_t slot = ((at.batch * p.k.heads + at.head) * p.max_parts + part) * p.split_rows + row;
    return p.partials + slot * (ROW_STATE + p.out.channels);
}

/* ---- one block of keys ------------------------------------------------------------------- */

/* The scores of keys [first, first + n): a thread has one key and all rows. */
template <int R>
__device__ __forceinline__ void score_block(const gqa_params &p, tile<R> &t, const float *q, const head_rows &k,
                                            int first, int n)
{
    const int key = static_cast<int>(threadIdx.x), q_stride = chunks(p.q.channels);
    float sum[R] = {};
    for (int channel = 0; channel < p.q.channels; channel += CHUNK) {
        stage(k, first, n, channel, t.stage);
        __syncthreads();
#pragma unroll 8
        for (int c = 0; c < CHUNK; c++) {
            const float x = t.stage[key * STRIDE + c];
#pragma unroll
            for (int r = 0; r < R; r++)
                sum[r] = fmaf(q[r * q_stride + channel + c], x, sum[r]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        float s = sum[r];
        if (p.softcap != 0)
            s = p.softcap * tanhf(__fdiv_rn(s + t.row[r].shift, p.softcap));
        t.p[r][key] = s;
    }
}

/* The scores of one row become probabilities; its m and l follow. By a warp. */
template <int R> __device__ __forceinline__ void soften(tile<R> &t, int r, int first)
{
    row_state &row = t.row[r];
    const bool sees = row_sees_any(row, first);
    const float before = row.m;
    float top = -INFINITY, sum = 0;
    for (int j = lane_index(); j < KEYS; j += WARP)
        if (row_sees(row, first + j))
            top = fmaxf(top, t.p[r][j]); /* passes over NaN */
    const float after = fmaxf(before, warp_max(top));
    const float base = after == -INFINITY ? 0.f : after; /* any number does where all scores are -infinity */
    for (int j = lane_index(); j < KEYS; j += WARP) {
        const float x = row_sees(row, first + j) ? expf(t.p[r][j] - base) : -1.f;
        sum += x < 0 ? 0.f : x;
        t.p[r][j] = x;
    }
    sum = warp_sum(sum);
    __syncwarp();
    if (lane_index() == 0) {
        row.shrink = !sees ? -1.f : before == after ? 1.f : expf(before - after);
        row.m = after;
        row.l = sees ? fmaf(row.l, row.shrink, sum) : row.l;
    }
}

/* o = o * shrink + p * values. Lanes 8 apart share the keys of one channel. */
template <int R>
__device__ __forceinline__ void add_values(const gqa_params &p, tile<R> &t, float *o, const head_rows &v, int first,
                                           int n)
{
    const int lane = lane_index(), quarter = lane / (WARP / QUARTERS), o_stride = chunks(p.out.channels);
    const int mine = static_cast<int>(threadIdx.x / WARP) * (WARP / QUARTERS) + lane % (WARP / QUARTERS);
    for (int channel = 0; channel < p.out.channels; channel += CHUNK) {
        float sum[R] = {};
        stage(v, first, n, channel, t.stage);
        __syncthreads();
#pragma unroll 4
        for (int i = 0; i < KEYS / QUARTERS; i++) {
            const int j = i / 8 * WARP + quarter * 8 + i % 8;
            const float x = t.stage[j * STRIDE + mine];
#pragma unroll
            for (int r = 0; r < R; r++)
                sum[r] = t.p[r][j] < 0 ? sum[r] : fmaf(t.p[r][j], x, sum[r]);
        }
#pragma unroll
        for (int r = 0; r < R; r++) {
            sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], WARP / QUARTERS);
            sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2 * WARP / QUARTERS);
            float *to = o + r * o_stride + channel + mine;
            if (quarter == 0 && t.row[r].shrink >= 0)
                *to = fmaf(*to, t.row[r].shrink, sum[r]);
        }
        __syncthreads();
    }
}

/* ---- a tile -------------------------------------------------------------------------------- */

template <int R>
__device__ __forceinline__ void open_tile(const gqa_params &p, const token_run &run, const gqa_keys &keys,
                                          const place &at, tile<R> &t, float *q, float *o)
{
    const int q_stride = chunks(p.q.channels), o_stride = chunks(p.out.channels);
    for (int r = static_cast<int>(threadIdx.x / WARP); r < R; r += WARPS) {
        row_state row = {-INFINITY, 0.f, 0.f, -1.f, 0, 0, 0};
        const int64_t i = (at.first + r) / p.group, q_head = at.head * p.group + (at.first + r) % p.group;
        if (r < at.rows) {
            const int64_t position = run.given < 0 ? run.position + i : p.runs.position[run.given + i];
            row = view_of(p, keys, run.first + i);
            row.shift = load_query(p, at.batch, q_head, run.first + i, position, q + r * q_stride, q_stride);
        } else {
            for (int c = lane_index(); c < q_stride; c += WARP)
                q[r * q_stride + c] = 0;
        }
        for (int c = lane_index(); c < o_stride; c += WARP)
            o[r * o_stride + c] = 0;
        if (lane_index() == 0)
            t.row[r] = row;
    }
    __syncthreads();
}

template <int R>
__device__ __forceinline__ void attend(const gqa_params &p, const gqa_keys &keys, const place &at, int part, tile<R> &t,
                                       const float *q, float *o)
{
    const head_rows k = head_of(p.k, at.batch, at.head), v = head_of(p.v, at.batch, at.head);
    const int end = min(keys.blocks, (part + 1) * keys.part_blocks);
    int top = 0;
    for (int r = 0; r < R; r++)
        top = max(top, max(t.row[r].sinks, t.row[r].end));
    for (int i = part * keys.part_blocks; i < end; i++) {
        const int block = i < keys.sink_blocks ? i : i - keys.sink_blocks + keys.first_block;
        const int first = block * KEYS, n = min(KEYS, top - first);
        bool seen = false;
        for (int r = 0; r < R; r++)
            seen = seen || row_sees_any(t.row[r], first);
        if (!seen)
            continue;
        score_block<R>(p, t, q, k, first, n);
        __syncthreads();
        for (int r = static_cast<int>(threadIdx.x / WARP); r < R; r += WARPS)
            soften<R>(t, r, first);
        add_values<R>(p, t, o, v, first, n); /* has a barrier before it reads p */
    }
}

/* Write the rows: finished, or for the merge of the parts. */
template <int R>
__device__ __forceinline__ void close_tile(const gqa_params &p, const token_run &run, const gqa_keys &keys,
                                           const place &at, int part, tile<R> &t, float *o)
{
    const int o_stride = chunks(p.out.channels);
    for (int r = static_cast<int>(threadIdx.x / WARP); r < at.rows; r += WARPS) {
        const int64_t row = static_cast<int64_t>(run.first) * p.group + at.first + r;
        if (keys.parts == 1) {
            finish_row(p, at.batch, at.head * p.group + row % p.group, row / p.group, t.row[r], o + r * o_stride);
            continue;
        }
        float *to = partial_of(p, at, part, row);
        if (lane_index() == 0) {
            to[0] = t.row[r].m;
            to[1] = t.row[r].l;
            to[2] = t.row[r].shift;
        }
        for (int c = lane_index(); c < p.out.channels; c += WARP)
            to[ROW_STATE + c] = o[r * o_stride + c];
    }
    __syncthreads();
}

/* Grid: tiles of a run, the last first as its queries see most, times parts; kv heads; runs. */
template <int R> __global__ void __launch_bounds__(THREADS, 3) attend_kernel(const gqa_params p)
{
    const token_run &run = p.runs.run[blockIdx.z];
    const gqa_keys &keys = p.keys[blockIdx.z];
    const int64_t rows = static_cast<int64_t>(run.count) * p.group, tiles = (rows + R - 1) / R;
    const int64_t work = blockIdx.x;
    if (work >= tiles * keys.parts)
        return;
    const int part = static_cast<int>(work % keys.parts);
    tile<R> &t = *shared_memory<tile<R>>();
    float *q = reinterpret_cast<float *>(&t + 1), *o = q + R * chunks(p.q.channels);
    place at = {run.sequence, 0, (tiles - 1 - work / keys.parts) * R, 0};
    at.rows = static_cast<int>(min(static_cast<int64_t>(R), rows - at.first));
    for (at.head = blockIdx.y; at.head < p.k.heads; at.head += gridDim.y) {
        open_tile<R>(p, run, keys, at, t, q, o);
        attend<R>(p, keys, at, part, t, q, o);
        close_tile<R>(p, run, keys, at, part, t, o);
    }
}

/* ---- the merge of parts ---------------------------------------------------------------------- */

/* A row from its parts, in order; a lane has the state of a part. */
__device__ __forceinline__ void merge_row(const gqa_params &p, const place &at, int parts, int64_t row, float *o)
{
    const int lane = lane_index();
    const float *mine = partial_of(p, at, min(lane, parts - 1), row);
    row_state all = {lane < parts ? mine[0] : -INFINITY, lane < parts ? mine[1] : 0.f, mine[2], 0.f, 0, 0, 0};
    const float m = all.m, l = all.l;
    all.m = warp_max(m);
    const float weight = expf(m - (all.m == -INFINITY ? 0.f : all.m));
    all.l = 0;
    for (int part = 0; part < parts; part++)
        all.l = fmaf(__shfl_sync(0xffffffffu, weight, part), __shfl_sync(0xffffffffu, l, part), all.l);
    for (int c = lane; c < chunks(p.out.channels); c += WARP)
        o[c] = 0;
    for (int part = 0; part < parts; part++) {
        const float *from = partial_of(p, at, part, row) + ROW_STATE;
        const float by = __shfl_sync(0xffffffffu, weight, part);
        for (int c = lane; c < p.out.channels; c += WARP)
            o[c] = fmaf(by, from[c], o[c]);
    }
    __syncwarp();
    finish_row(p, at.batch, at.head * p.group + row % p.group, row / p.group, all, o);
}

/* Grid: rows of a run, WARPS at a time; kv heads; runs. */
__global__ void __launch_bounds__(THREADS) merge_kernel(const gqa_params p)
{
    const token_run &run = p.runs.run[blockIdx.z];
    const gqa_keys &keys = p.keys[blockIdx.z];
    const int warp = static_cast<int>(threadIdx.x / WARP);
    const int64_t i = static_cast<int64_t>(blockIdx.x) * WARPS + warp;
    if (keys.parts == 1 || i >= static_cast<int64_t>(run.count) * p.group)
        return;
    float *o = shared_memory<float>() + warp * chunks(p.out.channels);
    for (place at = {run.sequence, blockIdx.y, 0, 0}; at.head < p.k.heads; at.head += gridDim.y)
        merge_row(p, at, keys.parts, static_cast<int64_t>(run.first) * p.group + i, o);
}

/* ---- launches --------------------------------------------------------------------------------- */

template <int R> constexpr size_t shared_bytes(int channels)
{
    return sizeof(tile<R>) + R * static_cast<size_t>(channels) * sizeof(float);
}

const struct {
    int rows;
    void (*kernel)(const gqa_params);
    size_t (*shared)(int channels);
} tiles[] = {
    {1, attend_kernel<1>, shared_bytes<1>},
    {2, attend_kernel<2>, shared_bytes<2>},
    {4, attend_kernel<4>, shared_bytes<4>},
    {8, attend_kernel<8>, shared_bytes<8>},
};

unsigned head_blocks(const gqa_params &p)
{
    return static_cast<unsigned>(min(p.k.heads, MOST_HEADS));
}

/* The least tile that holds all rows of a run, or the largest that there is room for. */
int choose_tile(int64_t rows, int channels)
{
    const int count = sizeof tiles / sizeof *tiles;
    int i = 0;
    while (i + 1 < count && tiles[i].rows < rows && tiles[i + 1].shared(channels) <= MOST_SHARED)
        i++;
    return i;
}

} // namespace

cudaError_t gqa_launch(const gqa_params *p, cudaStream_t stream)
{
    const int whole = (p->q.channels + CHUNK - 1) / CHUNK * CHUNK, wide = (p->out.channels + CHUNK - 1) / CHUNK * CHUNK;
    const int tile = choose_tile(static_cast<int64_t>(token_runs_longest(&p->runs)) * p->group, whole + wide);
    int64_t blocks = 0, split_rows = 0;
    for (int i = 0; i < p->runs.count; i++) {
        const int64_t rows = static_cast<int64_t>(p->runs.run[i].count) * p->group, parts = p->keys[i].parts;
        const int64_t all = (rows + tiles[tile].rows - 1) / tiles[tile].rows * parts;
        blocks = max(blocks, all);
        split_rows = parts > 1 ? max(split_rows, rows) : split_rows;
    }
    cudaError_t error = launch(tiles[tile].kernel, dim3(static_cast<unsigned>(blocks), head_blocks(*p), p->runs.count),
                               dim3(THREADS), tiles[tile].shared(whole + wide), stream, *p);
    if (error || split_rows == 0)
        return error;
    return launch(merge_kernel,
                  dim3(static_cast<unsigned>((split_rows + WARPS - 1) / WARPS), head_blocks(*p), p->runs.count),
                  dim3(THREADS), WARPS * wide * sizeof(float), stream, *p);
}
