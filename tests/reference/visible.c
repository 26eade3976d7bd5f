#include "visible.h"

#include "formats.h"
#include "tensor.h"

#include <math.h>

int64_t cache_row(const tdm_kv_cache *cache, int64_t position)
{
    int64_t sinks = cache->ring_sinks, turning = cache->k.dim[2] - sinks;
    if (!cache->ring || position < sinks)
        return position;
    return sinks + (position - sinks) % turning;
}

static int64_t bits_set(uint64_t bits)
{
    int64_t n = 0;
    for (; bits; bits >>= 1)
        n += (int64_t)(bits & 1);
    return n;
}

static uint64_t tree_row(const tdm_gqa_desc *desc, const tdm_gqa_args *args, int64_t b, int64_t i)
{
    return args->tree[b * desc->q.dim[2] + i];
}

int64_t position_of_query(const tdm_gqa_desc *desc, const tdm_gqa_args *args, int64_t b, int64_t i)
{
    int64_t before = (int64_t)args->kv_len[b] - args->q_len[b];
    return desc->has_tree ? before - 1 + bits_set(tree_row(desc, args, b, i)) : before + i;
}

int64_t position_of_key(const tdm_gqa_desc *desc, const tdm_gqa_args *args, int64_t b, int64_t j)
{
    int64_t before = (int64_t)args->kv_len[b] - args->q_len[b];
    return desc->has_tree && j >= before ? position_of_query(desc, args, b, j - before) : j;
}

double plane_value(const tdm_tensor *plane, const void *data, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const int64_t *dim = plane->dim;
    return format_decode(plane->dtype,
                         tensor_row(plane, data, dim[0] > 1 ? b : 0, dim[1] > 1 ? h : 0, dim[2] > 1 ? i : 0), j);
}

static bool in_window(const tdm_gqa_desc *desc, int64_t position, int64_t j)
{
    if (desc->window_right >= 0 && j > position + desc->window_right)
        return false;
    return desc->window_left < 0 || j >= position - desc->window_left || j < desc->sink_tokens;
}

bool key_visible(const tdm_gqa_desc *desc, const tdm_gqa_args *args, int64_t b, int64_t h, int64_t i, int64_t j)
{
    int64_t before = (int64_t)args->kv_len[b] - args->q_len[b];
    bool reached = desc->has_tree && j >= before ? tree_row(desc, args, b, i) >> (j - before) & 1
                                                 : in_window(desc, position_of_query(desc, args, b, i), j);
    if (!reached || (desc->mask.rank && plane_value(&desc->mask, args->mask, b, h, i, j) == 0))
        return false;
    return !desc->bias.rank || plane_value(&desc->bias, args->bias, b, h, i, j) != -INFINITY;
}
