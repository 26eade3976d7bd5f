#include "weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { E4M3_NAN = 0x7f, E8M0_NAN = 0xff };

static float e4m3_value(uint8_t code)
{
    int exponent = code >> 3 & 15, mantissa = code & 7;
    float magnitude = exponent == 0 ? ldexpf((float)mantissa, -9) : ldexpf((float)(8 + mantissa), exponent - 10);
    return code & 0x80 ? -magnitude : magnitude;
}

static float scale_value(const void *scales, tdm_dtype dtype, int64_t i)
{
    if (dtype == TDM_F32) {
        return ((const float *)scales)[i];
    }
    if (dtype == TDM_E8M0) {
        uint8_t exponent = ((const uint8_t *)scales)[i];
        return exponent == E8M0_NAN ? NAN : ldexpf(1, exponent - 127);
    }
    uint32_t bits = (uint32_t)((const uint16_t *)scales)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int64_t scale_count(const matrix *m)
{
    return (1 + (m->rows - 1) / m->block[0]) * (1 + (m->columns - 1) / m->block[1]);
}

size_t matrix_scale_bytes(const matrix *m)
{
    const size_t size = m->scale_dtype == TDM_F32 ? 4 : m->scale_dtype == TDM_BF16 ? 2 : 1;
    return (size_t)scale_count(m) * size;
}

static bool check_values(const matrix *m, const char *name, error *err)
{
    const int64_t count = m->rows * m->columns, scales = scale_count(m);
    int64_t nans = 0;
    for (int64_t i = 0; i < count; i++) {
        nans += (m->codes[i] & 0x7f) == E4M3_NAN;
    }
    if (nans > 0) {
        return fail(err, "%s.weight: holds %lld NaN", name, (long long)nans);
    }
    for (int64_t i = 0; i < scales; i++) {
        if (!isfinite(scale_value(m->scales, m->scale_dtype, i))) {
            return fail(err, "scale of %s.weight: number %lld is not finite", name, (long long)i);
        }
    }
    return true;
}

/* Public checkpoints know two names for scales, and a usual block for each. */
static bool load_scales(matrix *m, const config *cfg, const safetensors *file, const char *name, error *err)
{
    static const struct {
        const char *suffix;
        int64_t block[2];
    } forms[] = {{"weight_scale", {1, 128}}, {"weight_scale_inv", {128, 128}}};
    static const struct {
        st_dtype stored;
        tdm_dtype dtype;
    } dtypes[] = {{ST_F32, TDM_F32}, {ST_BF16, TDM_BF16}, {ST_F8_E8M0, TDM_E8M0}};

    char key[160];
    const st_tensor *scale = NULL;
    for (int i = 0; i < 2; i++) {
        snprintf(key, sizeof key, "%s.%s", name, forms[i].suffix);
        const st_tensor *found = st_find(file, key);
        if (found != NULL && scale != NULL) {
            return fail(err, "%s.weight: has a weight_scale and a weight_scale_inv", name);
        }
        if (found != NULL) {
            scale = found;
            memcpy(m->block, cfg->block[0] > 0 ? cfg->block : forms[i].block, sizeof m->block);
        }
    }
    if (scale == NULL) {
        return fail(err, "%s.weight_scale: this tensor is missing, and so is its weight_scale_inv", name);
    }
    const int64_t dim[2] = {1 + (m->rows - 1) / m->block[0], 1 + (m->columns - 1) / m->block[1]};
    for (int i = 0; i < 3; i++) {
        if (scale->dtype == dtypes[i].stored) {
            m->scale_dtype = dtypes[i].dtype;
            m->scales = scale->data;
            return st_require(file, scale->name, scale->dtype, 2, dim, err) != NULL;
        }
    }
    return fail(err, "dtype of %s: got %s, want F32, BF16 or F8_E8M0", scale->name, st_dtype_name(scale->dtype));
}

static bool load_matrix(matrix *m, const config *cfg, const safetensors *file, const char *name, int64_t rows,
                        int64_t columns, error *err)
{
    char key[160];
    snprintf(key, sizeof key, "%s.weight", name);
    const st_tensor *tensor = st_require(file, key, ST_F8_E4M3, 2, (int64_t[]){rows, columns}, err);
    if (tensor == NULL) {
        return false;
    }
    *m = (matrix){.rows = rows, .columns = columns, .codes = tensor->data};
    return load_scales(m, cfg, file, name, err) && check_values(m, name, err);
}

static bool load_norm(const float **norm, const config *cfg, const safetensors *file, const char *name, error *err)
{
    char key[160];
    snprintf(key, sizeof key, "%s.weight", name);
    const st_tensor *tensor = st_require(file, key, ST_F32, 1, (int64_t[]){cfg->hidden}, err);
    if (tensor == NULL) {
        return false;
    }
    *norm = tensor->data;
    for (int64_t i = 0; i < cfg->hidden; i++) {
        if (!isfinite((*norm)[i])) {
            return fail(err, "%s: number %lld is not finite", key, (long long)i);
        }
    }
    return true;
}

static bool load_layer(layer_weights *l, const config *cfg, const safetensors *file, int64_t layer, error *err)
{
    const int64_t q_width = cfg->heads * cfg->head_dim, kv_width = cfg->kv_heads * cfg->head_dim;
    const struct {
        const char *name;
        matrix *m;
        int64_t rows, columns;
    } matrices[] = {
        {"self_attn.q_proj", &l->q, q_width, cfg->hidden},  {"self_attn.k_proj", &l->k, kv_width, cfg->hidden},
        {"self_attn.v_proj", &l->v, kv_width, cfg->hidden}, {"self_attn.o_proj", &l->o, cfg->hidden, q_width},
        {"mlp.gate_proj", &l->gate, cfg->ffn, cfg->hidden}, {"mlp.up_proj", &l->up, cfg->ffn, cfg->hidden},
        {"mlp.down_proj", &l->down, cfg->hidden, cfg->ffn},
    };
    const struct {
        const char *name;
        const float **norm;
    } norms[] = {{"input_layernorm", &l->attention_norm}, {"post_attention_layernorm", &l->ffn_norm}};

    char name[128];
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        snprintf(name, sizeof name, "model.layers.%lld.%s", (long long)layer, matrices[i].name);
        if (!load_matrix(matrices[i].m, cfg, file, name, matrices[i].rows, matrices[i].columns, err)) {
            return false;
        }
    }
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) {
        snprintf(name, sizeof name, "model.layers.%lld.%s", (long long)layer, norms[i].name);
        if (!load_norm(norms[i].norm, cfg, file, name, err)) {
            return false;
        }
    }
    return true;
}

static bool load_all(weights *w, const config *cfg, const safetensors *file, error *err)
{
    if (!load_matrix(&w->embedding, cfg, file, "model.embed_tokens", cfg->vocab, cfg->hidden, err) ||
        !load_norm(&w->final_norm, cfg, file, "model.norm", err)) {
        return false;
    }
    w->head = w->embedding; /* tied, unless the file has a head of its own */
    if (st_find(file, "lm_head.weight") != NULL &&
        !load_matrix(&w->head, cfg, file, "lm_head", cfg->vocab, cfg->hidden, err)) {
        return false;
    }
    w->layers = calloc((size_t)cfg->layers, sizeof *w->layers);
    if (w->layers == NULL) {
        return fail(err, "weights: no memory");
    }
    for (int64_t i = 0; i < cfg->layers; i++) {
        if (!load_layer(&w->layers[i], cfg, file, i, err)) {
            return false;
        }
    }
    return true;
}

bool weights_open(weights *w, const config *cfg, const safetensors *file, error *err)
{
    *w = (weights){0};
    if (!load_all(w, cfg, file, err)) {
        weights_close(w);
        return false;
    }
    return true;
}

void weights_close(weights *w)
{
    free(w->layers);
    *w = (weights){0};
}

void matrix_row(const matrix *m, int64_t row, float *out)
{
    const uint8_t *codes = m->codes + row * m->columns;
    const int64_t first = row / m->block[0] * (1 + (m->columns - 1) / m->block[1]);
    for (int64_t i = 0; i < m->columns; i++) {
        out[i] = e4m3_value(codes[i]) * scale_value(m->scales, m->scale_dtype, first + i / m->block[1]);
    }
}
