#include "bounds.h"
#include "formats.h"
#include "reference.h"
#include "tensor.h"

#include <math.h>
#include <stdlib.h>

/* The scale that a row of activations gets from its largest magnitude. */
static float dynamic_scale(const double *a, int64_t depth)
{
    double largest = 0;
    for (int64_t k = 0; k < depth; k++)
        if (!isfinite(a[k]))
            return NAN;
        else
            largest = fmax(largest, fabs(a[k]));
    float scale = (float)(largest / 448);
    return isfinite(1 / scale) ? scale : 0;
}

/* Activations as the product sees them. The quotient is rounded to f32, so that its code is determined. */
static void round_row(double *a, int64_t depth, float scale)
{
    for (int64_t k = 0; k < depth; k++)
        a[k] = scale == 0 ? 0 : format_round(TDM_F8E4M3, (float)(a[k] / scale)) * scale;
}

/* What rows that multiply weights in the activations' type add to the error (docs/numerics.md): relative to a weight,
 * and relative to the largest scale of its row. All 0: weights are not rounded. */
struct widening {
    double relative, absolute, underflow;
};

static struct widening widening_to(tdm_dtype dtype)
{
    return dtype == TDM_F16    ? (struct widening){0x1p-11, 0x1p-31, 2}
           : dtype == TDM_BF16 ? (struct widening){0x1p-8, 0, 2}
                               : (struct widening){0, 0, 2};
}

/* Section "fp8_matmul" of docs/numerics.md for one element of the output. */
static void element(const double *a, const double *b, const double *scale, int64_t depth, double bias, double roundings,
                    struct widening widening, double *value, double *bound)
{
    double sum = bias, magnitude = 0, underflow = 1, size = 0, largest = 0, gamma = gamma_of(roundings);
    for (int64_t k = 0; k < depth; k++) {
        double weight = b[k] * scale[k];
        sum += a[k] * weight;
        magnitude += fabs(a[k] * weight);
        size += fabs(a[k]);
        underflow += 1 + fabs(a[k]) + fabs(scale[k]);
        if (isfinite(scale[k]))
            largest = fmax(largest, fabs(scale[k]));
    }
    *value = sum;
    *bound = gamma * (magnitude + fabs(bias)) + UNDERFLOW * (underflow + widening.underflow * (double)depth * largest) +
             (1 + gamma) * (widening.relative * magnitude + widening.absolute * size * largest);
}

static struct expected product(const tdm_fp8_matmul_desc *desc, const tdm_fp8_matmul_args *args,
                               double roundings_of_column, struct widening widening)
{
    int64_t n = desc->b.dim[0], depth = desc->b.dim[1], columns = (depth + desc->b.block[1] - 1) / desc->b.block[1];
    double roundings = roundings_of_column * (double)depth + (double)columns + FP8_ROUNDINGS;
    tdm_dtype scale_dtype = desc->b.scale_dtype ? desc->b.scale_dtype : TDM_F32;
    struct expected expected = expected_new(desc->out.dim[0] * n);
    double *a = malloc((size_t)(depth + 1) * sizeof *a);
    double *scale = malloc((size_t)(n * depth + 1) * sizeof *scale);
    double *b = tensor_read(&desc->b, args->b);
    for (int64_t i = 0; i < n * depth; i++)
        scale[i] = format_decode(scale_dtype, args->b_scale,
                                 i / depth / desc->b.block[0] * columns + i % depth / desc->b.block[1]);
    for (int64_t m = 0; m < args->m; m++) {
        for (int64_t k = 0; k < depth; k++)
            a[k] = format_decode(desc->a.dtype, tensor_row(&desc->a, args->a, 0, 0, m), k);
        if (desc->has_a_scale || desc->dynamic_a_scale)
            round_row(a, depth, desc->has_a_scale ? *args->a_scale : dynamic_scale(a, depth));
        for (int64_t j = 0; j < n; j++) {
            double bias = args->bias ? format_decode(desc->a.dtype, args->bias, j) : 0;
            element(a, b + j * depth, scale + j * depth, depth, bias, roundings, widening, &expected.value[m * n + j],
                    &expected.bound[m * n + j]);
        }
    }
    free(a);
    free(scale);
    free(b);
    return expected;
}

struct expected reference_fp8_matmul(const tdm_fp8_matmul_desc *desc, const tdm_fp8_matmul_args *args)
{
    return product(desc, args, 1, (struct widening){0, 0, 0});
}

struct expected reference_fp8_matmul_widened(const tdm_fp8_matmul_desc *desc, const tdm_fp8_matmul_args *args)
{
    return product(desc, args, FP8_MATRIX_UNIT, widening_to(desc->a.dtype));
}
