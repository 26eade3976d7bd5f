/* Rows of a cache tensor from and to f32, by the rules of docs/numerics.md, section "Storing". A warp takes a row. */
#ifndef CUDA_STORED_CUH
#define CUDA_STORED_CUH

#include "stored.h"

#include <device.cuh>

constexpr int WARP = 32; /* lanes */

__device__ __forceinline__ int lane_index()
{
    return static_cast<int>(threadIdx.x % WARP);
}

/* ---- Where things lie --------------------------------------------------------------- */

/* The rows of one head. */
struct head_rows {
    char *data;
    int64_t stride;
    float *scale; /* of this head: one, one a channel, or those of each row */
    int channels, group, groups, sinks, turns;
    tdm_dtype dtype;
    tdm_scaling scaling;
};

__device__ __forceinline__ head_rows head_of(const stored &from, int64_t batch, int64_t head)
{
    head_rows rows = {static_cast<char *>(from.data) + batch * from.stride[0] + head * from.stride[1],
                      from.stride[2],
                      from.scale,
                      from.channels,
                      from.group,
                      from.groups,
                      from.sinks,
                      from.turns,
                      from.dtype,
                      from.scaling};
    const int64_t row = (batch * from.heads + head) * from.rows;
    if (rows.scaling == TDM_PER_CHANNEL)
        rows.scale += head * from.channels;
    else if (rows.scaling == TDM_PER_TOKEN)
        rows.scale += row;
    else if (rows.scaling == TDM_PER_GROUP)
        rows.scale += row * from.groups;
    return rows;
}

/* The row of a position of the sequence. */
__device__ __forceinline__ int64_t row_of(const head_rows &rows, int position)
{
    if (rows.turns == 0 || position < rows.sinks)
        return position;
    return rows.sinks + (position - rows.sinks) % rows.turns;
}

__device__ __forceinline__ char *row_at(const head_rows &rows, int64_t row)
{
    return rows.data + row * rows.stride;
}

/* Whether each row has scales of its own, written with it. */
__device__ __forceinline__ bool is_dynamic(const head_rows &rows)
{
    return rows.scaling == TDM_PER_TOKEN || rows.scaling == TDM_PER_GROUP;
}

__device__ __forceinline__ float *dynamic_scale_at(const head_rows &rows, int64_t row, int channel)
{
    return rows.scale + (rows.scaling == TDM_PER_TOKEN ? row : row * rows.groups + channel / rows.group);
}

__device__ __forceinline__ float scale_at(const head_rows &rows, int64_t row, int channel)
{
    if (is_dynamic(rows))
        return *dynamic_scale_at(rows, row, channel);
    return rows.scaling == TDM_UNSCALED ? 1.f : rows.scale[rows.scaling == TDM_PER_CHANNEL ? channel : 0];
}

/* ---- Reading ------------------------------------------------------------------------ */

template <tdm_dtype T> __device__ __forceinline__ float number_as(const void *row, int64_t i)
{
    if constexpr (T == TDM_F32)
        return static_cast<const float *>(row)[i];
    else if constexpr (T == TDM_F16)
        return widen(static_cast<const f16 *>(row)[i]);
    else if constexpr (T == TDM_BF16)
        return widen(static_cast<const bf16 *>(row)[i]);
    else if constexpr (T == TDM_F8E4M3)
        return f32_of_e4m3(static_cast<const uint8_t *>(row)[i]);
    else if constexpr (T == TDM_I8)
        return static_cast<float>(static_cast<const int8_t *>(row)[i]);
    else {
        const int pair = static_cast<const uint8_t *>(row)[i / 2];
        return static_cast<float>((i % 2 ? pair >> 4 : pair & 15) - 8);
    }
}

/* Element i of plain numbers. */
__device__ __forceinline__ float number_at(tdm_dtype dtype, const void *row, int64_t i)
{
    if (dtype == TDM_F32)
        return number_as<TDM_F32>(row, i);
    return dtype == TDM_F16 ? number_as<TDM_F16>(row, i) : number_as<TDM_BF16>(row, i);
}

/* ---- Writing ------------------------------------------------------------------------ */

/* Element i of a plain row. */
__device__ __forceinline__ void put_number(tdm_dtype dtype, void *row, int64_t i, float x)
{
    if (dtype == TDM_F32)
        static_cast<float *>(row)[i] = x;
    else if (dtype == TDM_F16)
        static_cast<f16 *>(row)[i] = narrow<f16>(x);
    else
        static_cast<bf16 *>(row)[i] = narrow<bf16>(x);
}

/* The scale of n numbers from their extreme, the first of the largest magnitude; NaN where they are not finite, 0 where
 * its reciprocal would overflow. As bits, magnitudes have the order of their values, with infinity and NaN on top. */
__device__ __forceinline__ float dynamic_scale(const float *x, int n, tdm_dtype dtype)
{
    unsigned top = 0;
    int place = 0;
    for (int c = lane_index(); c < n; c += WARP) {
        const unsigned magnitude = __float_as_uint(x[c]) & 0x7fffffffu;
        if (magnitude > top) {
            top = magnitude;
            place = c;
        }
    }
    for (int step = WARP / 2; step > 0; step /= 2) {
        const unsigned other = __shfl_xor_sync(0xffffffffu, top, step);
        const int other_place = __shfl_xor_sync(0xffffffffu, place, step);
        if (other > top || (other == top && other_place < place)) {
            top = other;
            place = other_place;
        }
    }
    if (top >= 0x7f800000u)
        return NAN;
    const float extreme = dtype == TDM_I4 ? x[place] : __uint_as_float(top);
    const float scale = __fdiv_rn(extreme, dtype == TDM_I4 ? -8.f : dtype == TDM_I8 ? 127.f : 448.f);
    return fabsf(scale) > 0x1p-128f ? scale : 0.f; /* 1 / 2^-128 is infinite, that of the next number is not */
}

/* The code of x: e4m3(x / scale), or the integer nearest to x * (1 / scale), 0 where that is no number. */
__device__ __forceinline__ int code_of(float x, float scale, tdm_dtype dtype)
{
    const bool f8 = dtype == TDM_F8E4M3;
    const float quotient = scale == 0 ? 0.f : __fdiv_rn(f8 ? x : 1.f, scale);
    if (f8)
        return e4m3_of_f32(quotient);
    const float value = __fmul_rn(x, quotient), most = dtype == TDM_I8 ? 127.f : 7.f;
    return value == value ? static_cast<int>(rintf(fminf(fmaxf(value, -most - 1), most))) : 0;
}

/* Byte i of a row of codes. */
__device__ __forceinline__ uint8_t byte_of(const float *x, const head_rows &to, int64_t row, int i)
{
    if (to.dtype != TDM_I4)
        return static_cast<uint8_t>(code_of(x[i], scale_at(to, row, i), to.dtype));
    int pair = 0x88; /* two zeros */
#pragma unroll 1
    for (int c = 2 * i; c < min(2 * i + 2, to.channels); c++)
        pair += code_of(x[c], scale_at(to, row, c), TDM_I4) * (c % 2 ? 16 : 1);
    return static_cast<uint8_t>(pair);
}

/* Store x, in shared memory, as row `row`, with its scales where they are its own. */
__device__ __forceinline__ void store_row(const float *x, const head_rows &to, int64_t row)
{
    const int step = to.scaling == TDM_PER_GROUP ? to.group : to.channels;
    for (int c = 0; c < to.channels && is_dynamic(to); c += step) {
        const float scale = dynamic_scale(x + c, min(step, to.channels - c), to.dtype);
        if (lane_index() == 0)
            *dynamic_scale_at(to, row, c) = scale;
    }
    __syncwarp();
    char *data = row_at(to, row);
    const bool plain = to.dtype == TDM_F32 || to.dtype == TDM_F16 || to.dtype == TDM_BF16;
    const int elements = to.dtype == TDM_I4 ? (to.channels + 1) / 2 : to.channels;
    for (int i = lane_index(); i < elements; i += WARP) {
        if (plain)
            put_number(to.dtype, data, i, x[i]);
        else
            data[i] = static_cast<char>(byte_of(x, to, row, i));
    }
}

#endif
