#include "error.h"

#include "tests/reference/compare.h"
#include "tests/reference/tensor.h"

#include <math.h>
#include <stdlib.h>

static double difference(const double *got, const double *exact, int64_t n)
{
    double largest = 0, magnitude = 0;
    for (int64_t i = 0; i < n; i++) {
        double distance = fabs(got[i] - exact[i]);
        largest = isnan(distance) ? INFINITY : fmax(largest, distance);
        magnitude = fmax(magnitude, fabs(exact[i]));
    }
    return magnitude > 0 ? largest / magnitude : largest;
}

double largest_error(const tdm_tensor *tensor, const void *data, const double *exact)
{
    double *got = tensor_read(tensor, data);
    double error = difference(got, exact, tensor_elements(tensor));
    free(got);
    return error;
}

/* What the stored values stand for, dense. */
static double *read_scaled(const tdm_tensor *tensor, const void *data, const float *scale)
{
    double *values = tensor_read(tensor, data), *next = values;
    for (int64_t b = 0; b < tensor->dim[0]; b++)
        for (int64_t h = 0; h < tensor->dim[1]; h++)
            for (int64_t r = 0; r < tensor->dim[2]; r++)
                for (int64_t c = 0; c < tensor->dim[3]; c++)
                    *next++ *= tensor_scale(tensor, scale, b, h, r, c);
    return values;
}

const char *check_stored(const tdm_tensor *tensor, const void *got, const float *got_scale, const void *want,
                         const float *want_scale, double *error)
{
    double *got_values = read_scaled(tensor, got, got_scale), *exact = read_scaled(tensor, want, want_scale);
    *error = difference(got_values, exact, tensor_elements(tensor));
    free(got_values);
    free(exact);
    size_t scale_bytes = (size_t)tensor_scales(tensor) * sizeof(float);
    const char *wrong = compare_bytes("scales", got_scale, want_scale, scale_bytes);
    return wrong ? wrong : compare_memory(tensor, got, want);
}
