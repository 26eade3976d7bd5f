#include "attention.h"

#include <stdlib.h>

#include "layers.h"

enum { APPEND, ATTEND, OPS };

/* Rows of [heads * head_dim] values as the [1, heads, rows, head_dim] that attention takes: strides, no copy. */
static tdm_tensor by_heads(tdm_dtype dtype, int64_t heads, int64_t rows, int64_t head_dim)
{
    const int64_t element = dtype == TDM_F32 ? 4 : 2, row = heads * head_dim * element;
    return (tdm_tensor){
        .dtype = dtype,
        .rank = 4,
        .dim = {1, heads, rows, head_dim},
        .stride = {row * rows, head_dim * element, row, element},
    };
}

static bool create_rotary(attention *a, const config *cfg, int64_t positions, error *err)
{
    const size_t count = (size_t)(positions * cfg->head_dim / 2), bytes = count * sizeof(float);
    float *tables = malloc(2 * bytes);
    if (tables == NULL) {
        return fail(err, "rotary embedding: no memory for %lld positions", (long long)positions);
    }
    rotary_table(positions, cfg->head_dim, cfg->rope_theta, tables, tables + count);
    bool ok = device_place(a->at, tables, bytes, "rotary embedding", &a->cosine, err) &&
              device_place(a->at, tables + count, bytes, "rotary embedding", &a->sine, err);
    free(tables);
    return ok;
}

static bool create_ops(attention *a, const config *cfg, const kv_cache *cache, tdm_dtype activations, int64_t max_rows,
                       error *err)
{
    const int64_t positions = cache->desc.k.dim[2];
    const tdm_rotary rotary = {TDM_F32, (int32_t)cfg->head_dim, (int32_t)positions, cfg->rope_interleaved};
    tdm_kv_append_desc append = TDM_INIT(tdm_kv_append_desc);
    append.k = append.v = by_heads(activations, cfg->kv_heads, max_rows, cfg->head_dim);
    append.cache = cache->desc;
    append.rotary = rotary;
    tdm_gqa_desc attend;
    tdm_gqa_desc_init(&attend);
    attend.q = attend.out = by_heads(activations, cfg->heads, max_rows, cfg->head_dim);
    attend.cache = cache->desc;
    attend.rotary = rotary;
    return create_rotary(a, cfg, positions, err) &&
           check(err, tdm_kv_append_create(a->at->ctx, a->at->id, &append, &a->ops[APPEND]), "kv_append") &&
           check(err, tdm_gqa_create(a->at->ctx, a->at->id, &attend, &a->ops[ATTEND]), "gqa");
}

bool attention_create(attention *a, const config *cfg, const kv_cache *cache, tdm_dtype activations, int64_t max_rows,
                      error *err)
{
    *a = (attention){.at = cache->at};
    return create_ops(a, cfg, cache, activations, max_rows, err) &&
           device_workspaces(a->at, a->ops, OPS, a->workspaces, err);
}

void attention_destroy(attention *a)
{
    for (int i = 0; i < OPS; i++) {
        tdm_workspace_destroy(a->workspaces[i]);
        tdm_op_destroy(a->ops[i]);
    }
    *a = (attention){0};
}

bool attention_run(const attention *a, const kv_cache *cache, int64_t layer, const void *q, const void *k,
                   const void *v, int64_t rows, int64_t pos, void *out, error *err)
{
    const int32_t new_len = (int32_t)rows, position = (int32_t)pos, kv_len = new_len + position;
    void *stream = a->at->stream;

    tdm_kv_append_args append = TDM_INIT(tdm_kv_append_args);
    append.k = k;
    append.v = v;
    append.cache = cache->layers[layer];
    append.new_len = &new_len;
    append.pos = &position;
    append.cos = a->cosine;
    append.sin = a->sine;
    if (!check(err, tdm_kv_append_run(a->ops[APPEND], a->workspaces[APPEND], stream, &append), "kv_append")) {
        return false;
    }

    tdm_gqa_args attend = TDM_INIT(tdm_gqa_args);
    attend.q = q;
    attend.cache = cache->layers[layer];
    attend.q_len = &new_len;
    attend.kv_len = &kv_len;
    attend.cos = a->cosine;
    attend.sin = a->sine;
    attend.out = out;
    return check(err, tdm_gqa_run(a->ops[ATTEND], a->workspaces[ATTEND], stream, &attend), "gqa");
}
