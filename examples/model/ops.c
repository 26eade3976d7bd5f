#include "ops.h"

#include <stdlib.h>

#include "half.h"
#include "layers.h"

static const tdm_device CPU = {TDM_CPU, 0};

/* ---- 16-bit activations ---- */

/* The values in the type that ops take; staged in one of the buffers unless they are that already. */
static const void *stage(const ops *o, const float *values, int64_t count, int buffer)
{
    if (o->activations == TDM_F32) {
        return values;
    }
    narrow(values, count, o->activations, o->staging[buffer]);
    return o->staging[buffer];
}

/* Where an op is to write what shall end up in `out`, and the way from there. */
static void *stage_out(const ops *o, float *out)
{
    return o->activations == TDM_F32 ? (void *)out : o->staging[STAGING_BUFFERS - 1];
}

static void unstage(const ops *o, float *out, int64_t count)
{
    if (o->activations != TDM_F32) {
        widen(o->staging[STAGING_BUFFERS - 1], count, o->activations, out);
    }
}

/* ---- Creation ---- */

static bool create_workspace(const tdm_op *op, tdm_workspace **workspace, error *err)
{
    size_t bytes;
    if (!check(err, tdm_workspace_size(op, &bytes), "workspace")) {
        return false;
    }
    return bytes == 0 || check(err, tdm_workspace_create(op, NULL, 0, workspace), "workspace");
}

static bool is_like(const matrix *a, const matrix *b)
{
    return a->rows == b->rows && a->columns == b->columns && a->scale_dtype == b->scale_dtype &&
           a->block[0] == b->block[0] && a->block[1] == b->block[1];
}

static const product *find_product(const ops *o, const matrix *m)
{
    for (int i = 0; i < o->product_count; i++) {
        if (is_like(&o->products[i].like, m)) {
            return &o->products[i];
        }
    }
    return NULL;
}

/* Make the op for a matrix, unless there is one already. */
static bool add_product(ops *o, const matrix *m, error *err)
{
    if (find_product(o, m) != NULL) {
        return true;
    }
    if (o->product_count == MAX_PRODUCTS) {
        return fail(err, "weights: more than %d different shapes and scales", MAX_PRODUCTS);
    }
    tdm_fp8_matmul_desc desc = TDM_INIT(tdm_fp8_matmul_desc);
    desc.a = (tdm_tensor){.dtype = o->activations, .rank = 2, .dim = {o->max_rows, m->columns}};
    desc.b = (tdm_tensor){
        .dtype = TDM_F8E4M3,
        .scale_dtype = m->scale_dtype,
        .rank = 2,
        .scaling = TDM_PER_BLOCK,
        .dim = {m->rows, m->columns},
        .block = {m->block[0], m->block[1]},
    };
    desc.out = (tdm_tensor){.dtype = o->activations, .rank = 2, .dim = {o->max_rows, m->rows}};
    product *p = &o->products[o->product_count++];
    p->like = *m;
    return check(err, tdm_fp8_matmul_create(o->ctx, CPU, &desc, &p->op), "fp8_matmul") &&
           create_workspace(p->op, &p->workspace, err);
}

static bool add_products(ops *o, const config *cfg, const weights *w, error *err)
{
    bool ok = add_product(o, &w->head, err);
    for (int64_t i = 0; ok && i < cfg->layers; i++) {
        const layer_weights *l = &w->layers[i];
        const matrix *const all[] = {&l->q, &l->k, &l->v, &l->o, &l->gate, &l->up, &l->down};
        for (size_t j = 0; ok && j < sizeof all / sizeof *all; j++) {
            ok = add_product(o, all[j], err);
        }
    }
    return ok;
}

/* Rows of [heads * head_dim] values as the [1, heads, rows, head_dim] that attention takes: strides, no copy. */
static tdm_tensor by_heads(const ops *o, int64_t heads, int64_t head_dim)
{
    const int64_t element = o->activations == TDM_F32 ? 4 : 2, row = heads * head_dim * element;
    return (tdm_tensor){
        .dtype = o->activations,
        .rank = 4,
        .dim = {1, heads, o->max_rows, head_dim},
        .stride = {row * o->max_rows, head_dim * element, row, element},
    };
}

static bool create_rotary(ops *o, const config *cfg, int64_t positions, error *err)
{
    const size_t bytes = (size_t)(positions * cfg->head_dim / 2) * sizeof(float);
    o->cosine = malloc(bytes);
    o->sine = malloc(bytes);
    if (o->cosine == NULL || o->sine == NULL) {
        return fail(err, "rotary embedding: no memory for %lld positions", (long long)positions);
    }
    rotary_table(positions, cfg->head_dim, cfg->rope_theta, o->cosine, o->sine);
    return true;
}

static bool create_attention(ops *o, const config *cfg, const kv_cache *cache, error *err)
{
    const int64_t positions = cache->desc.k.dim[2];
    const tdm_rotary rotary = {TDM_F32, (int32_t)cfg->head_dim, (int32_t)positions, cfg->rope_interleaved};
    tdm_kv_append_desc append = TDM_INIT(tdm_kv_append_desc);
    append.k = append.v = by_heads(o, cfg->kv_heads, cfg->head_dim);
    append.cache = cache->desc;
    append.rotary = rotary;
    tdm_gqa_desc attend;
    tdm_gqa_desc_init(&attend);
    attend.q = attend.out = by_heads(o, cfg->heads, cfg->head_dim);
    attend.cache = cache->desc;
    attend.rotary = rotary;
    return create_rotary(o, cfg, positions, err) &&
           check(err, tdm_kv_append_create(o->ctx, CPU, &append, &o->append), "kv_append") &&
           check(err, tdm_gqa_create(o->ctx, CPU, &attend, &o->attend), "gqa") &&
           create_workspace(o->append, &o->append_workspace, err) &&
           create_workspace(o->attend, &o->attend_workspace, err);
}

static bool create_staging(ops *o, int64_t max_values, error *err)
{
    for (int i = 0; i < STAGING_BUFFERS && o->activations != TDM_F32; i++) {
        o->staging[i] = malloc((size_t)max_values * sizeof *o->staging[i]);
        if (o->staging[i] == NULL) {
            return fail(err, "activations: no memory");
        }
    }
    return true;
}

bool ops_create(ops *o, tdm_ctx *ctx, const config *cfg, const weights *w, const kv_cache *cache, tdm_dtype activations,
                int64_t max_rows, int64_t max_values, error *err)
{
    *o = (ops){.ctx = ctx, .activations = activations, .max_rows = max_rows, .q_heads = cfg->heads};
    if (create_staging(o, max_values, err) && add_products(o, cfg, w, err) && create_attention(o, cfg, cache, err)) {
        return true;
    }
    ops_destroy(o);
    return false;
}

void ops_destroy(ops *o)
{
    for (int i = 0; i < o->product_count; i++) {
        tdm_workspace_destroy(o->products[i].workspace);
        tdm_op_destroy(o->products[i].op);
    }
    tdm_workspace_destroy(o->append_workspace);
    tdm_workspace_destroy(o->attend_workspace);
    tdm_op_destroy(o->append);
    tdm_op_destroy(o->attend);
    free(o->cosine);
    free(o->sine);
    for (int i = 0; i < STAGING_BUFFERS; i++) {
        free(o->staging[i]);
    }
    *o = (ops){0};
}

/* ---- Runs ---- */

bool ops_multiply(const ops *o, const matrix *m, const float *in, int64_t rows, float *out, error *err)
{
    const product *p = find_product(o, m);
    tdm_fp8_matmul_args args = TDM_INIT(tdm_fp8_matmul_args);
    args.a = stage(o, in, rows * m->columns, 0);
    args.b = m->codes;
    args.b_scale = m->scales;
    args.m = rows;
    args.out = stage_out(o, out);
    if (!check(err, tdm_fp8_matmul_run(p->op, p->workspace, NULL, &args), "fp8_matmul")) {
        return false;
    }
    unstage(o, out, rows * m->rows);
    return true;
}

bool ops_attend(const ops *o, const kv_cache *cache, int64_t layer, const float *q, const float *k, const float *v,
                int64_t rows, int64_t pos, float *out, error *err)
{
    const tdm_tensor *stored = &cache->desc.k;
    const int64_t kv_values = rows * stored->dim[1] * stored->dim[3];
    const int64_t q_values = rows * o->q_heads * stored->dim[3];
    const int32_t new_len = (int32_t)rows, position = (int32_t)pos, kv_len = new_len + position;

    tdm_kv_append_args append = TDM_INIT(tdm_kv_append_args);
    append.k = stage(o, k, kv_values, 0);
    append.v = stage(o, v, kv_values, 1);
    append.cache = cache->layers[layer];
    append.new_len = &new_len;
    append.pos = &position;
    append.cos = o->cosine;
    append.sin = o->sine;
    if (!check(err, tdm_kv_append_run(o->append, o->append_workspace, NULL, &append), "kv_append")) {
        return false;
    }

    tdm_gqa_args attend = TDM_INIT(tdm_gqa_args);
    attend.q = stage(o, q, q_values, 2);
    attend.cache = cache->layers[layer];
    attend.q_len = &new_len;
    attend.kv_len = &kv_len;
    attend.cos = o->cosine;
    attend.sin = o->sine;
    attend.out = stage_out(o, out);
    if (!check(err, tdm_gqa_run(o->attend, o->attend_workspace, NULL, &attend), "gqa")) {
        return false;
    }
    unstage(o, out, q_values);
    return true;
}
