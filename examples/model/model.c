#include "model.h"

#include <stdlib.h>

#include "layers.h"

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool create_buffers(model *m, error *err)
{
    const config *cfg = &m->from->cfg;
    const int64_t q_width = cfg->heads * cfg->head_dim, kv_width = cfg->kv_heads * cfg->head_dim;
    const struct {
        float **buffer;
        int64_t rows, width;
    } all[] = {
        {&m->x, m->chunk, cfg->hidden}, {&m->normed, m->chunk, cfg->hidden}, {&m->q, m->chunk, q_width},
        {&m->k, m->chunk, kv_width},    {&m->v, m->chunk, kv_width},         {&m->attended, m->chunk, q_width},
        {&m->gate, m->chunk, cfg->ffn}, {&m->up, m->chunk, cfg->ffn},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i].buffer = malloc((size_t)(all[i].rows * all[i].width) * sizeof(float));
        if (*all[i].buffer == NULL) {
            return fail(err, "model: no memory for %lld rows", (long long)all[i].rows);
        }
    }
    return true;
}

static bool create_parts(model *m, const model_settings *settings, error *err)
{
    const config *cfg = &m->from->cfg;
    tdm_options options = TDM_INIT(tdm_options);
    options.threads = settings->threads;
    if (!check(err, tdm_open(TDM_VERSION, &options, &m->ctx), "open") || !create_buffers(m, err) ||
        !kv_cache_create(&m->cache, m->ctx, cfg, m->context, settings->k, settings->v, settings->measured, err)) {
        return false;
    }
    int64_t widest = larger(larger(cfg->hidden, cfg->ffn), cfg->heads * cfg->head_dim);
    int64_t max_values = larger(m->chunk * widest, LOGIT_ROWS * cfg->vocab);
    return ops_create(&m->ops, m->ctx, cfg, &m->from->weights, &m->cache, settings->activations, m->chunk, max_values,
                      err);
}

bool model_create(model *m, const checkpoint *from, const model_settings *settings, error *err)
{
    *m = (model){.from = from, .chunk = settings->chunk, .context = settings->context};
    if (create_parts(m, settings, err)) {
        return true;
    }
    model_destroy(m);
    return false;
}

void model_destroy(model *m)
{
    ops_destroy(&m->ops);
    kv_cache_destroy(&m->cache);
    tdm_close(m->ctx);
    float *const buffers[] = {m->x, m->normed, m->q, m->k, m->v, m->attended, m->gate, m->up};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
        free(buffers[i]);
    }
    *m = (model){0};
}

/* x += attention(norm(x)) */
static bool attention_block(model *m, int64_t layer, int64_t rows, int64_t pos, error *err)
{
    const config *cfg = &m->from->cfg;
    const layer_weights *w = &m->from->weights.layers[layer];
    rms_norm(m->x, w->attention_norm, rows, cfg->hidden, cfg->eps, m->normed);
    if (!ops_multiply(&m->ops, &w->q, m->normed, rows, m->q, err) ||
        !ops_multiply(&m->ops, &w->k, m->normed, rows, m->k, err) ||
        !ops_multiply(&m->ops, &w->v, m->normed, rows, m->v, err)) {
        return false;
    }
    if (!ops_attend(&m->ops, &m->cache, layer, m->q, m->k, m->v, rows, pos, m->attended, err) ||
        !ops_multiply(&m->ops, &w->o, m->attended, rows, m->normed, err)) {
        return false;
    }
    add(m->x, m->normed, rows * cfg->hidden);
    return true;
}

/* x += down(silu(gate(norm(x))) * up(norm(x))) */
static bool ffn_block(model *m, int64_t layer, int64_t rows, error *err)
{
    const config *cfg = &m->from->cfg;
    const layer_weights *w = &m->from->weights.layers[layer];
    rms_norm(m->x, w->ffn_norm, rows, cfg->hidden, cfg->eps, m->normed);
    if (!ops_multiply(&m->ops, &w->gate, m->normed, rows, m->gate, err) ||
        !ops_multiply(&m->ops, &w->up, m->normed, rows, m->up, err)) {
        return false;
    }
    swiglu(m->gate, m->up, rows * cfg->ffn);
    if (!ops_multiply(&m->ops, &w->down, m->gate, rows, m->normed, err)) {
        return false;
    }
    add(m->x, m->normed, rows * cfg->hidden);
    return true;
}

bool model_forward(model *m, const int32_t *tokens, int64_t count, int64_t pos, error *err)
{
    const config *cfg = &m->from->cfg;
    const weights *w = &m->from->weights;
    if (pos + count > m->context) {
        return fail(err, "context: %lld tokens do not fit into %lld", (long long)(pos + count), (long long)m->context);
    }
    for (int64_t i = 0; i < count; i++) {
        matrix_row(&w->embedding, tokens[i], m->x + i * cfg->hidden);
    }
    for (int64_t layer = 0; layer < cfg->layers; layer++) {
        if (!attention_block(m, layer, count, pos, err) || !ffn_block(m, layer, count, err)) {
            return false;
        }
    }
    rms_norm(m->x, w->final_norm, count, cfg->hidden, cfg->eps, m->normed);
    return true;
}

bool model_logits(model *m, int64_t first, int64_t count, float *logits, error *err)
{
    const float *rows = m->normed + first * m->from->cfg.hidden;
    return ops_multiply(&m->ops, &m->from->weights.head, rows, count, logits, err);
}
