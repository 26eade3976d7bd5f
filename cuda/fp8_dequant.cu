/* What stands around the product of cuBLAS: weights widened to the activations' type, and the end of the outputs.
 *
 * A weight is its code times its scale, and f16 ends at 65504. So each row of scales is divided by a power of two that
 * brings the largest of them where the largest code just fits; the outputs, which are f32, are multiplied by it. */
#include "fp8_math.cuh"

namespace
{

constexpr int THREADS = 256;
constexpr unsigned MOST_GRID_Y = 65535;
constexpr int NORMAL_SHIFT = 24; /* makes any subnormal f32 a normal one */

__device__ __forceinline__ float power_of_two(int exponent)
{
    return __uint_as_float(static_cast<uint32_t>(exponent + 127) << 23);
}

/* x * 2^exponent for |exponent| up to 250, with more range than one factor has. */
__device__ __forceinline__ float shift(float x, int exponent)
{
    const int half = exponent / 2;
    return x * power_of_two(half) * power_of_two(exponent - half);
}

/* floor(log2(x)) of a positive number. */
__device__ __forceinline__ int exponent_of(float x)
{
    const int shift = x < power_of_two(-126) ? NORMAL_SHIFT : 0;
    return static_cast<int>(__float_as_uint(x * power_of_two(shift)) >> 23) - 127 - shift;
}

/* Scales are brought below 2^this: 448 * 2^7 fits f16, and beside bf16 and f32 the sums keep their room. */
__device__ __forceinline__ int scale_exponent(tdm_dtype dtype)
{
    return dtype == TDM_F16 ? 7 : 0;
}

/* A warp for each row of scales. */
__global__ void __launch_bounds__(THREADS) find_exponents(const fp8_dequantization p)
{
    const int lane = static_cast<int>(threadIdx.x) % WARP;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * (THREADS / WARP) + threadIdx.x / WARP;
    if (row > (p.b.n - 1) / p.b.block_n)
        return;
    float largest = 0;
    for (int64_t i = lane; i < p.b.k_blocks; i += WARP) {
        const float x = fabsf(scale_at(p.b, row * p.b.k_blocks + i));
        if (x < INFINITY)
            largest = fmaxf(largest, x);
    }
#pragma unroll
    for (int step = WARP / 2; step; step /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, step));
    if (lane == 0)
        p.exponents[row] = largest > 0 ? exponent_of(largest) + 1 - scale_exponent(p.dtype) : 0;
}

/* Pairs as T, one behind the other, in the way vector stores take them. */
template <class T> __device__ __forceinline__ void store_chunk(T *to, const float (&x)[FP8_CHUNK])
{
    uint4 *vectors = reinterpret_cast<uint4 *>(to);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float *v = x + 8 * i;
        vectors[i] = make_uint4(narrow_pair<T>(v[0], v[1]), narrow_pair<T>(v[2], v[3]), narrow_pair<T>(v[4], v[5]),
                                narrow_pair<T>(v[6], v[7]));
    }
}
template <> __device__ __forceinline__ void store_chunk<float>(float *to, const float (&x)[FP8_CHUNK])
{
#pragma unroll
    for (int i = 0; i < FP8_CHUNK / 4; i++)
        reinterpret_cast<uint4 *>(to)[i] = make_uint4(__float_as_uint(x[4 * i]), __float_as_uint(x[4 * i + 1]),
                                                      __float_as_uint(x[4 * i + 2]), __float_as_uint(x[4 * i + 3]));
}

/* 16 weights a thread. */
template <class T> __global__ void __launch_bounds__(THREADS) dequantize_chunks(const fp8_dequantization p)
{
    const int64_t k = (static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x) * FP8_CHUNK;
    if (k >= p.b.k)
        return;
    const uint32_t block = static_cast<uint32_t>(k) / static_cast<uint32_t>(p.b.block_k);
    for (int64_t row = blockIdx.y; row < p.rows; row += gridDim.y) {
        const int64_t n = p.first + row;
        const uint4 codes = load_once(reinterpret_cast<const uint4 *>(p.b.codes + n * p.b.stride + k));
        const int exponent = p.exponents[n / p.b.block_n];
        const float scale = shift(scale_at(p.b, scale_row(p.b, static_cast<uint32_t>(n)) + block), -exponent);
        float x[FP8_CHUNK];
#pragma unroll
        for (int i = 0; i < FP8_CHUNK / 2; i++) {
            const float2 pair = widen_pair<f16>(f16_pair_of_e4m3(word(codes, i / 2) >> i % 2 * 16 & 0xffffu));
            x[2 * i] = pair.x * scale;
            x[2 * i + 1] = pair.y * scale;
        }
        store_chunk<T>(static_cast<T *>(p.out) + row * p.b.k + k, x);
    }
}

/* One weight a thread, for any depth, block and alignment. */
template <class T> __global__ void __launch_bounds__(THREADS) dequantize_each(const fp8_dequantization p)
{
    const int64_t k = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
    if (k >= p.b.k)
        return;
    const uint32_t block = static_cast<uint32_t>(k) / static_cast<uint32_t>(p.b.block_k);
    for (int64_t row = blockIdx.y; row < p.rows; row += gridDim.y) {
        const int64_t n = p.first + row;
        const int exponent = p.exponents[n / p.b.block_n];
        const float scale = shift(scale_at(p.b, scale_row(p.b, static_cast<uint32_t>(n)) + block), -exponent);
        const float x = f32_of_e4m3(p.b.codes[n * p.b.stride + k]);
        static_cast<T *>(p.out)[row * p.b.k + k] = narrow<T>(x * scale);
    }
}

template <class T> __global__ void __launch_bounds__(THREADS) finish(const fp8_result p)
{
    const int64_t column = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x, n = p.first + column;
    if (column >= p.n)
        return;
    const int exponent = p.sums ? p.exponents[n / p.block_n] : 0, half = exponent / 2;
    const float first = power_of_two(half), second = power_of_two(exponent - half), bias = bias_at<T>(p.bias, n);
    for (int64_t m = blockIdx.y; m < p.m; m += gridDim.y) {
        const float sum = p.sums ? p.sums[m * p.n + column] : 0.f;
        const float unit = p.a_scale && p.sums ? p.a_scale[m] : 1.f;
        output_row<T>(p.out, p.out_stride, m)[n] = narrow<T>(sum * first * unit * second + bias);
    }
}

dim3 grid_of(int64_t columns, int64_t rows)
{
    return dim3(static_cast<unsigned>((columns - 1) / THREADS + 1),
                rows < MOST_GRID_Y ? static_cast<unsigned>(rows) : MOST_GRID_Y);
}

/* The kernel of a dtype. */
template <class P>
cudaError_t launch_for(tdm_dtype dtype, void (*f32_kernel)(P), void (*f16_kernel)(P), void (*bf16_kernel)(P), dim3 grid,
                       cudaStream_t stream, const P *p)
{
    void (*const kernel)(P) = dtype == TDM_F32 ? f32_kernel : dtype == TDM_F16 ? f16_kernel : bf16_kernel;
    return launch(kernel, grid, dim3(THREADS), 0, stream, *p);
}

} // namespace

cudaError_t fp8_exponents(const struct fp8_dequantization *p, cudaStream_t stream)
{
    const int64_t rows = (p->b.n - 1) / p->b.block_n + 1;
    return launch(find_exponents, grid_of(rows * WARP, 1), dim3(THREADS), 0, stream, *p);
}

cudaError_t fp8_dequantize(const struct fp8_dequantization *p, cudaStream_t stream)
{
    if (p->vectors)
        return launch_for(p->dtype, dequantize_chunks<float>, dequantize_chunks<f16>, dequantize_chunks<bf16>,
                          grid_of(p->b.k / FP8_CHUNK, p->rows), stream, p);
    return launch_for(p->dtype, dequantize_each<float>, dequantize_each<f16>, dequantize_each<bf16>,
                      grid_of(p->b.k, p->rows), stream, p);
}

cudaError_t fp8_finish(const struct fp8_result *p, cudaStream_t stream)
{
    return launch_for(p->dtype, finish<float>, finish<f16>, finish<bf16>, grid_of(p->n, p->m), stream, p);
}
