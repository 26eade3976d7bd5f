/* What the groups of fp8_check share, and those of fp8_values.cpp. */
#ifndef TESTS_CUDA_FP8_GROUPS_H
#define TESTS_CUDA_FP8_GROUPS_H

#include "fp8_case.h"

extern "C" {
#include "tests/reference/formats.h"
}

constexpr way ways[] = {way::MMA, way::WARP, way::WARP_BYTES, way::WIDENED};
constexpr tdm_dtype halves[] = {TDM_F16, TDM_BF16}, floats[] = {TDM_F16, TDM_BF16, TDM_F32};
constexpr tdm_dtype scale_dtypes[] = {TDM_F32, TDM_BF16, TDM_E8M0};
constexpr rounding roundings[] = {rounding::NONE, rounding::GIVEN, rounding::OF_ROWS};

template <class T, size_t N> const T &pick(const T (&from)[N], int64_t i)
{
    return from[static_cast<size_t>(i) % N];
}

inline fp8_case case_of(way by, tdm_dtype dtype, int64_t m, int64_t n, int64_t k, int64_t block_n = 1,
                        int64_t block_k = 64)
{
    fp8_case c;
    c.by = by;
    c.dtype = dtype;
    c.m = m;
    c.n = n;
    c.k = k;
    c.block_n = block_n;
    c.block_k = block_k;
    return c;
}

/* A type that the way takes. */
inline tdm_dtype dtype_for(way by, int64_t i)
{
    return by == way::MMA ? pick(halves, i) : pick(floats, i);
}

/* Whether the case is one that the way takes. */
inline bool takes(const fp8_case &c)
{
    const int64_t step = c.by == way::MMA ? FP8_WINDOW : FP8_CHUNK;
    if (c.by == way::WIDENED)
        return true;
    return c.k > 0 && c.k % step == 0 && (c.block_k >= c.k || c.block_k % step == 0) &&
           (c.by != way::MMA || (c.k >= 256 && c.dtype != TDM_F32));
}

inline void fill_scales_with_one(fp8_problem &p)
{
    for (size_t i = 0; i < p.b_scale.size() / sizeof(float); i++)
        format_encode(TDM_F32, p.b_scale.data(), static_cast<int64_t>(i), 1);
}

inline double value_of(uint8_t code)
{
    return format_decode(TDM_F8E4M3, &code, 0);
}

void codes();
void odd_activations();
void scales();
void odd_scales();
void smallest_scale();
void given_scales();
void ties();
void scales_of_rows();

#endif
