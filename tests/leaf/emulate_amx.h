/* The instructions of cpu/leaves/tiles.h in C, as Intel's manual (SDM volume 2, AMX) defines them. What the processor
 * would refuse ends the program. */
#ifndef EMULATE_AMX_H
#define EMULATE_AMX_H

#include "common/convert.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

struct emulated_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t line[16];
    uint8_t rows[16];
};

struct emulated_tile {
    unsigned char byte[16][64];
};

static _Thread_local struct emulated_config tile_config_now;
static _Thread_local struct emulated_tile tile_now[8];

#define TILES_CONFIGURE(config) tiles_configured(config, sizeof *(config))
#define TILES_RELEASE() tiles_released()
#define TILE_ZERO(t) tile_zeroed(t)
#define TILE_LOAD(t, from) tile_loaded(t, from, 64)
#define TILE_STORE(t, to) tile_stored(t, to, 64)
#define TILE_DOT_I8(c, a, b) tile_dot_i8(c, a, b)
#define TILE_DOT_BF16(c, a, b) tile_dot_bf16(c, a, b)

static inline void tile_wants(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "tile instruction: %s\n", what);
    abort();
}

static inline void tiles_released(void)
{
    memset(&tile_config_now, 0, sizeof tile_config_now);
    memset(tile_now, 0, sizeof tile_now);
}

static inline void tiles_configured(const void *from, size_t size)
{
    struct emulated_config config;
    tile_wants(size == 64 && sizeof config == 64, "the configuration has 64 bytes");
    memcpy(&config, from, sizeof config);
    tiles_released();
    tile_wants(config.palette == 1, "palette 1 is the one there is");
    for (int i = 0; i < 14; i++)
        tile_wants(!config.reserved[i], "reserved bytes are 0");
    for (int i = 0; i < 16; i++)
        tile_wants(i < 8 ? config.line[i] <= 64 && config.rows[i] <= 16 && !config.line[i] == !config.rows[i]
                         : !config.line[i] && !config.rows[i],
                   "eight tiles of at most 16 rows of 64 bytes");
    tile_config_now = config;
}

static inline int tile_rows(int t)
{
    tile_wants(tile_config_now.palette == 1 && tile_config_now.rows[t] > 0, "not configured");
    return tile_config_now.rows[t];
}

static inline void tile_zeroed(int t)
{
    tile_rows(t);
    memset(&tile_now[t], 0, sizeof tile_now[t]);
}

static inline void tile_loaded(int t, const void *from, int64_t stride)
{
    int rows = tile_rows(t);
    tile_zeroed(t);
    for (int i = 0; i < rows; i++)
        memcpy(tile_now[t].byte[i], (const char *)from + i * stride, tile_config_now.line[t]);
}

static inline void tile_stored(int t, void *to, int64_t stride)
{
    for (int i = 0; i < tile_rows(t); i++)
        memcpy((char *)to + i * stride, tile_now[t].byte[i], tile_config_now.line[t]);
}

/* The shapes of C += A B: returns the 32-bit columns of A. */
static inline int tile_depth(int c, int a, int b)
{
    tile_wants(c != a && c != b && a != b, "three different tiles");
    tile_wants(tile_rows(c) == tile_rows(a), "C and A have the same rows");
    tile_wants(tile_config_now.line[a] == 4 * tile_rows(b), "A is as wide as B is high");
    tile_wants(tile_config_now.line[c] == tile_config_now.line[b], "C and B have the same columns");
    return tile_rows(b);
}

static inline int32_t tile_quad(const unsigned char *a, const unsigned char *b)
{
    int32_t sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (int8_t)a[i] * (int8_t)b[i];
    return sum;
}

static inline void tile_dot_i8(int c, int a, int b)
{
    int depth = tile_depth(c, a, b), columns = tile_config_now.line[c] / 4;
    for (int m = 0; m < tile_rows(c); m++)
        for (int n = 0; n < columns; n++) {
            unsigned char *at = tile_now[c].byte[m] + 4 * n;
            uint32_t sum;
            memcpy(&sum, at, sizeof sum);
            for (int k = 0; k < depth; k++)
                sum += (uint32_t)tile_quad(tile_now[a].byte[m] + 4 * k, tile_now[b].byte[k] + 4 * n);
            memcpy(at, &sum, sizeof sum);
        }
}

/* Denormals are zeros, going in and coming out. */
static inline float tile_flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

static inline void tile_widened(int t, float (*out)[32])
{
    uint16_t half[32];
    for (int i = 0; i < 16; i++) {
        memcpy(half, tile_now[t].byte[i], sizeof half);
        for (int j = 0; j < 32; j++)
            out[i][j] = tile_flushed(f32_of_bf16(half[j]));
    }
}

/* a * b + c, rounded once; a product of two bf16 is nearly always an f32 itself, and the sum then the only rounding. */
static inline float tile_fma(float a, float b, float c)
{
    double exact = (double)a * b;
    float product = (float)exact;
    return tile_flushed((double)product == exact ? product + c : fmaf(a, b, c));
}

/* Products of even and of odd elements are added up apart, each step a fused multiply-add rounded to nearest even; then
 * the two sums, and what C held. */
static inline void tile_dot_bf16(int c, int a, int b)
{
    int depth = tile_depth(c, a, b), columns = tile_config_now.line[c] / 4;
    float left[16][32], right[16][32];
    tile_widened(a, left);
    tile_widened(b, right);
    for (int m = 0; m < tile_rows(c); m++)
        for (int n = 0; n < columns; n++) {
            float even = 0, odd = 0, sum;
            for (int k = 0; k < depth; k++) {
                even = tile_fma(left[m][2 * k], right[k][2 * n], even);
                odd = tile_fma(left[m][2 * k + 1], right[k][2 * n + 1], odd);
            }
            unsigned char *at = tile_now[c].byte[m] + 4 * n;
            memcpy(&sum, at, sizeof sum);
            sum = tile_flushed(tile_flushed(sum) + tile_flushed(even + odd));
            memcpy(at, &sum, sizeof sum);
        }
}

#endif
