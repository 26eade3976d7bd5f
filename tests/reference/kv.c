#include "formats.h"
#include "reference.h"
#include "tensor.h"

#include <math.h>

/* Every step of storing a row is one correctly rounded f32 operation, so that the bytes are determined. The
 * quotient of two f32 rounded through double is the f32 quotient (Figueroa, 1995); a product is exact. */
static float f32(double x)
{
    return (float)x;
}

static double quotient(tdm_dtype dtype, double x, float scale)
{
    if (dtype == TDM_I8)
        return f32(x * f32(1.0 / scale));
    return f32(x / scale);
}

static float dynamic_scale(const tdm_tensor *x, const void *row, tdm_dtype dtype)
{
    double largest = 0;
    for (int64_t c = 0; c < tensor_dim(x, 0); c++) {
        double value = format_decode(x->dtype, row, c);
        if (!isfinite(value))
            return NAN;
        largest = fmax(largest, fabs(value));
    }
    float scale = f32(largest / (dtype == TDM_I8 ? 127 : 7));
    return isinf(f32(1.0 / scale)) ? 0 : scale; /* too small to divide by: the row reads as 0 */
}

/* Store row [b, h, r] of x as row [b, h, at] of y. */
static void store_row(const tdm_tensor *x, const void *x_data, int64_t b, int64_t h, int64_t r, const tdm_tensor *y,
                      void *y_data, float *scale, int64_t at)
{
    const void *from = tensor_row(x, x_data, b, h, r);
    void *to = tensor_row(y, y_data, b, h, at);
    int64_t channels = tensor_dim(x, 0);
    if (y->scaling == TDM_PER_TOKEN)
        scale[(b * tensor_dim(y, 2) + h) * tensor_dim(y, 1) + at] = dynamic_scale(x, from, y->dtype);
    for (int64_t c = 0; c < channels; c++) {
        float factor = (float)tensor_scale(y, scale, b, h, at, c);
        double value = format_decode(x->dtype, from, c);
        if (is_quantized(y->dtype))
            value = factor == 0 ? 0 : quotient(y->dtype, value, factor);
        format_encode(y->dtype, to, c, value);
    }
    if (y->dtype == TDM_I4 && channels % 2)
        format_encode(TDM_I4, to, channels, 0);
}

static void append(const tdm_tensor *x, const void *x_data, const tdm_tensor *cache, void *data, float *scale,
                   const tdm_kv_append_args *args)
{
    for (int64_t b = 0; b < x->dim[0]; b++)
        for (int64_t h = 0; h < x->dim[1]; h++)
            for (int64_t i = 0; i < args->new_len[b]; i++)
                store_row(x, x_data, b, h, i, cache, data, scale, args->pos[b] + i);
}

void reference_kv_append(const tdm_kv_append_desc *desc, const tdm_kv_append_args *args)
{
    append(&desc->k, args->k, &desc->cache.k, args->cache.k, args->cache.k_scale, args);
    append(&desc->v, args->v, &desc->cache.v, args->cache.v, args->cache.v_scale, args);
}

void reference_quantize(const tdm_convert_desc *desc, const tdm_convert_args *args)
{
    if (tensor_elements(&desc->src) == 0)
        return; /* rows without channels have no scale either */
    for (int64_t b = 0; b < tensor_dim(&desc->src, 3); b++)
        for (int64_t h = 0; h < tensor_dim(&desc->src, 2); h++)
            for (int64_t r = 0; r < tensor_dim(&desc->src, 1); r++)
                store_row(&desc->src, args->src, b, h, r, &desc->dst, args->dst, args->scale, r);
}

void reference_dequantize(const tdm_convert_desc *desc, const tdm_convert_args *args)
{
    for (int64_t b = 0; b < tensor_dim(&desc->src, 3); b++)
        for (int64_t h = 0; h < tensor_dim(&desc->src, 2); h++)
            for (int64_t r = 0; r < tensor_dim(&desc->src, 1); r++)
                for (int64_t c = 0; c < tensor_dim(&desc->src, 0); c++) {
                    double value = format_decode(desc->src.dtype, tensor_row(&desc->src, args->src, b, h, r), c);
                    double scale = tensor_scale(&desc->src, args->scale, b, h, r, c);
                    format_encode(desc->dst.dtype, tensor_row(&desc->dst, args->dst, b, h, r), c, f32(scale * value));
                }
}
