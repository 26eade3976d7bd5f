/* Keys and values on their way to shared memory: widened to f32 and times their dynamic scales, 32 channels of a block
 * of keys at a time, whatever their type. */
#ifndef CUDA_GQA_STAGE_CUH
#define CUDA_GQA_STAGE_CUH

#include "gqa.h"
#include "stored.cuh"

constexpr int KEYS = KEY_BLOCK, WARPS = 4, THREADS = WARPS * WARP;
constexpr int CHUNK = 32;         /* channels in shared memory at a time                                        */
constexpr int STRIDE = CHUNK + 1; /* floats between keys there: 32 keys of one channel lie in different banks, and so
                                   * do the pieces of 16 bytes that a warp brings, whatever their type             */

/* ---- 16 bytes at a time ------------------------------------------------------------- */

/* Numbers in 4 bytes. */
template <tdm_dtype T>
constexpr int numbers_of_word = T == TDM_F32                    ? 1
                                : T == TDM_F16 || T == TDM_BF16 ? 2
                                : T == TDM_I4                   ? 8
                                                                : 4;

template <tdm_dtype T> __device__ __forceinline__ void widen_word(uint32_t word, float *x)
{
    if constexpr (T == TDM_F32) {
        x[0] = __uint_as_float(word);
    } else if constexpr (T == TDM_F16 || T == TDM_BF16) {
        float2 pair;
        if constexpr (T == TDM_F16)
            pair = widen_pair<f16>(word);
        else
            pair = widen_pair<bf16>(word);
        x[0] = pair.x;
        x[1] = pair.y;
    } else if constexpr (T == TDM_F8E4M3) {
        widen_word<TDM_F16>(f16_pair_of_e4m3(word & 0xffffu), x);
        widen_word<TDM_F16>(f16_pair_of_e4m3(word >> 16), x + 2);
    } else if constexpr (T == TDM_I8) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            x[i] = static_cast<float>(static_cast<int8_t>(word >> 8 * i & 0xffu));
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            x[i] = static_cast<float>(static_cast<int>(word >> 4 * i & 15u) - 8);
    }
}

/* Groups have a multiple of 16 channels. */
template <int N>
__device__ __forceinline__ void scale_piece(const head_rows &from, int64_t row, int channel, float (&x)[N])
{
    constexpr int SHARE = N < 16 ? N : 16;
#pragma unroll
    for (int first = 0; first < N; first += SHARE) {
        const float scale = *dynamic_scale_at(from, row, channel + first);
#pragma unroll
        for (int i = 0; i < SHARE; i++)
            x[first + i] *= scale;
    }
}

template <tdm_dtype T>
__device__ __forceinline__ void stage_pieces(const head_rows &from, int first, int n, int channel, float *to)
{
    constexpr int WORD = numbers_of_word<T>, PIECE = 4 * WORD, PIECES = CHUNK / PIECE;
    const int piece = static_cast<int>(threadIdx.x) % PIECES, c = channel + piece * PIECE;
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        const int j = static_cast<int>(threadIdx.x) / PIECES + i * (THREADS / PIECES);
        float x[PIECE] = {};
        if (j < n) {
            const int64_t row = row_of(from, first + j);
            const uint4 raw = *reinterpret_cast<const uint4 *>(row_at(from, row) + c / WORD * 4);
            widen_word<T>(raw.x, x);
            widen_word<T>(raw.y, x + WORD);
            widen_word<T>(raw.z, x + 2 * WORD);
            widen_word<T>(raw.w, x + 3 * WORD);
            if (is_dynamic(from))
                scale_piece(from, row, c, x);
        }
#pragma unroll
        for (int e = 0; e < PIECE; e++)
            to[j * STRIDE + piece * PIECE + e] = x[e];
    }
}

/* ---- one at a time: rows that are not aligned, and the last channels ------------------------ */

template <tdm_dtype T>
__device__ __forceinline__ void stage_numbers(const head_rows &from, int first, int n, int channel, float *to)
{
    const int c = channel + lane_index();
#pragma unroll 4
    for (int j = static_cast<int>(threadIdx.x / WARP); j < KEYS; j += WARPS) {
        float x = 0;
        if (j < n && c < from.channels) {
            const int64_t row = row_of(from, first + j);
            x = number_as<T>(row_at(from, row), c);
            if (is_dynamic(from))
                x *= *dynamic_scale_at(from, row, c);
        }
        to[j * STRIDE + lane_index()] = x;
    }
}

template <tdm_dtype T>
__device__ __forceinline__ void stage_as(const head_rows &from, int first, int n, int channel, float *to)
{
    const bool aligned = (reinterpret_cast<uintptr_t>(from.data) | static_cast<uintptr_t>(from.stride)) % 16 == 0;
    if (aligned && channel + CHUNK <= from.channels)
        stage_pieces<T>(from, first, n, channel, to);
    else
        stage_numbers<T>(from, first, n, channel, to);
}

/* Channels [channel, channel + CHUNK) of the keys [first, first + n); zeros where there is nothing. */
__device__ __forceinline__ void stage(const head_rows &from, int first, int n, int channel, float *to)
{
    switch (from.dtype) {
    case TDM_F32:
        return stage_as<TDM_F32>(from, first, n, channel, to);
    case TDM_F16:
        return stage_as<TDM_F16>(from, first, n, channel, to);
    case TDM_BF16:
        return stage_as<TDM_BF16>(from, first, n, channel, to);
    case TDM_F8E4M3:
        return stage_as<TDM_F8E4M3>(from, first, n, channel, to);
    case TDM_I8:
        return stage_as<TDM_I8>(from, first, n, channel, to);
    default:
        return stage_as<TDM_I4>(from, first, n, channel, to);
    }
}

#endif
