#include "model.h"

#include <stdlib.h>

#include "layers.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool create_buffers(model *m, error *err)
{
    const config *cfg = &m->from->cfg;
    const struct {
        float **buffer;
        int64_t rows, width;
    } all[] = {
        {&m->x, m->chunk, cfg->hidden},
        {&m->normed, m->chunk, cfg->hidden},
        {&m->gate, m->chunk, cfg->ffn},
        {&m->up, m->chunk, cfg->ffn},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i].buffer = malloc((size_t)(all[i].rows * all[i].width) * sizeof(float));
        if (*all[i].buffer == NULL) {
            return fail(err, "model: no memory for %lld rows", (long long)all[i].rows);
        }
    }
    return true;
}

static bool open_devices(model *m, const model_settings *settings, error *err)
{
    tdm_options options = TDM_INIT(tdm_options);
    options.threads = settings->threads;
    return check(err, tdm_open(TDM_VERSION, &options, &m->ctx), "open") && device_open(&m->cpu, m->ctx, TDM_CPU, err) &&
           (settings->device == TDM_CPU || device_open(&m->gpu, m->ctx, settings->device, err));
}

static bool create_parts(model *m, const model_settings *settings, error *err)
{
    const config *cfg = &m->from->cfg;
    if (!open_devices(m, settings, err) || !create_buffers(m, err)) {
        return false;
    }
    device *matmuls = settings->device == TDM_CPU ? &m->cpu : &m->gpu;
    device *attention = settings->attention == TDM_CPU ? &m->cpu : matmuls;
    return upload(&m->weights, &m->from->weights, cfg, matmuls, &m->uploaded, err) &&
           kv_cache_create(&m->cache, attention, cfg, m->context, settings->k, settings->v, settings->measured, err) &&
           ops_create(&m->ops, matmuls, cfg, &m->weights, &m->cache, settings->activations, m->chunk,
                      smaller(m->chunk, LOGIT_ROWS), err);
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
    upload_close(&m->weights);
    device_close(&m->gpu);
    device_close(&m->cpu);
    tdm_close(m->ctx);
    float *const buffers[] = {m->x, m->normed, m->gate, m->up};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
        free(buffers[i]);
    }
    *m = (model){0};
}

/* x += attention(norm(x)) */
static bool attention_block(model *m, int64_t layer, int64_t rows, int64_t pos, error *err)
{
    const config *cfg = &m->from->cfg;
    const layer_weights *w = &m->weights.layers[layer];
    rms_norm(m->x, w->attention_norm, rows, cfg->hidden, cfg->eps, m->normed);
    if (!ops_attend(&m->ops, w, &m->cache, layer, m->normed, rows, pos, m->normed, err)) {
        return false;
    }
    add(m->x, m->normed, rows * cfg->hidden);
    return true;
}

/* x += down(silu(gate(norm(x))) * up(norm(x))) */
static bool ffn_block(model *m, int64_t layer, int64_t rows, error *err)
{
    const config *cfg = &m->from->cfg;
    const layer_weights *w = &m->weights.layers[layer];
    rms_norm(m->x, w->ffn_norm, rows, cfg->hidden, cfg->eps, m->normed);
    if (!ops_multiply(&m->ops, (const matrix *[]){&w->gate, &w->up}, 2, m->normed, rows, (float *[]){m->gate, m->up},
                      err)) {
        return false;
    }
    swiglu(m->gate, m->up, rows * cfg->ffn);
    if (!ops_multiply(&m->ops, (const matrix *[]){&w->down}, 1, m->gate, rows, &m->normed, err)) {
        return false;
    }
    add(m->x, m->normed, rows * cfg->hidden);
    return true;
}

bool model_forward(model *m, const int32_t *tokens, int64_t count, int64_t pos, error *err)
{
    const config *cfg = &m->from->cfg;
    const weights *w = &m->weights;
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
    return ops_multiply(&m->ops, (const matrix *[]){&m->weights.head}, 1, rows, count, &logits, err);
}
