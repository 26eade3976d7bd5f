#include "tensor.h"

#include "formats.h"

#include <stdlib.h>

tdm_tensor tensor4(tdm_dtype dtype, int64_t d0, int64_t d1, int64_t d2, int64_t d3)
{
    return (tdm_tensor){.dtype = dtype, .rank = 4, .dim = {d0, d1, d2, d3}};
}

tdm_tensor tensor2(tdm_dtype dtype, int64_t rows, int64_t columns)
{
    return (tdm_tensor){.dtype = dtype, .rank = 2, .dim = {rows, columns}};
}

tdm_tensor tensor_in_layout(tdm_dtype dtype, bool interleaved, int64_t batch, int64_t heads, int64_t rows,
                            int64_t channels)
{
    enum { GAP = 4 }; /* elements, whole bytes of i4 */
    tdm_tensor tensor = tensor4(dtype, batch, heads, rows, channels);
    if (interleaved) {
        tensor.stride[1] = format_bytes(dtype, channels) + format_bytes(dtype, GAP);
        tensor.stride[2] = heads * tensor.stride[1];
        tensor.stride[0] = rows * tensor.stride[2];
    }
    return tensor;
}

int64_t tensor_stride(const tdm_tensor *tensor, int axis)
{
    if (axis == tensor->rank - 1)
        return format_bytes(tensor->dtype, 2) / 2;
    if (tensor->stride[axis])
        return tensor->stride[axis];
    if (axis == tensor->rank - 2)
        return format_bytes(tensor->dtype, tensor->dim[axis + 1]);
    return tensor->dim[axis + 1] * tensor_stride(tensor, axis + 1);
}

int64_t tensor_elements(const tdm_tensor *tensor)
{
    int64_t n = 1;
    for (int axis = 0; axis < tensor->rank; axis++)
        n *= tensor->dim[axis];
    return n;
}

int64_t tensor_bytes(const tdm_tensor *tensor)
{
    if (tensor_elements(tensor) == 0)
        return 0;
    int64_t bytes = format_bytes(tensor->dtype, tensor->dim[tensor->rank - 1]);
    for (int axis = 0; axis < tensor->rank - 1; axis++)
        bytes += (tensor->dim[axis] - 1) * tensor_stride(tensor, axis);
    return bytes;
}

int64_t tensor_dim(const tdm_tensor *tensor, int from_last)
{
    return from_last < tensor->rank ? tensor->dim[tensor->rank - 1 - from_last] : 1;
}

int64_t tensor_groups(const tdm_tensor *tensor)
{
    if (tensor->scaling != TDM_PER_GROUP)
        return 1;
    int64_t channels = tensor_dim(tensor, 0), group = tensor->block[1];
    return channels / group + (channels % group != 0);
}

int64_t tensor_scales(const tdm_tensor *tensor)
{
    int64_t channels = tensor_dim(tensor, 0), rows = tensor_dim(tensor, 1), heads = tensor_dim(tensor, 2);
    switch (tensor->scaling) {
    case TDM_UNSCALED:
        return 0;
    case TDM_PER_TENSOR:
        return 1;
    case TDM_PER_CHANNEL:
        return heads * channels;
    case TDM_PER_TOKEN:
        return tensor_dim(tensor, 3) * heads * rows;
    case TDM_PER_BLOCK:
        return ((rows + tensor->block[0] - 1) / tensor->block[0]) *
               ((channels + tensor->block[1] - 1) / tensor->block[1]);
    case TDM_PER_GROUP:
        return tensor_dim(tensor, 3) * heads * rows * tensor_groups(tensor);
    }
    return 0;
}

void *tensor_row(const tdm_tensor *tensor, const void *data, int64_t b, int64_t h, int64_t r)
{
    const int64_t index[3] = {r, h, b};
    const char *row = data;
    for (int i = 0; i < tensor->rank - 1; i++)
        row += index[i] * tensor_stride(tensor, tensor->rank - 2 - i);
    return (void *)row;
}

void tensor_put(const tdm_tensor *tensor, const void *data, int64_t b, int64_t h, int64_t r, int64_t c, double x)
{
    format_encode(tensor->dtype, tensor_row(tensor, data, b, h, r), c, x);
}

double *tensor_read(const tdm_tensor *tensor, const void *data)
{
    int64_t channels = tensor_dim(tensor, 0);
    double *values = malloc((size_t)(tensor_elements(tensor) + 1) * sizeof *values), *next = values;
    for (int64_t b = 0; b < tensor_dim(tensor, 3); b++)
        for (int64_t h = 0; h < tensor_dim(tensor, 2); h++)
            for (int64_t r = 0; r < tensor_dim(tensor, 1); r++) {
                const void *row = tensor_row(tensor, data, b, h, r);
                for (int64_t c = 0; c < channels; c++)
                    *next++ = format_decode(tensor->dtype, row, c);
            }
    return values;
}

double tensor_scale(const tdm_tensor *tensor, const float *scale, int64_t b, int64_t h, int64_t r, int64_t c)
{
    int64_t row = (b * tensor_dim(tensor, 2) + h) * tensor_dim(tensor, 1) + r;
    switch (tensor->scaling) {
    case TDM_PER_TENSOR:
        return scale[0];
    case TDM_PER_CHANNEL:
        return scale[h * tensor_dim(tensor, 0) + c];
    case TDM_PER_TOKEN:
        return scale[row];
    case TDM_PER_GROUP:
        return scale[row * tensor_groups(tensor) + c / tensor->block[1]];
    default:
        return 1;
    }
}

const char *format_name(tdm_dtype dtype)
{
    static const char *const names[] = {"none", "f32", "f16", "bf16", "f8e4m3", "e8m0", "i8", "i4", "bool", "bits"};
    return names[dtype];
}

const char *scaling_text(tdm_scaling scaling)
{
    static const char *const names[] = {"unscaled", "tensor", "channel", "token", "block", "group"};
    return names[scaling];
}
