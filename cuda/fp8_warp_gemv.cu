/* fp8_matmul of a few rows without tensor cores: a warp has one column of the output and up to 8 rows of activations. Its
 * lanes take chunks of 16 weights in turn, with one scale each, and add up by shuffles. */
#include "fp8_math.cuh"

namespace
{

constexpr int WARPS = 4; /* of a block: a column each */

/* 16 bytes, by one load or, where they are not aligned, byte by byte. */
template <bool VECTORS> __device__ __forceinline__ uint4 load_codes(const uint8_t *from)
{
    if constexpr (VECTORS)
        return load_once(reinterpret_cast<const uint4 *>(from));
    uint32_t words[4] = {};
#pragma unroll
    for (int i = 0; i < FP8_CHUNK; i++)
        words[i / 4] |= static_cast<uint32_t>(from[i]) << i % 4 * 8;
    return make_uint4(words[0], words[1], words[2], words[3]);
}

__device__ __forceinline__ void widen_codes(const uint4 &codes, float (&w)[FP8_CHUNK])
{
#pragma unroll
    for (int i = 0; i < FP8_CHUNK / 2; i++) {
        const float2 pair = widen_pair<f16>(f16_pair_of_e4m3(word(codes, i / 2) >> i % 2 * 16 & 0xffffu));
        w[2 * i] = pair.x;
        w[2 * i + 1] = pair.y;
    }
}

/* Two activations, from a word of f16 or bf16, or from two of f32. */
template <class T> __device__ __forceinline__ float2 activation_pair(const uint32_t *words, int i)
{
    return widen_pair<T>(words[i]);
}
template <> __device__ __forceinline__ float2 activation_pair<float>(const uint32_t *words, int i)
{
    return make_float2(__uint_as_float(words[2 * i]), __uint_as_float(words[2 * i + 1]));
}

/* The sum of 16 products. */
template <class T, bool VECTORS> __device__ __forceinline__ float dot(const T *a, const float (&w)[FP8_CHUNK])
{
    float sum = 0;
    if constexpr (VECTORS) {
        constexpr int LOADS = sizeof(T) * FP8_CHUNK / sizeof(uint4);
        uint32_t words[LOADS * 4];
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            const uint4 v = __ldg(reinterpret_cast<const uint4 *>(a) + i);
#pragma unroll
            for (int j = 0; j < 4; j++)
                words[4 * i + j] = word(v, j);
        }
#pragma unroll
        for (int i = 0; i < FP8_CHUNK / 2; i++) {
            const float2 pair = activation_pair<T>(words, i);
            sum = fmaf(pair.x, w[2 * i], sum);
            sum = fmaf(pair.y, w[2 * i + 1], sum);
        }
    } else {
#pragma unroll
        for (int i = 0; i < FP8_CHUNK; i++)
            sum = fmaf(widen(a[i]), w[i], sum);
    }
    return sum;
}

__device__ __forceinline__ float warp_sum(float x)
{
#pragma unroll
    for (int step = WARP / 2; step; step /= 2)
        x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}

/* Blocks a multiprocessor must have room for: three keep 4 or 8 rows of 2-byte activations in registers without a spill. */
template <class T> constexpr int resident_blocks(int rows)
{
    return rows == 4 || (rows == 8 && sizeof(T) == 2) ? 3 : 1;
}

template <class T, int ROWS, bool VECTORS>
__global__ void __launch_bounds__(WARPS *WARP, resident_blocks<T>(ROWS)) warp_gemv(const fp8_gemv p)
{
    constexpr int LOADS = ROWS < 4 ? 4 : 2; /* of weights in flight */
    const int lane = static_cast<int>(threadIdx.x) % WARP;
    const uint32_t n = blockIdx.x * WARPS + threadIdx.x / WARP;
    if (n >= p.b.n)
        return;
    const int64_t first = static_cast<int64_t>(blockIdx.y) * ROWS;
    const uint8_t *weights = p.b.codes + n * p.b.stride;
    const int64_t scales = scale_row(p.b, n);
    const int chunks = static_cast<int>(p.b.k / FP8_CHUNK);
    const uint32_t chunks_of_block = static_cast<uint32_t>(p.b.block_k) / FP8_CHUNK;

    /* Rows past the end read the last one's; what comes of it is not stored. */
    const T *a[ROWS];
    float a_scale[ROWS], sum[ROWS] = {};
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int64_t m = min(first + r, p.m - 1);
        a[r] = static_cast<const T *>(move_bytes(p.a, m * p.a_stride));
        a_scale[r] = activation_scale(p, m);
    }
    for (int c = lane; c < chunks; c += LOADS * WARP) {
        uint4 codes[LOADS] = {};
        uint32_t bits[LOADS] = {};
#pragma unroll
        for (int u = 0; u < LOADS; u++)
            if (c + u * WARP < chunks)
                codes[u] = load_codes<VECTORS>(weights + static_cast<int64_t>(c + u * WARP) * FP8_CHUNK);
#pragma unroll
        for (int u = 0; u < LOADS; u++)
            if (c + u * WARP < chunks)
                bits[u] = scale_bits(p.b, scales + static_cast<uint32_t>(c + u * WARP) / chunks_of_block);
#pragma unroll
        for (int u = 0; u < LOADS; u++) {
            if (c + u * WARP >= chunks)
                break;
            float w[FP8_CHUNK];
            widen_codes(codes[u], w);
            const float scale = scale_of_bits(p.b, bits[u]);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const float d = dot<T, VECTORS>(a[r] + static_cast<int64_t>(c + u * WARP) * FP8_CHUNK, w);
                sum[r] = fmaf(d * a_scale[r], scale, sum[r]);
            }
        }
    }
    const float bias = bias_at<T>(p.bias, n);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float total = warp_sum(sum[r]);
        if (lane == 0 && first + r < p.m)
            output_row<T>(p.out, p.out_stride, first + r)[n] = narrow<T>(total + bias);
    }
}

template <class T> cudaError_t launch_for(const fp8_gemv *p, cudaStream_t stream)
{
    static const struct {
        int64_t rows; /* of activations */
        void (*kernel)(fp8_gemv);
    } kernels[] = {{1, warp_gemv<T, 1, true>},
                   {2, warp_gemv<T, 2, true>},
                   {4, warp_gemv<T, 4, true>},
                   {8, warp_gemv<T, 8, true>},
                   {1, warp_gemv<T, 1, false>}};
    constexpr int MOST = 3, BYTES = 4;
    int i = p->vectors ? 0 : BYTES;
    while (i < MOST && kernels[i].rows < p->m)
        i++;
    const dim3 grid(static_cast<unsigned>((p->b.n - 1) / WARPS + 1),
                    static_cast<unsigned>((p->m - 1) / kernels[i].rows + 1));
    return launch(kernels[i].kernel, grid, dim3(WARPS * WARP), 0, stream, *p);
}

} // namespace

cudaError_t fp8_warp_gemv(const struct fp8_gemv *p, cudaStream_t stream)
{
    return p->dtype == TDM_F32   ? launch_for<float>(p, stream)
           : p->dtype == TDM_F16 ? launch_for<f16>(p, stream)
                                 : launch_for<bf16>(p, stream);
}
