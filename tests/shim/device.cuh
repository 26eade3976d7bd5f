/* The words of cuda/device.cuh for kernels that run on the CPU, one fiber a thread (block.h). */
#ifndef TESTS_SHIM_DEVICE_CUH
#define TESTS_SHIM_DEVICE_CUH

#include "queue.h"

#include "common/convert.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

/* Where a kernel calls: two trailing parameters of what can be misused. */
#define SHIM_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define SHIM_HERE (shim::site{file, line})

#define threadIdx (shim::thread_index)
#define blockIdx (shim::block_index)
#define blockDim (shim::block_size)
#define gridDim (shim::grid_size)

using std::max;
using std::min;

struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y)
{
    return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}
inline float2 make_float2(float x, float y)
{
    return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

/* ---- Launches and shared memory ------------------------------------------------- */

template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                   Arguments... arguments)
{
    using values = std::tuple<std::decay_t<Parameters>...>;
    static_assert(sizeof(values) <= shim::MOST_PARAMETERS, "more parameters than a kernel takes");
    const values given(static_cast<Parameters>(arguments)...);
    return shim::enqueue_kernel(stream, {grid, block, shared, [kernel, given] { std::apply(kernel, given); }});
}

template <class T> T *shared_memory()
{
    return reinterpret_cast<T *>(shim::shared_bytes);
}

/* ---- What threads do together ----------------------------------------------------- */

inline void __syncthreads(SHIM_SITE)
{
    shim::barrier(SHIM_HERE);
}

inline void __syncwarp(unsigned mask = 0xffffffffu, SHIM_SITE)
{
    shim::warp_words words = {};
    shim::collective(shim::warp_op::sync, mask, 0, words, SHIM_HERE);
}

namespace shim
{
template <class T> T shuffle(unsigned mask, T value, int from, site at)
{
    static_assert(sizeof(T) == 4, "shuffles move 32 bits");
    warp_words words = {};
    memcpy(words.in, &value, sizeof value);
    collective(warp_op::shuffle, mask, from, words, at);
    memcpy(&value, words.out, sizeof value);
    return value;
}
} // namespace shim

template <class T> T __shfl_sync(unsigned mask, T value, int from, SHIM_SITE)
{
    return shim::shuffle(mask, value, from % shim::WARP_SIZE, SHIM_HERE);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int bits, SHIM_SITE)
{
    return shim::shuffle(mask, value, static_cast<int>(shim::lane()) ^ bits, SHIM_HERE);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, int distance, SHIM_SITE)
{
    const int own = static_cast<int>(shim::lane()), from = own + distance;
    return shim::shuffle(mask, value, from < shim::WARP_SIZE ? from : own, SHIM_HERE);
}

/* ---- Arithmetic --------------------------------------------------------------------- */

inline float __fmul_rn(float a, float b)
{
    return a * b;
}
inline float __fadd_rn(float a, float b)
{
    return a + b;
}
inline float __fsub_rn(float a, float b)
{
    return a - b;
}
inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
inline float __fsqrt_rn(float a)
{
    return sqrtf(a);
}
inline unsigned __float_as_uint(float x)
{
    return bits_of_float(x);
}
inline float __uint_as_float(unsigned x)
{
    return float_of_bits(x);
}
/* With the highest of its four bits set, a byte's selector asks for copies of the sign. */
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector)
{
    const uint64_t both = static_cast<uint64_t>(high) << 32 | low;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned select = selector >> 4 * i & 0xf, byte = static_cast<unsigned>(both >> 8 * (select & 7) & 0xff);
        result |= (select & 8 ? byte / 0x80 * 0xff : byte) << 8 * i;
    }
    return result;
}

/* ---- Number formats ------------------------------------------------------------------- */

struct f16 {
    uint16_t bits;
};
struct bf16 {
    uint16_t bits;
};

inline float widen(float x)
{
    return x;
}
inline float widen(f16 x)
{
    return f32_of_f16(x.bits);
}
inline float widen(bf16 x)
{
    return f32_of_bf16(x.bits);
}

template <class T> T narrow(float x);
template <> inline float narrow<float>(float x)
{
    return x;
}
template <> inline f16 narrow<f16>(float x)
{
    return {f16_of_f32(x)};
}
template <> inline bf16 narrow<bf16>(float x)
{
    return {bf16_of_f32(x)};
}

template <class T> float2 widen_pair(uint32_t pair)
{
    return {widen(T{static_cast<uint16_t>(pair)}), widen(T{static_cast<uint16_t>(pair >> 16)})};
}
template <class T> uint32_t narrow_pair(float low, float high)
{
    return narrow<T>(low).bits | static_cast<uint32_t>(narrow<T>(high).bits) << 16;
}

template <class T> uint32_t pair_of_e4m3(uint32_t codes)
{
    return narrow_pair<T>(::f32_of_e4m3(static_cast<uint8_t>(codes)), ::f32_of_e4m3(static_cast<uint8_t>(codes >> 8)));
}
inline uint32_t f16_pair_of_e4m3(uint32_t codes)
{
    return pair_of_e4m3<f16>(codes);
}

/* ---- Instructions ------------------------------------------------------------------------ */

/* An access of the whole type at once needs its alignment. */
template <class T> void shim_check_aligned(const T *from, shim::site at)
{
    if (reinterpret_cast<uintptr_t>(from) % sizeof(T))
        shim::misuse(at, "reads %zu bytes at %p, want a multiple of %zu", sizeof(T), static_cast<const void *>(from),
                     sizeof(T));
}

template <class T> T __ldg(const T *from, SHIM_SITE)
{
    shim_check_aligned(from, SHIM_HERE);
    return *from;
}

inline uint4 load_once(const uint4 *from, SHIM_SITE)
{
    shim_check_aligned(from, SHIM_HERE);
    return *from;
}

template <class T> void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], SHIM_SITE)
{
    shim::warp_words words = {};
    memcpy(words.in, a, sizeof a);
    memcpy(words.in + 4, b, sizeof b);
    memcpy(words.in + 6, d, sizeof d);
    shim::collective(std::is_same_v<T, bf16> ? shim::warp_op::mma_bf16 : shim::warp_op::mma_f16, 0xffffffffu, 0, words,
                     SHIM_HERE);
    memcpy(d, words.out, sizeof d);
}

#endif
