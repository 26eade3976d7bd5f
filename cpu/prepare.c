/* Each step is a correctly rounded f32 operation in a stated order (docs/numerics.md), so that what is stored does not
 * depend on the instruction set. */
#include "prepare.h"

#include <math.h>

void row_norm(const struct leaf_table *leaf, const tdm_norm *norm, const void *weight, float *x, int n)
{
    if (!norm->dtype)
        return;
    float factor[MAX_HEAD_DIM];
    double squares = 0;
    leaf->widen[cpu_leaf_type(norm->dtype)]((struct leaf_rows){weight, 0, NULL}, factor, 0, 1, n);
    for (int i = 0; i < n; i++)
        squares += (double)x[i] * x[i];
    float inverse = (float)(1 / sqrt(squares / n + (double)norm->epsilon));
    for (int i = 0; i < n; i++)
        x[i] = x[i] * inverse * factor[i];
}

void row_turn(const struct leaf_table *leaf, const tdm_rotary *rotary, const void *cos, const void *sin,
              int64_t position, bool back, float *x)
{
    if (!rotary->dtype)
        return;
    float c[MAX_HEAD_DIM / 2], s[MAX_HEAD_DIM / 2], sign = back ? -1.0f : 1.0f;
    int half = rotary->dim / 2;
    enum leaf_type type = cpu_leaf_type(rotary->dtype);
    int64_t offset = position * half * (rotary->dtype == TDM_F32 ? 4 : 2);
    leaf->widen[type]((struct leaf_rows){at(cos, offset), 0, NULL}, c, 0, 1, half);
    leaf->widen[type]((struct leaf_rows){at(sin, offset), 0, NULL}, s, 0, 1, half);
    int step = rotary->interleaved ? 2 : 1, partner = rotary->interleaved ? 1 : half;
    for (int i = 0; i < half; i++) {
        float a = x[i * step], b = x[i * step + partner], sine = sign * s[i];
        x[i * step] = a * c[i] - b * sine;
        x[i * step + partner] = b * c[i] + a * sine;
    }
}

void row_offset(const float *offset, bool back, float *x, int n)
{
    for (int i = 0; i < n && offset; i++)
        x[i] = back ? x[i] + offset[i] : x[i] - offset[i];
}

void row_rotate(const struct leaf_table *leaf, float *x, int n)
{
    leaf->rotate(x, n, n & -n);
}
