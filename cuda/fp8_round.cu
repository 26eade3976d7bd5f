/* W8A8: activations rounded to e4m3, one block a row. The codes are written as numbers of the activations' own type, which
 * holds each of them exactly, and the scale of each row beside them. */
#include "fp8_math.cuh"

namespace
{

constexpr int THREADS = 512;
constexpr float LARGEST_CODE = 448;

/* By all threads of the block; NaN where one of the row is not finite. */
template <class T> __device__ __forceinline__ float largest_magnitude(const T *row, int64_t k)
{
    float *of_warp = shared_memory<float>();
    const int lane = static_cast<int>(threadIdx.x) % WARP, warp = static_cast<int>(threadIdx.x) / WARP;
    float largest = 0;
    for (int64_t i = threadIdx.x; i < k; i += THREADS) {
        const float x = fabsf(widen(row[i]));
        largest = x < INFINITY ? fmaxf(largest, x) : INFINITY; /* also for a NaN */
    }
#pragma unroll
    for (int step = WARP / 2; step; step /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, step));
    if (lane == 0)
        of_warp[warp] = largest;
    __syncthreads();
    for (int i = 0; i < THREADS / WARP; i++)
        largest = fmaxf(largest, of_warp[i]);
    return largest < INFINITY ? largest : NAN;
}

/* The dynamic scale of tdm_scaling. */
__device__ __forceinline__ float scale_of_largest(float largest)
{
    const float scale = __fdiv_rn(largest, LARGEST_CODE);
    return fabsf(__fdiv_rn(1.f, scale)) == INFINITY ? 0.f : scale;
}

template <class T> __global__ void __launch_bounds__(THREADS) round_rows(const fp8_rounding p)
{
    const int64_t row = blockIdx.x;
    const T *from = static_cast<const T *>(move_bytes(p.a, row * p.a_stride));
    T *to = static_cast<T *>(p.codes) + row * p.k;
    const float scale = p.a_scale ? *p.a_scale : scale_of_largest(largest_magnitude(from, p.k));
    if (threadIdx.x == 0)
        p.scales[row] = scale;
    for (int64_t i = threadIdx.x; i < p.k; i += THREADS)
        to[i] = narrow<T>(f32_of_e4m3(rounded_code(widen(from[i]), scale)));
}

} // namespace

cudaError_t fp8_round(const struct fp8_rounding *p, cudaStream_t stream)
{
    void (*const kernel)(fp8_rounding) = p->dtype == TDM_F32   ? round_rows<float>
                                         : p->dtype == TDM_F16 ? round_rows<f16>
                                                               : round_rows<bf16>;
    return launch(kernel, dim3(static_cast<unsigned>(p->m)), dim3(THREADS), THREADS / WARP * sizeof(float), stream, *p);
}
