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

void rotary(float *x, int64_t rows, int64_t heads, int64_t head_dim, const float *cosine, const float *sine,
            bool interleaved)
{
    const int64_t pairs = head_dim / 2;
    const int64_t step = interleaved ? 2 : 1, partner = interleaved ? 1 : pairs;
    for (int64_t row = 0; row < rows; row++, cosine += pairs, sine += pairs) {
        for (int64_t head = 0; head < heads; head++, x += head_dim) {
            for (int64_t i = 0; i < pairs; i++) {
                float *a = &x[i * step], *b = a + partner;
                float turned = *a * cosine[i] - *b * sine[i];
                *b = *a * sine[i] + *b * cosine[i];
                *a = turned;
            }
        }
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
