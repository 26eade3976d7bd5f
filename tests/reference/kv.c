#include "formats.h"
#include "prepare.h"
#include "reference.h"
#include "tensor.h"
#include "visible.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Every step of storing a row is one correctly rounded f32 operation, so that the bytes are determined. The
 * quotient of two f32 rounded through double is the f32 quotient (Figueroa, 1995); a product is exact. */
static float f32(double x)
{
    return (float)x;
}

static double quotient(tdm_dtype dtype, double x, float scale)
{
    if (is_quantized(dtype))
        return f32(x * f32(1.0 / scale));
    return f32(x / scale);
}

static float dynamic_scale(const float *x, int64_t n, tdm_dtype dtype)
{
    double extreme = 0; /* the first of the largest magnitude */
    for (int64_t c = 0; c < n; c++) {
        if (!isfinite(x[c]))
            return NAN;
        if (fabs(x[c]) > fabs(extreme))
            extreme = x[c];
    }
    float scale = f32(dtype == TDM_I4 ? extreme / -8 : fabs(extreme) / (dtype == TDM_I8 ? 127 : 448));
    return isinf(f32(1.0 / scale)) ? 0 : scale; /* too small to divide by: the values read as 0 */
}

/* The scales of the row, one for each `width` channels. */
static void write_scales(const float *x, const tdm_tensor *y, float *scale, int64_t width)
{
    int64_t channels = tensor_dim(y, 0);
    for (int64_t g = 0; g < tensor_groups(y); g++) {
        int64_t first = g * width, n = channels - first < width ? channels - first : width;
        scale[g] = dynamic_scale(x + first, n, y->dtype);
    }
}

/* Store x as row [b, h, r] of y. */
static void store_row(const float *x, const tdm_tensor *y, void *y_data, float *scale, int64_t b, int64_t h, int64_t r)
{
    void *to = tensor_row(y, y_data, b, h, r);
    int64_t channels = tensor_dim(y, 0);
    if (is_dynamic(y))
        write_scales(x, y, scale + ((b * tensor_dim(y, 2) + h) * tensor_dim(y, 1) + r) * tensor_groups(y),
                     y->scaling == TDM_PER_GROUP ? y->block[1] : channels);
    for (int64_t c = 0; c < channels; c++) {
        float factor = (float)tensor_scale(y, scale, b, h, r, c);
        double value = x[c];
        if (y->scaling != TDM_UNSCALED)
            value = factor == 0 ? 0 : quotient(y->dtype, value, factor);
        format_encode(y->dtype, to, c, value);
    }
    if (y->dtype == TDM_I4 && channels % 2)
        format_encode(TDM_I4, to, channels, 0);
}

static void load_row(const tdm_tensor *x, const void *data, int64_t b, int64_t h, int64_t r, float *row)
{
    const void *from = tensor_row(x, data, b, h, r);
    for (int64_t c = 0; c < tensor_dim(x, 0); c++)
        row[c] = f32(format_decode(x->dtype, from, c));
}

/* ---- append -------------------------------------------------------------------------- */

/* Copy the first `rows` rows of sequence b, head by head: their bytes, and the scales that are theirs. */
static void copy_past(const tdm_tensor *from, const void *from_data, const float *from_scale, const tdm_tensor *to,
                      void *to_data, float *to_scale, int64_t b, int64_t rows)
{
    size_t bytes = (size_t)format_bytes(from->dtype, from->dim[3]);
    size_t scales = (size_t)tensor_groups(from) * sizeof(float);
    for (int64_t h = 0; h < from->dim[1]; h++)
        for (int64_t r = 0; r < rows; r++) {
            memcpy(tensor_row(to, to_data, b, h, r), tensor_row(from, from_data, b, h, r), bytes);
            if (is_dynamic(from))
                memcpy(to_scale + ((b * to->dim[1] + h) * to->dim[2] + r) * tensor_groups(to),
                       from_scale + ((b * from->dim[1] + h) * from->dim[2] + r) * tensor_groups(from), scales);
        }
}

static void append_key(const tdm_kv_append_desc *desc, const tdm_kv_append_args *args, int64_t b, int64_t h, int64_t i,
                       float *row)
{
    int64_t n = desc->k.dim[3], position = args->pos[b] + i;
    load_row(&desc->k, args->k, b, h, i, row);
    if (desc->k_norm.dtype)
        prepare_norm(&desc->k_norm, args->k_norm, row, n);
    if (desc->rotary.dtype)
        prepare_rotary(&desc->rotary, args->cos, args->sin,
                       args->positions ? args->positions[b * desc->k.dim[2] + i] : position, row);
    if (desc->cache.has_k_offset)
        prepare_offset(args->cache.k_offset + h * n, row, n);
    if (desc->cache.rotate_k)
        prepare_rotation(row, n);
    store_row(row, &desc->cache.k, args->cache.k, args->cache.k_scale, b, h, cache_row(&desc->cache, position));
}

static void append_value(const tdm_kv_append_desc *desc, const tdm_kv_append_args *args, int64_t b, int64_t h,
                         int64_t i, float *row)
{
    load_row(&desc->v, args->v, b, h, i, row);
    if (desc->cache.rotate_v)
        prepare_rotation(row, desc->v.dim[3]);
    store_row(row, &desc->cache.v, args->cache.v, args->cache.v_scale, b, h, cache_row(&desc->cache, args->pos[b] + i));
}

void reference_kv_append(const tdm_kv_append_desc *desc, const tdm_kv_append_args *args)
{
    int64_t wider = desc->k.dim[3] > desc->v.dim[3] ? desc->k.dim[3] : desc->v.dim[3];
    float *row = malloc((size_t)wider * sizeof *row);
    for (int64_t b = 0; b < desc->k.dim[0]; b++) {
        if (desc->past.k.rank) {
            copy_past(&desc->past.k, args->past.k, args->past.k_scale, &desc->cache.k, args->cache.k,
                      args->cache.k_scale, b, args->pos[b]);
            copy_past(&desc->past.v, args->past.v, args->past.v_scale, &desc->cache.v, args->cache.v,
                      args->cache.v_scale, b, args->pos[b]);
        }
        for (int64_t h = 0; h < desc->k.dim[1]; h++)
            for (int64_t i = 0; i < args->new_len[b]; i++) {
                append_key(desc, args, b, h, i, row);
                append_value(desc, args, b, h, i, row);
            }
    }
    free(row);
}

/* ---- quantize and dequantize ------------------------------------------------------------ */

void reference_quantize(const tdm_convert_desc *desc, const tdm_convert_args *args)
{
    const tdm_tensor *src = &desc->src;
    if (tensor_elements(src) == 0)
        return; /* rows without channels have no scale either */
    float *row = malloc((size_t)tensor_dim(src, 0) * sizeof *row);
    for (int64_t b = 0; b < tensor_dim(src, 3); b++)
        for (int64_t h = 0; h < tensor_dim(src, 2); h++)
            for (int64_t r = 0; r < tensor_dim(src, 1); r++) {
                load_row(src, args->src, b, h, r, row);
                store_row(row, &desc->dst, args->dst, args->scale, b, h, r);
            }
    free(row);
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
