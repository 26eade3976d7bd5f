/* fp8_matmul of up to 64 rows on tensor cores. Weights are the 16-row operand of mma.m16n8k16 and activations the 8-column
 * one, so one row of activations costs as much as eight, and more are further column tiles over the same weights.
 *
 * A warp takes 16 or 32 weight rows by one window of 64 columns of K at a time. Which k an instruction calls its first is
 * free as long as both operands agree. So lane (g, t) has k = 16 t .. 16 t + 15 of the window, one vector load from
 * weight row g and one from row g + 8, and instruction i takes k = 16 t + 4 i .. + 3 of them as its columns 2 t, 2 t + 1,
 * 2 t + 8 and 2 t + 9. The warps of a block share K and add up in shared memory, in order. */
#include "fp8_math.cuh"

namespace
{

constexpr int PANEL = 16; /* weight rows of an instruction        */
constexpr int TILE = 8;   /* rows of activations of an instruction */
constexpr int STEPS = FP8_WINDOW / 16;
constexpr int SUM_STRIDE = TILE + 1; /* in shared memory: neighbours in n lie in different banks */

/* Warps of a block, which share K: the fewest that give each multiprocessor so many. */
constexpr int FEWEST_WARPS = 4, MOST_WARPS = 8, WANTED_WARPS = 12;

/* How a kernel for up to `TILES * 8` rows of activations goes about it: what fits the registers. The order of its sums
 * follows from none of this. */
template <int TILES, bool ROUND> struct shape {
    static constexpr int panels = TILES < 4 ? 1 : 2; /* of weights to a warp, which reads all activations */
    static constexpr int windows =
        TILES > 2 || ROUND ? 2 : 4;             /* whose weights are loaded before the first is multiplied */
    static constexpr int rows = panels * PANEL; /* of weights to a block                                    */
    static constexpr int blocks = TILES == 1 && !ROUND ? 3
                                  : TILES <= 2         ? 2
                                                       : 1; /* of MOST_WARPS, on a multiprocessor */
};

/* The weights of one panel and window as operands: a[i] of instruction i. */
template <class T> __device__ __forceinline__ void widen_weights(const uint4 (&codes)[2], uint32_t (&a)[STEPS][4])
{
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        const uint32_t upper = word(codes[0], i), lower = word(codes[1], i);
        a[i][0] = pair_of_e4m3<T>(upper & 0xffffu);
        a[i][1] = pair_of_e4m3<T>(lower & 0xffffu);
        a[i][2] = pair_of_e4m3<T>(upper >> 16);
        a[i][3] = pair_of_e4m3<T>(lower >> 16);
    }
}

template <class T> __device__ __forceinline__ uint32_t round_pair(uint32_t pair, float scale)
{
    const float2 x = widen_pair<T>(pair);
    return pair_of_e4m3<T>(rounded_code(x.x, scale) | static_cast<uint32_t>(rounded_code(x.y, scale)) << 8);
}

/* The lane's 16 activations of one row and window. */
template <class T, bool ROUND>
__device__ __forceinline__ void load_activations(const uint4 *from, float scale, uint32_t (&x)[2 * STEPS])
{
    const uint4 halves[2] = {__ldg(from), __ldg(from + 1)};
#pragma unroll
    for (int i = 0; i < 2 * STEPS; i++) {
        x[i] = word(halves[i / 4], i % 4);
        if (ROUND)
            x[i] = round_pair<T>(x[i], scale);
    }
}

template <class T>
__device__ __forceinline__ void multiply(const uint32_t (&a)[STEPS][4], const uint32_t (&x)[2 * STEPS], float (&d)[4])
{
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        const uint32_t b[2] = {x[2 * i], x[2 * i + 1]};
        mma_16x8x16<T>(d, a[i], b);
    }
}

/* Add up the warps' sums of one tile and write them out. */
template <class T, int PANELS>
__device__ __forceinline__ void finish_tile(const fp8_gemv &p, int64_t column, int tile, const float (&sum)[PANELS][4],
                                            float *shared)
{
    constexpr int ROWS = PANELS * PANEL;
    const int lane = static_cast<int>(threadIdx.x) % WARP, warp = static_cast<int>(threadIdx.x) / WARP;
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < PANELS * 4; i++)
        shared[(warp * ROWS + i / 2 * 8 + g) * SUM_STRIDE + 2 * t + i % 2] = sum[i / 4][i % 4];
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < ROWS * TILE; i += static_cast<int>(blockDim.x)) {
        const int64_t n = column + i % ROWS, m = tile * TILE + i / ROWS;
        if (n >= p.b.n || m >= p.m)
            continue;
        float total = 0;
        for (int w = 0; w < static_cast<int>(blockDim.x) / WARP; w++)
            total += shared[(w * ROWS + i % ROWS) * SUM_STRIDE + i / ROWS];
        output_row<T>(p.out, p.out_stride, m)[n] = narrow<T>(total + bias_at<T>(p.bias, n));
    }
    __syncthreads();
}

template <class T, int TILES, bool ROUND>
__global__ void __launch_bounds__(MOST_WARPS *WARP, shape<TILES, ROUND>::blocks) mma_gemv(const fp8_gemv p)
{
    using s = shape<TILES, ROUND>;
    constexpr int PANELS = s::panels, WINDOWS = s::windows, ROWS = s::rows;
    constexpr int SCALES = WINDOWS * ROWS / WARP; /* a lane loads for the warp */
    const int lane = static_cast<int>(threadIdx.x) % WARP, warp = static_cast<int>(threadIdx.x) / WARP;
    const int g = lane / 4, t = lane % 4;
    const int warps = static_cast<int>(blockDim.x) / WARP, all = static_cast<int>(p.b.k) / FP8_WINDOW;
    const int first = all * warp / warps, end = all * (warp + 1) / warps; /* at most 2^25 * 16 */
    const uint32_t column = blockIdx.x * ROWS, last = static_cast<uint32_t>(p.b.n) - 1;
    const uint32_t windows_of_block = static_cast<uint32_t>(p.b.block_k) / FP8_WINDOW;

    /* Rows past the end read the last one's; what comes of it is not stored. */
    const uint4 *weights[PANELS][2];
    float sum[TILES][PANELS][4] = {};
#pragma unroll
    for (int i = 0; i < PANELS * 2; i++) {
        const uint32_t n = min(column + i * 8 + g, last);
        weights[i / 2][i % 2] = reinterpret_cast<const uint4 *>(p.b.codes + n * p.b.stride) + t;
    }
    const uint4 *activations = static_cast<const uint4 *>(p.a) + 2 * t;
    const uint32_t stride = static_cast<uint32_t>(p.a_stride / FP8_ALIGNMENT);
    float *a_scale = shared_memory<float>(), *sums = a_scale + TILES * TILE;
    for (int m = static_cast<int>(threadIdx.x); m < TILES * TILE; m += static_cast<int>(blockDim.x))
        a_scale[m] = activation_scale(p, min(m, static_cast<int>(p.m) - 1));
    __syncthreads();
    const float own_scale = ROUND ? a_scale[g] : 1.f;
    const int64_t scales = scale_row(p.b, min(column + lane % ROWS, last));

    for (int w = first; w < end; w += WINDOWS) {
        uint4 codes[WINDOWS][PANELS][2] = {};
        uint32_t bits[SCALES];
#pragma unroll
        for (int u = 0; u < WINDOWS; u++)
            if (w + u < end)
#pragma unroll
                for (int i = 0; i < PANELS * 2; i++)
                    codes[u][i / 2][i % 2] = load_once(weights[i / 2][i % 2] + (w + u) * 4);
#pragma unroll
        for (int i = 0; i < SCALES; i++) {
            const int u = (i * WARP + lane) / ROWS;
            bits[i] = scale_bits(p.b, scales + static_cast<uint32_t>(min(w + u, end - 1)) / windows_of_block);
        }
#pragma unroll
        for (int u = 0; u < WINDOWS; u++) {
            if (w + u >= end)
                break;
            uint32_t a[PANELS][STEPS][4];
            float scale[PANELS][2];
#pragma unroll
            for (int i = 0; i < PANELS * 2; i++) {
                const int from = u * ROWS + i * 8; /* plus g */
                scale[i / 2][i % 2] = __shfl_sync(ALL_LANES, scale_of_bits(p.b, bits[from / WARP]), from % WARP + g);
            }
#pragma unroll
            for (int panel = 0; panel < PANELS; panel++)
                widen_weights<T>(codes[u][panel], a[panel]);
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                if (TILES == 8 && tile % 2 == 0)
                    __syncwarp(); /* or the compiler loads too many tiles' activations ahead, and spills */
                uint32_t x[2 * STEPS];
                const uint32_t row = min(tile * TILE + g, static_cast<int>(p.m) - 1);
                load_activations<T, ROUND>(activations + row * stride + (w + u) * 8, own_scale, x);
                const float2 unit = reinterpret_cast<const float2 *>(a_scale)[tile * (TILE / 2) + t];
#pragma unroll
                for (int panel = 0; panel < PANELS; panel++) {
                    float d[4] = {};
                    multiply<T>(a[panel], x, d);
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        sum[tile][panel][i] =
                            fmaf(d[i] * (i % 2 ? unit.y : unit.x), scale[panel][i / 2], sum[tile][panel][i]);
                }
            }
        }
    }
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
        finish_tile<T, PANELS>(p, column, tile, sum[tile], sums);
}

/* By N and the device alone, so that rows of activations do not depend on how many there are. */
int warps_of_block(const fp8_gemv *p)
{
    const int64_t panels = (p->b.n - 1) / PANEL + 1;
    int warps = FEWEST_WARPS;
    while (warps < MOST_WARPS && panels * warps < static_cast<int64_t>(WANTED_WARPS) * p->multiprocessors)
        warps *= 2;
    return warps;
}

template <class T> cudaError_t launch_for(const fp8_gemv *p, cudaStream_t stream)
{
    static const struct {
        int rows; /* of activations, at most */
        bool round;
        void (*kernel)(fp8_gemv);
        int columns; /* of the output, to a block */
    } choices[] = {{1 * TILE, true, mma_gemv<T, 1, true>, shape<1, true>::rows},
                   {1 * TILE, false, mma_gemv<T, 1, false>, shape<1, false>::rows},
                   {2 * TILE, false, mma_gemv<T, 2, false>, shape<2, false>::rows},
                   {4 * TILE, false, mma_gemv<T, 4, false>, shape<4, false>::rows},
                   {8 * TILE, false, mma_gemv<T, 8, false>, shape<8, false>::rows}};
    const auto *c = choices;
    while (c->rows < p->m || c->round != p->round)
        c++;
    const int warps = warps_of_block(p), floats = c->rows + warps * c->columns * SUM_STRIDE;
    const dim3 grid(static_cast<unsigned>((p->b.n - 1) / c->columns + 1)), block(static_cast<unsigned>(warps * WARP));
    return launch(c->kernel, grid, block, floats * sizeof(float), stream, *p);
}

} // namespace

cudaError_t fp8_mma_gemv(const struct fp8_gemv *p, cudaStream_t stream)
{
    return p->dtype == TDM_F16 ? launch_for<f16>(p, stream) : launch_for<bf16>(p, stream);
}
