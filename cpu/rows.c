#include "rows.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 512 }; /* channels converted at a time, even so that i4 pairs stay whole */

struct head_rows head_rows(const tdm_tensor *tensor, const void *data, const float *scale, int64_t batch, int64_t head,
                           int64_t first)
{
    struct head_rows rows = {.stride = tensor->stride[2], .dtype = tensor->dtype, .scaling = tensor->scaling};
    rows.data = at(data, batch * tensor->stride[0] + head * tensor->stride[1] + first * tensor->stride[2]);
    rows.scale = (float *)scale;
    if (rows.scaling == TDM_PER_CHANNEL)
        rows.scale += head * tensor->dim[3];
    else if (rows.scaling == TDM_PER_TOKEN)
        rows.scale += (batch * tensor->dim[1] + head) * tensor->dim[2] + first;
    return rows;
}

static int64_t chunk_bytes(tdm_dtype dtype, int64_t channel)
{
    static const int eighths[] = {[TDM_F32] = 32, [TDM_F16] = 16, [TDM_BF16] = 16, [TDM_I8] = 8, [TDM_I4] = 4};
    return channel * eighths[dtype] / 8;
}

static void widen(const struct leaf_table *leaf, struct head_rows from, int64_t row, int64_t channel, int n, float *out)
{
    struct leaf_rows x = {at(from.data, row * from.stride + chunk_bytes(from.dtype, channel)), from.stride};
    leaf->widen[cpu_leaf_type(from.dtype)](x, out, n, 1, n);
}

/* absmax / 127 or / 7; NaN for a row that is not finite, 0 for one whose reciprocal would overflow. */
static float dynamic_scale(const struct leaf_table *leaf, struct head_rows from, int64_t row, int64_t channels,
                           tdm_dtype dtype)
{
    float x[CHUNK], largest = 0;
    for (int64_t c = 0; c < channels; c += CHUNK) {
        int n = (int)min64(CHUNK, channels - c);
        widen(leaf, from, row, c, n, x);
        float here = leaf->absmax(x, n);
        largest = here > largest || isnan(here) ? here : largest;
        if (isnan(largest))
            break;
    }
    if (!isfinite(largest))
        return NAN;
    float scale = largest / (dtype == TDM_I8 ? 127.0f : 7.0f);
    return isfinite(1 / scale) ? scale : 0;
}

/* What the i8 leaf multiplies by; a scale of 0 stores 0. */
static void reciprocals(const float *scale, float *inverse, int n)
{
    for (int i = 0; i < n; i++)
        inverse[i] = scale[i] == 0 ? 0 : 1 / scale[i];
}

void rows_store(const struct leaf_table *leaf, struct head_rows from, struct head_rows to, int64_t n, int64_t channels)
{
    if (to.scaling == TDM_PER_TOKEN)
        for (int64_t i = 0; i < n; i++)
            to.scale[i] = dynamic_scale(leaf, from, i, channels, to.dtype);
    bool by_channel = to.scaling == TDM_PER_CHANNEL;
    for (int64_t c = 0; c < channels; c += CHUNK) {
        int width = (int)min64(CHUNK, channels - c);
        float x[CHUNK], inverse[CHUNK];
        if (by_channel && to.dtype == TDM_I8)
            reciprocals(to.scale + c, inverse, width);
        for (int64_t i = 0; i < n; i++) {
            const float *scale = by_channel ? to.scale + c : to.scaling == TDM_PER_TOKEN ? to.scale + i : to.scale;
            void *out = at(to.data, i * to.stride + chunk_bytes(to.dtype, c));
            widen(leaf, from, i, c, width, x);
            if (to.dtype == TDM_I4) {
                leaf->to_i4(x, scale, by_channel, out, width);
            } else if (to.dtype == TDM_I8) {
                if (!by_channel)
                    reciprocals(scale, inverse, 1);
                leaf->to_i8(x, inverse, by_channel, out, width);
            } else {
                cpu_narrow(leaf, x, to.dtype, out, width);
            }
        }
    }
}

void rows_load(const struct leaf_table *leaf, struct head_rows from, struct head_rows to, int64_t n, int64_t channels)
{
    for (int64_t c = 0; c < channels; c += CHUNK)
        for (int64_t i = 0; i < n; i++) {
            int width = (int)min64(CHUNK, channels - c);
            float x[CHUNK];
            widen(leaf, from, i, c, width, x);
            if (from.scaling == TDM_PER_CHANNEL)
                leaf->scale(x, from.scale + c, 1, width);
            else if (from.scaling != TDM_UNSCALED)
                leaf->scale(x, NULL, from.scaling == TDM_PER_TOKEN ? from.scale[i] : from.scale[0], width);
            cpu_narrow(leaf, x, to.dtype, at(to.data, i * to.stride + chunk_bytes(to.dtype, c)), width);
        }
}
