#include "layers.h"

#include <math.h>

void rms_norm(const float *x, const float *weight, int64_t rows, int64_t width, double eps, float *out)
{
    for (int64_t row = 0; row < rows; row++, x += width, out += width) {
        double squares = 0;
        for (int64_t i = 0; i < width; i++) {
            squares += (double)x[i] * x[i];
        }
        float factor = (float)(1 / sqrt(squares / (double)width + eps));
        for (int64_t i = 0; i < width; i++) {
            out[i] = x[i] * factor * weight[i];
        }
    }
}

void rotary_table(int64_t positions, int64_t head_dim, double theta, float *cosine, float *sine)
{
    const int64_t pairs = head_dim / 2;
    for (int64_t position = 0; position < positions; position++) {
        for (int64_t i = 0; i < pairs; i++) {
            double angle = (double)position * pow(theta, -2.0 * (double)i / (double)head_dim);
            cosine[position * pairs + i] = (float)cos(angle);
            sine[position * pairs + i] = (float)sin(angle);
        }
    }
}

void walsh_hadamard(float *x, int64_t count)
{
    const int64_t block = count & -count; /* the largest power of two that divides it */
    for (int64_t step = 1; step < block; step *= 2) {
        for (int64_t i = 0; i < count; i++) {
            if ((i & step) == 0) {
                float a = x[i], b = x[i + step];
                x[i] = a + b;
                x[i + step] = a - b;
            }
        }
    }
    for (int64_t i = 0; i < count; i++) {
        x[i] /= sqrtf((float)block);
    }
}

void swiglu(float *gate, const float *up, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        gate[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
    }
}

void add(float *x, const float *y, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        x[i] += y[i];
    }
}
