#include "rows.h"

#include "common/tensor.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 512 }; /* channels converted at a time, even so that i4 pairs stay whole */

struct head_rows head_rows(const tdm_tensor *tensor, const void *data, const float *scale, int64_t batch, int64_t head,
                           int64_t first)
{
    struct head_rows rows = {.data = at(data, batch * tensor->stride[0] + head * tensor->stride[1]),
                             .stride = tensor->stride[2],
                             .dtype = tensor->dtype,
                             .scaling = tensor->scaling,
                             .scale = (float *)scale};
    int64_t row = (batch * tensor->dim[1] + head) * tensor->dim[2];
    if (rows.scaling == TDM_PER_CHANNEL) {
        rows.scale += head * tensor->dim[3];
    } else if (rows.scaling == TDM_PER_TOKEN) {
        rows.scale += row;
    } else if (rows.scaling == TDM_PER_GROUP) {
        rows.group = tensor->block[1];
        rows.groups = group_count(tensor);
        rows.scale += row * rows.groups;
    }
    return rows_from(rows, first);
}

struct head_rows rows_from(struct head_rows rows, int64_t first)
{
    rows.data = at(rows.data, first * rows.stride);
    if (rows.scaling == TDM_PER_TOKEN)
        rows.scale += first;
    else if (rows.scaling == TDM_PER_GROUP)
        rows.scale += first * rows.groups;
    return rows;
}

int64_t channel_bytes(tdm_dtype dtype, int64_t channel)
{
    static const int eighths[] = {
        [TDM_F32] = 32, [TDM_F16] = 16, [TDM_BF16] = 16, [TDM_I8] = 8, [TDM_F8E4M3] = 8, [TDM_I4] = 4};
    return channel * eighths[dtype] / 8;
}

static void widen(const struct leaf_table *leaf, struct head_rows from, int64_t row, int64_t channel, int n, float *out)
{
    struct leaf_rows x = {at(from.data, row * from.stride + channel_bytes(from.dtype, channel)), from.stride, NULL};
    leaf->widen[cpu_leaf_type(from.dtype)](x, out, n, 1, n);
}

/* The scale, or the first of them, for channels from `channel` on of row `row`. */
static float *scale_at(struct head_rows rows, int64_t row, int64_t channel)
{
    static const float one = 1; /* read only, as all scales but the dynamic ones */
    switch (rows.scaling) {
    case TDM_PER_CHANNEL:
        return rows.scale + channel;
    case TDM_PER_TOKEN:
        return rows.scale + row;
    case TDM_PER_GROUP:
        return rows.scale + row * rows.groups + channel / rows.group;
    case TDM_UNSCALED:
        return (float *)&one;
    default:
        return rows.scale;
    }
}

static float first_of(const float *x, float magnitude)
{
    while (fabsf(*x) != magnitude)
        x++;
    return *x;
}

float scale_of_extreme(float extreme, tdm_dtype dtype)
{
    float scale = dtype == TDM_I4 ? extreme / -8 : fabsf(extreme) / (dtype == TDM_I8 ? 127.0f : 448.0f);
    return isfinite(1 / scale) ? scale : 0;
}

/* Scale of the channels from their extreme, the first of the largest magnitude; NaN where they are not finite, 0 where
 * its reciprocal would overflow. i4 has one negative code more, and the extreme takes it, whatever its sign. */
static float dynamic_scale(const struct leaf_table *leaf, struct head_rows from, int64_t row, int64_t first,
                           int64_t channels, tdm_dtype dtype)
{
    float x[CHUNK], extreme = 0;
    for (int64_t c = 0; c < channels; c += CHUNK) {
        int n = (int)min64(CHUNK, channels - c);
        widen(leaf, from, row, first + c, n, x);
        float here = leaf->absmax(x, n);
        if (!isfinite(here))
            return NAN;
        if (here > fabsf(extreme))
            extreme = first_of(x, here);
    }
    return scale_of_extreme(extreme, dtype);
}

/* What the integer leaves multiply by; a scale of 0 stores 0. */
static void reciprocals(const float *scale, float *inverse, int n)
{
    for (int i = 0; i < n; i++)
        inverse[i] = scale[i] == 0 ? 0 : 1 / scale[i];
}

static void store_chunk(const struct leaf_table *leaf, const float *x, const float *scale, const float *inverse,
                        bool by_channel, tdm_dtype dtype, void *out, int n)
{
    if (dtype == TDM_I8)
        leaf->to_i8(x, inverse, by_channel, out, n);
    else if (dtype == TDM_I4)
        leaf->to_i4(x, inverse, by_channel, out, n);
    else if (dtype == TDM_F8E4M3)
        leaf->to_f8(x, scale, by_channel, out, n);
    else
        cpu_narrow(leaf, x, dtype, out, n);
}

/* Channels that share a scale, or all of them where each has its own. */
static int64_t segment(struct head_rows rows, int64_t channels)
{
    return rows.scaling == TDM_PER_GROUP ? rows.group : channels;
}

/* Channels from c on to convert at once: a chunk, and of one segment. */
static int chunk_at(struct head_rows rows, int64_t c, int64_t channels)
{
    int64_t step = segment(rows, channels);
    return (int)min64(min64(CHUNK, step - c % step), channels - c);
}

void rows_store(const struct leaf_table *leaf, struct head_rows from, struct head_rows to, int64_t n, int64_t channels)
{
    bool by_channel = to.scaling == TDM_PER_CHANNEL;
    int64_t step = segment(to, channels);
    for (int64_t i = 0; i < n && is_dynamic(to.scaling); i++)
        for (int64_t c = 0; c < channels; c += step)
            *scale_at(to, i, c) = dynamic_scale(leaf, from, i, c, min64(step, channels - c), to.dtype);
    for (int64_t c = 0, width; c < channels; c += width) {
        float x[CHUNK], inverse[CHUNK];
        width = chunk_at(to, c, channels);
        if (by_channel)
            reciprocals(to.scale + c, inverse, (int)width);
        for (int64_t i = 0; i < n; i++) {
            const float *scale = scale_at(to, i, c);
            if (!by_channel)
                reciprocals(scale, inverse, 1);
            widen(leaf, from, i, c, (int)width, x);
            store_chunk(leaf, x, scale, inverse, by_channel, to.dtype,
                        at(to.data, i * to.stride + channel_bytes(to.dtype, c)), (int)width);
        }
    }
}

void rows_load(const struct leaf_table *leaf, struct head_rows from, struct head_rows to, int64_t n, int64_t channels)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0, width; c < channels; c += width) {
            float x[CHUNK];
            width = chunk_at(from, c, channels);
            widen(leaf, from, i, c, (int)width, x);
            if (from.scaling == TDM_PER_CHANNEL)
                leaf->scale(x, from.scale + c, 1, width);
            else if (from.scaling != TDM_UNSCALED)
                leaf->scale(x, NULL, *scale_at(from, i, c), width);
            cpu_narrow(leaf, x, to.dtype, at(to.data, i * to.stride + channel_bytes(to.dtype, c)), width);
        }
}

void rows_copy(struct head_rows from, struct head_rows to, int64_t n, int64_t channels)
{
    int64_t bytes = channel_bytes(to.dtype, channels + (to.dtype == TDM_I4 && channels % 2));
    if (from.stride == bytes && to.stride == bytes)
        memmove(to.data, from.data, (size_t)(n * bytes));
    else
        for (int64_t i = 0; i < n; i++)
            memmove(at(to.data, i * to.stride), at(from.data, i * from.stride), (size_t)bytes);
    int64_t scales = to.scaling == TDM_PER_TOKEN ? 1 : to.scaling == TDM_PER_GROUP ? to.groups : 0;
    if (scales)
        memmove(to.scale, from.scale, (size_t)(n * scales) * sizeof(float));
}
