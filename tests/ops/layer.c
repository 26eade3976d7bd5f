#include "layer.h"

#include "tests/reference/random.h"
#include "tests/reference/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *random_rows(const tdm_tensor *tensor, struct random *random)
{
    void *data = malloc((size_t)tensor_bytes(tensor));
    random_fill(tensor, data, 2, random);
    return data;
}

struct layer *layer_new(uint64_t seed)
{
    struct layer *layer = calloc(1, sizeof *layer);
    struct random random = {seed};
    layer->q = tensor4(TDM_F32, 1, Q_HEADS, TOKENS, DIM);
    layer->k = layer->v = tensor4(TDM_F32, 1, KV_HEADS, TOKENS, DIM);
    layer->q_data = random_rows(&layer->q, &random);
    layer->k_data = random_rows(&layer->k, &random);
    layer->v_data = random_rows(&layer->v, &random);
    for (int c = 0; c < DIM; c++)
        layer->weight[c] = 1 + (float)random_unit(&random) / 2;
    for (int c = 0; c < KV_HEADS * DIM; c++)
        layer->offset[c] = (float)random_unit(&random);
    for (int i = 0; i < POSITIONS * DIM / 2; i++) {
        double angle = i / (DIM / 2) * pow(10000, -2.0 * (i % (DIM / 2)) / DIM);
        layer->cos[i] = (float)cos(angle);
        layer->sin[i] = (float)sin(angle);
    }
    layer->norm = (tdm_norm){TDM_F32, 1e-5F};
    layer->rotary = (tdm_rotary){.dtype = TDM_F32, .dim = DIM, .positions = POSITIONS};
    return layer;
}

void layer_free(struct layer *layer)
{
    free(layer->q_data);
    free(layer->k_data);
    free(layer->v_data);
    free(layer);
}

/* ---- caches ------------------------------------------------------------------------------------------ */

static float *scales_new(const tdm_tensor *half)
{
    int64_t n = tensor_scales(half);
    float *scale = n ? malloc((size_t)n * sizeof *scale) : NULL;
    for (int64_t i = 0; i < n; i++)
        scale[i] = is_dynamic(half) ? NAN : 0.05F;
    return scale;
}

struct cache cache_new(const struct layer *layer, const struct stored_type *type, int64_t capacity, bool ring)
{
    tdm_tensor half = stored_as(tensor4(type->dtype, 1, KV_HEADS, capacity, DIM), type);
    struct cache cache = {.desc = {.k = half, .v = half, .rotate_k = 1, .rotate_v = 1, .has_k_offset = 1}};
    size_t bytes = (size_t)tensor_bytes(&half);
    cache.desc.ring = ring;
    cache.desc.ring_sinks = ring ? SINKS : 0;
    cache.data.k = memset(malloc(bytes), 0xFF, bytes);
    cache.data.v = memset(malloc(bytes), 0xFF, bytes);
    cache.data.k_scale = scales_new(&half);
    cache.data.v_scale = scales_new(&half);
    cache.data.k_offset = layer->offset;
    return cache;
}

void cache_free(struct cache *cache)
{
    free(cache->data.k);
    free(cache->data.v);
    free(cache->data.k_scale);
    free(cache->data.v_scale);
}

/* ---- calls ---------------------------------------------------------------------------------------------- */

/* Some tokens of a tensor: `rows` of them, wherever they start. */
static tdm_tensor tokens_of(const tdm_tensor *tensor, int64_t rows)
{
    tdm_tensor some = *tensor;
    for (int axis = 0; axis < 3; axis++)
        some.stride[axis] = tensor_stride(tensor, axis);
    some.dim[2] = rows;
    return some;
}

void call_append(struct call *call, const struct layer *layer, const struct cache *cache, int32_t first, int32_t n,
                 int32_t pos)
{
    *call = (struct call){.append = TDM_INIT(tdm_kv_append_desc), .n = n, .length = pos};
    call->append.k = call->append.v = tokens_of(&layer->k, n);
    call->append.cache = cache->desc;
    call->append.k_norm = layer->norm;
    call->append.rotary = layer->rotary;
    call->append_args = (tdm_kv_append_args){.struct_size = sizeof call->append_args,
                                             .k = tensor_row(&layer->k, layer->k_data, 0, 0, first),
                                             .v = tensor_row(&layer->v, layer->v_data, 0, 0, first),
                                             .cache = cache->data,
                                             .new_len = &call->n,
                                             .pos = &call->length,
                                             .k_norm = layer->weight,
                                             .cos = layer->cos,
                                             .sin = layer->sin};
    call->problem = (struct problem){.op = APPEND, .desc = &call->append, .args = &call->append_args};
}

void call_gqa(struct call *call, const struct layer *layer, const struct cache *cache, int32_t first, int32_t n,
              int32_t kv_len, float *out)
{
    *call = (struct call){.n = n, .length = kv_len};
    tdm_gqa_desc_init(&call->gqa);
    call->gqa.q = call->gqa.out = tokens_of(&layer->q, n);
    call->gqa.cache = cache->desc;
    call->gqa.window_left = WINDOW;
    call->gqa.sink_tokens = SINKS;
    call->gqa.q_norm = layer->norm;
    call->gqa.rotary = layer->rotary;
    call->gqa_args = (tdm_gqa_args){.struct_size = sizeof call->gqa_args,
                                    .q = tensor_row(&layer->q, layer->q_data, 0, 0, first),
                                    .cache = cache->data,
                                    .q_len = &call->n,
                                    .kv_len = &call->length,
                                    .out = tensor_row(&layer->q, out, 0, 0, first),
                                    .q_norm = layer->weight,
                                    .cos = layer->cos,
                                    .sin = layer->sin};
    call->problem = (struct problem){.op = GQA, .desc = &call->gqa, .args = &call->gqa_args};
}
