/* The steps of docs/numerics.md, section "Queries": exact values, and bounds on the errors of f32 steps. */
#include "bounds.h"
#include "formats.h"
#include "prepare.h"

#include <math.h>

enum { NORM_ROUNDINGS = 4, ROTARY_ROUNDINGS = 2 };

void uncertain_norm(const tdm_norm *norm, const void *weight, struct uncertain x, int64_t n)
{
    double sum = 0;
    for (int64_t c = 0; c < n; c++)
        sum += x.value[c] * x.value[c];
    double r = 1 / sqrt(sum / (double)n + (double)norm->epsilon);
    for (int64_t c = 0; c < n; c++) { /* the row as it was given: without an error of its own */
        double w = format_decode(norm->dtype, weight, c);
        x.value[c] *= r * w;
        x.error[c] = gamma_of(NORM_ROUNDINGS) * fabs(x.value[c]) + UNDERFLOW * (1 + fabs(w));
    }
}

void uncertain_rotary(const tdm_rotary *rotary, const void *cos, const void *sin, int64_t position, struct uncertain x)
{
    int64_t pairs = rotary->dim / 2;
    for (int64_t i = 0; i < pairs; i++) {
        int64_t a, b;
        rotary_pair(rotary, i, &a, &b);
        double cosine = format_decode(rotary->dtype, cos, position * pairs + i), u = x.value[a], v = x.value[b];
        double sine = format_decode(rotary->dtype, sin, position * pairs + i), du = x.error[a], dv = x.error[b];
        double c = fabs(cosine), s = fabs(sine), rounding = gamma_of(ROTARY_ROUNDINGS);
        x.value[a] = u * cosine - v * sine;
        x.value[b] = v * cosine + u * sine;
        x.error[a] = du * c + dv * s + rounding * ((fabs(u) + du) * c + (fabs(v) + dv) * s) + 2 * UNDERFLOW;
        x.error[b] = dv * c + du * s + rounding * ((fabs(v) + dv) * c + (fabs(u) + du) * s) + 2 * UNDERFLOW;
    }
}

/* Rotate the block x of n channels; its errors meet a sum of n terms each, after log2 n additions and 2 more
 * roundings, of the factor and of the product by it. */
static void rotate_block(struct uncertain x, int64_t n)
{
    double factor = 1 / sqrt((double)n), error = 0, magnitude = 0;
    for (int64_t i = 0; i < n; i++) {
        error += x.error[i];
        magnitude += fabs(x.value[i]) + x.error[i];
    }
    for (int64_t h = 1; h < n; h *= 2)
        for (int64_t i = 0; i < n; i++)
            if (!(i & h)) {
                double u = x.value[i], v = x.value[i + h];
                x.value[i] = u + v;
                x.value[i + h] = u - v;
            }
    for (int64_t i = 0; i < n; i++) {
        x.value[i] *= factor;
        x.error[i] = factor * (error + gamma_of(log2((double)n) + 2) * magnitude) + UNDERFLOW;
    }
}

void uncertain_rotation(struct uncertain x, int64_t n)
{
    int64_t block = rotation_block(n);
    for (int64_t first = 0; block > 1 && first < n; first += block)
        rotate_block((struct uncertain){x.value + first, x.error + first}, block);
}
