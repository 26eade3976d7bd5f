#include "prepare.h"

#include "formats.h"

#include <math.h>

/* One rounding. A product, sum or difference of two f32 rounded through double is the f32 one (Figueroa, 1995). */
static float f32(double x)
{
    return (float)x;
}

void prepare_norm(const tdm_norm *norm, const void *weight, float *x, int64_t n)
{
    double sum = 0;
    for (int64_t c = 0; c < n; c++)
        sum += (double)x[c] * x[c];
    double r = f32(1 / sqrt(sum / (double)n + (double)norm->epsilon));
    for (int64_t c = 0; c < n; c++)
        x[c] = f32(f32(x[c] * r) * format_decode(norm->dtype, weight, c));
}

void prepare_rotary(const tdm_rotary *rotary, const void *cos, const void *sin, int64_t position, float *x)
{
    int64_t pairs = rotary->dim / 2;
    for (int64_t i = 0; i < pairs; i++) {
        int64_t a, b;
        rotary_pair(rotary, i, &a, &b);
        double cosine = format_decode(rotary->dtype, cos, position * pairs + i), u = x[a], v = x[b];
        double sine = format_decode(rotary->dtype, sin, position * pairs + i);
        x[a] = f32((double)f32(u * cosine) - f32(v * sine));
        x[b] = f32((double)f32(v * cosine) + f32(u * sine));
    }
}

void prepare_offset(const float *offset, float *x, int64_t n)
{
    for (int64_t c = 0; c < n; c++)
        x[c] = f32((double)x[c] - offset[c]);
}

void prepare_rotation(float *x, int64_t n)
{
    int64_t block = rotation_block(n);
    if (block == 1)
        return;
    for (int64_t h = 1; h < block; h *= 2)
        for (int64_t i = 0; i < n; i++)
            if (!(i & h)) { /* a block starts at a multiple of 2 h, so that i & h tells the halves apart */
                double u = x[i], v = x[i + h];
                x[i] = f32(u + v);
                x[i + h] = f32(u - v);
            }
    double factor = f32(1 / sqrt((double)block));
    for (int64_t c = 0; c < n; c++)
        x[c] = f32(x[c] * factor);
}
