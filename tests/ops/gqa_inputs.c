#include "gqa_inputs.h"

#include "tests/reference/formats.h"
#include "tests/reference/tensor.h"
#include "tests/reference/visible.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HIDDEN = 0xFF, SPARE_KEYS = 2, FEW_POSITIONS = 8 };

/* ---- desc ------------------------------------------------------------------------------- */

static tdm_tensor plane_of(const tdm_gqa_desc *d, const struct plane_type *type, bool interleaved, int64_t keys)
{
    if (!type->dtype)
        return (tdm_tensor){0};
    return tensor_in_layout(type->dtype, interleaved, type->one_batch ? 1 : d->q.dim[0],
                            type->one_head ? 1 : d->q.dim[1], type->one_query ? 1 : d->q.dim[2], keys);
}

void gqa_describe_features(struct gqa_problem *p, const struct gqa_setup *setup)
{
    const struct gqa_features *with = &setup->with;
    const struct plane_type scores = {.dtype = with->scores};
    tdm_gqa_desc *d = &p->desc;
    int64_t keys = setup->shape->kv_len + SPARE_KEYS;
    d->cache.rotate_k = with->rotate_k;
    d->cache.rotate_v = with->rotate_v;
    d->cache.has_k_offset = with->offset;
    d->cache.ring = with->ring;
    d->cache.ring_sinks = with->ring ? with->sink_tokens : 0;
    d->sink_tokens = with->sink_tokens;
    d->q_norm = (tdm_norm){with->q_norm, with->q_norm ? 1e-5F : 0};
    d->rotary = with->rotary;
    if (with->rotary.dtype)
        d->rotary.positions = (int32_t)(setup->shape->kv_len + FEW_POSITIONS);
    d->softcap = with->softcap;
    d->has_head_sink = with->head_sink;
    d->smooth_softmax = with->smooth_softmax;
    d->has_alibi = with->alibi;
    d->has_tree = with->tree;
    d->bias = plane_of(d, &with->bias, setup->interleaved, keys);
    d->mask = plane_of(d, &with->mask, setup->interleaved, keys);
    d->scores = plane_of(d, &scores, setup->interleaved, keys);
    d->capture = with->capture;
}

/* ---- data ------------------------------------------------------------------------------- */

static void *input_new(struct gqa_problem *p, int64_t bytes)
{
    struct guard *guard = &p->input[p->inputs++];
    *guard = guard_new((size_t)bytes, HIDDEN);
    return guard->data;
}

static float *floats(struct gqa_problem *p, int64_t n)
{
    return input_new(p, n * (int64_t)sizeof(float));
}

static void fill_tables(struct gqa_problem *p)
{
    const tdm_rotary *rotary = &p->desc.rotary;
    int64_t pairs = rotary->dim / 2, n = rotary->positions * pairs;
    void *cosines = input_new(p, format_bytes(rotary->dtype, n));
    void *sines = input_new(p, format_bytes(rotary->dtype, n));
    for (int64_t i = 0; i < n; i++) {
        double angle = (double)(i / pairs) * pow(10000, -(double)(i % pairs) / (double)pairs);
        format_encode(rotary->dtype, cosines, i, cos(angle));
        format_encode(rotary->dtype, sines, i, sin(angle));
    }
    p->args.cos = cosines;
    p->args.sin = sines;
}

static void fill_positions(struct gqa_problem *p, struct random *random)
{
    int32_t *positions = input_new(p, p->desc.q.dim[0] * p->desc.q.dim[2] * (int64_t)sizeof *positions);
    for (int64_t b = 0; b < p->desc.q.dim[0]; b++)
        for (int64_t i = 0; i < p->q_len[b]; i++)
            positions[b * p->desc.q.dim[2] + i] = (int32_t)random_below(random, p->desc.rotary.positions);
    p->args.positions = positions;
}

/* Random parents: a token sees itself and what its parent sees. */
static void fill_tree(struct gqa_problem *p, struct random *random)
{
    int64_t max_q = p->desc.q.dim[2];
    uint64_t *tree = input_new(p, p->desc.q.dim[0] * max_q * (int64_t)sizeof *tree);
    for (int64_t b = 0; b < p->desc.q.dim[0]; b++)
        for (int64_t i = 0; i < p->q_len[b]; i++) {
            int64_t parent = random_below(random, i + 1) - 1;
            tree[b * max_q + i] = (uint64_t)1 << i | (parent < 0 ? 0 : tree[b * max_q + parent]);
        }
    p->args.tree = tree;
}

/* Small numbers, and minus infinity now and then. */
static double random_bias(struct random *random)
{
    return random_below(random, 8) ? 2 * random_unit(random) : -INFINITY;
}

/* One in four hides; a fifth of the rows hides everything. What stands for true differs. */
static void fill_mask_row(const tdm_tensor *mask, void *row, bool all, struct random *random)
{
    for (int64_t j = 0; j < mask->dim[3]; j++) {
        format_encode(mask->dtype, row, j, !all && random_below(random, 4) != 0);
        if (mask->dtype == TDM_BOOL && format_decode(TDM_BOOL, row, j) != 0)
            ((unsigned char *)row)[j] = (unsigned char)(1 + random_below(random, 255));
    }
}

static void *fill_plane(struct gqa_problem *p, const tdm_tensor *plane, struct random *random)
{
    void *data = input_new(p, tensor_bytes(plane));
    for (int64_t b = 0; b < plane->dim[0]; b++)
        for (int64_t h = 0; h < plane->dim[1]; h++)
            for (int64_t i = 0; i < plane->dim[2]; i++) {
                void *row = tensor_row(plane, data, b, h, i);
                if (plane == &p->desc.mask)
                    fill_mask_row(plane, row, plane->dim[2] > 1 && i % 5 == 3, random);
                else
                    for (int64_t j = 0; j < plane->dim[3]; j++)
                        format_encode(plane->dtype, row, j, random_bias(random));
            }
    return data;
}

void gqa_fill_features(struct gqa_problem *p, const struct gqa_setup *setup, struct random *random)
{
    const tdm_gqa_desc *d = &p->desc;
    int64_t q_heads = d->q.dim[1], head_dim = d->q.dim[3], offsets = d->cache.k.dim[1] * head_dim;
    if (d->q_norm.dtype) {
        void *weight = input_new(p, format_bytes(d->q_norm.dtype, head_dim));
        for (int64_t c = 0; c < head_dim; c++)
            format_encode(d->q_norm.dtype, weight, c, 1 + random_unit(random) / 2);
        p->args.q_norm = weight;
    }
    if (d->rotary.dtype)
        fill_tables(p);
    if (setup->with.positions)
        fill_positions(p, random);
    if (d->has_tree)
        fill_tree(p, random);
    if (d->has_head_sink) {
        float *sink = floats(p, q_heads);
        for (int64_t h = 0; h < q_heads; h++)
            sink[h] = h == 3 ? -INFINITY : (float)(3 * random_unit(random));
        p->args.head_sink = sink;
    }
    if (d->has_alibi) {
        float *slope = floats(p, q_heads);
        for (int64_t h = 0; h < q_heads; h++)
            slope[h] = (float)exp2(-8.0 * (double)(h + 1) / (double)q_heads);
        p->args.alibi = slope;
    }
    if (d->mask.rank)
        p->args.mask = fill_plane(p, &d->mask, random);
    if (d->bias.rank)
        p->args.bias = fill_plane(p, &d->bias, random);
    if (d->cache.has_k_offset) {
        float *offset = floats(p, offsets);
        for (int64_t i = 0; i < offsets; i++)
            offset[i] = (float)random_unit(random);
        p->args.cache.k_offset = offset;
    }
}

/* ---- what nobody sees -------------------------------------------------------------------- */

static void hide_row(const tdm_tensor *half, void *data, float *scale, int64_t b, int64_t h, int64_t r)
{
    int64_t groups = tensor_groups(half);
    memset(tensor_row(half, data, b, h, r), HIDDEN, (size_t)format_bytes(half->dtype, half->dim[3]));
    if (is_dynamic(half))
        memset(scale + ((b * half->dim[1] + h) * half->dim[2] + r) * groups, HIDDEN, (size_t)groups * sizeof *scale);
}

static bool key_seen(const struct gqa_problem *p, int64_t b, int64_t kv_head, int64_t j)
{
    int64_t group = p->desc.q.dim[1] / p->desc.cache.k.dim[1];
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; h++)
        for (int64_t i = 0; i < p->q_len[b]; i++)
            if (key_visible(&p->desc, &p->args, b, h, i, j))
                return true;
    return false;
}

/* Positions that share a row of a ring: only the newest lies there. */
static void hide_keys(struct gqa_problem *p)
{
    const tdm_kv_cache *cache = &p->desc.cache;
    for (int64_t b = 0; b < cache->k.dim[0]; b++)
        for (int64_t h = 0; h < cache->k.dim[1]; h++)
            for (int64_t j = 0; j < p->kv_len[b]; j++) {
                bool gone =
                    cache->ring && j >= cache->ring_sinks && j + cache->k.dim[2] - cache->ring_sinks < p->kv_len[b];
                if (gone || key_seen(p, b, h, j))
                    continue;
                int64_t row = cache_row(cache, j);
                hide_row(&cache->k, p->args.cache.k, p->args.cache.k_scale, b, h, row);
                hide_row(&cache->v, p->args.cache.v, p->args.cache.v_scale, b, h, row);
            }
}

static void hide_biases(struct gqa_problem *p)
{
    const tdm_tensor *bias = &p->desc.bias;
    const int64_t *dim = bias->dim;
    bool *seen = calloc((size_t)tensor_elements(bias), sizeof *seen);
    for (int64_t b = 0; b < p->desc.q.dim[0]; b++)
        for (int64_t h = 0; h < p->desc.q.dim[1]; h++)
            for (int64_t i = 0; i < p->q_len[b]; i++)
                for (int64_t j = 0; j < p->kv_len[b]; j++) {
                    int64_t row = (b % dim[0] * dim[1] + h % dim[1]) * dim[2] + i % dim[2];
                    seen[row * dim[3] + j] |= key_visible(&p->desc, &p->args, b, h, i, j) ||
                                              plane_value(bias, p->args.bias, b, h, i, j) == -INFINITY;
                }
    for (int64_t n = 0; n < tensor_elements(bias); n++) {
        int64_t row = n / dim[3];
        if (!seen[n])
            format_encode(bias->dtype,
                          tensor_row(bias, p->args.bias, row / dim[2] / dim[1], row / dim[2] % dim[1], row % dim[2]),
                          n % dim[3], NAN);
    }
    free(seen);
}

void gqa_hide(struct gqa_problem *p)
{
    hide_keys(p);
    if (p->desc.bias.rank)
        hide_biases(p);
}
