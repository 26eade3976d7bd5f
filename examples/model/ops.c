#include "ops.h"

#include "half.h"

enum { ALIGNMENT = 64 }; /* bytes: of each output in the buffer of a group */

static int64_t element(const ops *o)
{
    return o->activations == TDM_F32 ? 4 : 2;
}

/* Whether ops read and write the model's own rows. */
static bool is_direct(const ops *o)
{
    return o->activations == TDM_F32 && o->matmuls->id.kind == TDM_CPU;
}

/* ---- Creation ---- */

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool create_buffers(ops *o, const config *cfg, int64_t max_rows, int64_t logit_rows, error *err)
{
    const int64_t q_width = cfg->heads * cfg->head_dim, kv_width = cfg->kv_heads * cfg->head_dim;
    const int64_t widest_in = larger(cfg->hidden, cfg->ffn);
    const int64_t widest_out = larger(larger(cfg->hidden, q_width + 2 * kv_width), 2 * cfg->ffn);
    const int64_t out = larger(max_rows * widest_out, logit_rows * cfg->vocab);
    const struct {
        buffer *b;
        int64_t values;
    } all[] = {{&o->in, max_rows * widest_in}, {&o->out, out}, {&o->attended, max_rows * q_width}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const size_t bytes = (size_t)(all[i].values * element(o)) + (size_t)MAX_GROUP * ALIGNMENT;
        if (!device_buffer(o->matmuls, bytes, all[i].b, err)) {
            return false;
        }
    }
    return true;
}

bool ops_create(ops *o, device *matmuls, const config *cfg, const weights *w, const kv_cache *cache,
                tdm_dtype activations, int64_t max_rows, int64_t logit_rows, error *err)
{
    *o = (ops){.activations = activations, .matmuls = matmuls};
    if (create_buffers(o, cfg, max_rows, logit_rows, err) &&
        products_create(&o->products, matmuls, cfg, w, activations, max_rows, err) &&
        attention_create(&o->attention, cfg, cache, activations, max_rows, err)) {
        return true;
    }
    ops_destroy(o);
    return false;
}

void ops_destroy(ops *o)
{
    products_destroy(&o->products);
    attention_destroy(&o->attention);
    *o = (ops){0};
}

/* ---- There and back ---- */

/* Start a trip with the input of matrix products; `there` receives where they find it. */
static bool depart(const ops *o, const float *in, int64_t count, const void **there, error *err)
{
    if (!device_start(o->matmuls, err)) {
        return false;
    }
    *there = is_direct(o) ? in : o->in.there;
    if (is_direct(o)) {
        return true;
    }
    narrow(in, count, o->activations, o->in.host);
    return device_send(o->matmuls, &o->in, (size_t)(count * element(o)), err);
}

/* Bring the first bytes of the output to the host and wait. */
static bool arrive(const ops *o, size_t bytes, error *err)
{
    return device_fetch(o->matmuls, &o->out, bytes, err) && device_sync(o->matmuls, err);
}

/* Where the outputs of matrices that share an input lie in the buffer: one behind the other, to cross as one. */
typedef struct group {
    size_t offset[MAX_GROUP], bytes;
} group;

static group lay_out(const ops *o, const matrix *const *m, int count, int64_t rows)
{
    group g = {.bytes = 0};
    for (int i = 0; i < count; i++) {
        g.offset[i] = g.bytes;
        g.bytes += (size_t)(rows * m[i]->rows * element(o) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return g;
}

static bool multiply(const ops *o, const matrix *const *m, int count, const void *in, int64_t rows, void *const *out,
                     error *err)
{
    bool ok = true;
    for (int i = 0; ok && i < count; i++) {
        ok = products_run(&o->products, m[i], in, rows, out[i], err);
    }
    return ok && device_lap(o->matmuls, MATMULS, err);
}

bool ops_multiply(const ops *o, const matrix *const *m, int count, const float *in, int64_t rows, float *const *out,
                  error *err)
{
    const group g = lay_out(o, m, count, rows);
    const void *a;
    void *there[MAX_GROUP];
    for (int i = 0; i < count; i++) {
        there[i] = is_direct(o) ? (void *)out[i] : (char *)o->out.there + g.offset[i];
    }
    if (!depart(o, in, rows * m[0]->columns, &a, err) || !multiply(o, m, count, a, rows, there, err) ||
        !arrive(o, g.bytes, err)) {
        return false;
    }
    for (int i = 0; i < count && !is_direct(o); i++) {
        widen((char *)o->out.host + g.offset[i], rows * m[i]->rows, o->activations, out[i]);
    }
    return true;
}

/* ---- Attention ---- */

static bool is_split(const ops *o)
{
    return o->attention.at != o->matmuls;
}

/* From q, k and v in the output buffer to the buffer of what was attended: on the matmuls' device in the same trip, or
 * on the host between two. */
static bool attend(const ops *o, const group *g, const kv_cache *cache, int64_t layer, int64_t rows, int64_t pos,
                   size_t bytes, error *err)
{
    device *d = o->attention.at;
    if (is_split(o) && (!arrive(o, g->bytes, err) || !device_start(d, err))) {
        return false;
    }
    const char *qkv = is_split(o) ? o->out.host : o->out.there;
    void *out = is_split(o) ? o->attended.host : o->attended.there;
    if (!attention_run(&o->attention, cache, layer, qkv + g->offset[0], qkv + g->offset[1], qkv + g->offset[2], rows,
                       pos, out, err) ||
        !device_lap(d, ATTENTION, err)) {
        return false;
    }
    return !is_split(o) ||
           (device_sync(d, err) && device_start(o->matmuls, err) && device_send(o->matmuls, &o->attended, bytes, err));
}

bool ops_attend(const ops *o, const layer_weights *w, const kv_cache *cache, int64_t layer, const float *in,
                int64_t rows, int64_t pos, float *out, error *err)
{
    const matrix *const qkv[MAX_GROUP] = {&w->q, &w->k, &w->v}, *const last[] = {&w->o};
    const group g = lay_out(o, qkv, MAX_GROUP, rows);
    char *base = o->out.there;
    void *const there[MAX_GROUP] = {base + g.offset[0], base + g.offset[1], base + g.offset[2]};
    void *const result[] = {is_direct(o) ? (void *)out : o->out.there};
    const void *a;
    if (!depart(o, in, rows * w->q.columns, &a, err) || !multiply(o, qkv, MAX_GROUP, a, rows, there, err) ||
        !attend(o, &g, cache, layer, rows, pos, (size_t)(rows * w->o.columns * element(o)), err) ||
        !multiply(o, last, 1, o->attended.there, rows, result, err) ||
        !arrive(o, lay_out(o, last, 1, rows).bytes, err)) {
        return false;
    }
    if (!is_direct(o)) {
        widen(o->out.host, rows * w->o.rows, o->activations, out);
    }
    return true;
}
