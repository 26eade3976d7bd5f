#include "formats.h"
#include "prepare.h"
#include "reference.h"
#include "tensor.h"

#include <stdlib.h>
#include <string.h>

/* One row of a cache half as a tensor of its own. */
struct row {
    tdm_tensor tensor;
    void *data;
    float *scale;
};

static struct row row_of(const tdm_tensor *half, void *data, float *scale, int64_t b, int64_t h, int64_t r)
{
    struct row row = {tensor2(half->dtype, 1, half->dim[3]), tensor_row(half, data, b, h, r), scale};
    row.tensor.scaling = half->scaling;
    memcpy(row.tensor.block, half->block, sizeof half->block);
    if (half->scaling == TDM_PER_CHANNEL)
        row.scale += h * half->dim[3];
    else if (is_dynamic(half))
        row.scale += ((b * half->dim[1] + h) * half->dim[2] + r) * tensor_groups(half);
    return row;
}

static void copy_row(struct row from, struct row to)
{
    memcpy(to.data, from.data, (size_t)tensor_bytes(&from.tensor));
    if (is_dynamic(&from.tensor))
        memcpy(to.scale, from.scale, (size_t)tensor_scales(&from.tensor) * sizeof(float));
}

/* Turn x to position -drop: with the sines of `drop` negated, which is exact. */
static void turn_back(const tdm_kv_shift_desc *desc, const tdm_kv_shift_args *args, int64_t drop, float *x)
{
    int64_t pairs = desc->rotary.dim / 2, size = format_bytes(desc->rotary.dtype, 1);
    void *sine = malloc((size_t)(pairs * size));
    for (int64_t i = 0; i < pairs; i++)
        format_encode(desc->rotary.dtype, sine, i, -format_decode(desc->rotary.dtype, args->sin, drop * pairs + i));
    prepare_rotary(&desc->rotary, (const char *)args->cos + drop * pairs * size, sine, 0, x);
    free(sine);
}

static void add_offset(const float *offset, float *x, int64_t n)
{
    for (int64_t c = 0; c < n; c++)
        x[c] = (float)((double)x[c] + offset[c]);
}

static void turn_row(const tdm_kv_shift_desc *desc, const tdm_kv_shift_args *args, int64_t h, int64_t drop,
                     struct row from, struct row to)
{
    int64_t n = desc->cache.k.dim[3];
    const float *offset = desc->cache.has_k_offset ? args->cache.k_offset + h * n : NULL;
    float *x = malloc((size_t)n * sizeof *x);
    tdm_convert_desc read = {sizeof read, from.tensor, tensor2(TDM_F32, 1, n)};
    tdm_convert_desc write = {sizeof write, tensor2(TDM_F32, 1, n), to.tensor};
    reference_dequantize(&read, &(tdm_convert_args){sizeof(tdm_convert_args), from.data, x, from.scale});
    if (desc->cache.rotate_k)
        prepare_rotation(x, n);
    if (offset)
        add_offset(offset, x, n);
    turn_back(desc, args, drop, x);
    if (offset)
        prepare_offset(offset, x, n);
    if (desc->cache.rotate_k)
        prepare_rotation(x, n);
    reference_quantize(&write, &(tdm_convert_args){sizeof(tdm_convert_args), x, to.data, to.scale});
    free(x);
}

void reference_kv_shift(const tdm_kv_shift_desc *desc, const tdm_kv_shift_args *args)
{
    const tdm_tensor *k = &desc->cache.k, *v = &desc->cache.v;
    const tdm_kv_data *data = &args->cache;
    for (int64_t b = 0; b < k->dim[0]; b++)
        for (int64_t h = 0; h < k->dim[1] && args->drop[b]; h++)
            for (int64_t r = desc->sinks; r < args->len[b] - args->drop[b]; r++) {
                int64_t drop = args->drop[b];
                copy_row(row_of(v, data->v, data->v_scale, b, h, r + drop), row_of(v, data->v, data->v_scale, b, h, r));
                struct row from = row_of(k, data->k, data->k_scale, b, h, r + drop);
                struct row to = row_of(k, data->k, data->k_scale, b, h, r);
                if (desc->rotary.dtype)
                    turn_row(desc, args, h, drop, from, to);
                else
                    copy_row(from, to);
            }
}
