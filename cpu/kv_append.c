/* kv_append: each head's new rows prepared, stored in runs of neighbouring rows, and what it kept elsewhere copied. */
#include "prepare.h"
#include "ring.h"
#include "rows.h"

enum {
    GRAIN = 1 << 14, /* elements a task stores at least         */
    TASKS = 2,       /* for each thread, where there are more   */
    TURN = 32,       /* tokens of a head before the next head's */
};

struct append {
    const tdm_kv_append_desc *desc;
    const tdm_kv_append_args *args;
    const struct leaf_table *leaf;
    int64_t heads_per_task;
};

/* New keys [first, first + n) of a sequence become the rows `to`. */
static void store_keys(const struct append *a, int64_t b, int64_t h, int64_t first, int64_t n, struct head_rows to)
{
    const tdm_kv_append_desc *d = a->desc;
    const tdm_kv_append_args *args = a->args;
    struct head_rows from = head_rows(&d->k, args->k, NULL, b, h, first);
    int channels = (int)d->k.dim[3];
    if (!d->k_norm.dtype && !d->rotary.dtype && !d->cache.has_k_offset && !d->cache.rotate_k) {
        rows_store(a->leaf, from, to, n, channels);
        return;
    }
    const float *offset = d->cache.has_k_offset ? args->cache.k_offset + h * channels : NULL;
    for (int64_t i = 0; i < n; i++) {
        float x[MAX_HEAD_DIM];
        int64_t token = b * d->k.dim[2] + first + i;
        rows_load(a->leaf, rows_from(from, i), plain_row(x), 1, channels);
        row_norm(a->leaf, &d->k_norm, args->k_norm, x, channels);
        row_turn(a->leaf, &d->rotary, args->cos, args->sin,
                 args->positions ? args->positions[token] : args->pos[b] + first + i, false, x);
        row_offset(offset, false, x, channels);
        if (d->cache.rotate_k)
            row_rotate(a->leaf, x, channels);
        rows_store(a->leaf, plain_row(x), rows_from(to, i), 1, channels);
    }
}

static void store_values(const struct append *a, int64_t b, int64_t h, int64_t first, int64_t n, struct head_rows to)
{
    struct head_rows from = head_rows(&a->desc->v, a->args->v, NULL, b, h, first);
    int channels = (int)a->desc->v.dim[3];
    if (!a->desc->cache.rotate_v) {
        rows_store(a->leaf, from, to, n, channels);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        float x[MAX_HEAD_DIM];
        rows_load(a->leaf, rows_from(from, i), plain_row(x), 1, channels);
        row_rotate(a->leaf, x, channels);
        rows_store(a->leaf, plain_row(x), rows_from(to, i), 1, channels);
    }
}

static void copy_past(const struct append *a, int64_t b, int64_t h)
{
    const tdm_kv_cache *past = &a->desc->past, *cache = &a->desc->cache;
    const tdm_kv_data *from = &a->args->past, *to = &a->args->cache;
    int64_t n = a->args->pos[b];
    rows_copy(head_rows(&past->k, from->k, from->k_scale, b, h, 0), head_rows(&cache->k, to->k, to->k_scale, b, h, 0),
              n, cache->k.dim[3]);
    rows_copy(head_rows(&past->v, from->v, from->v_scale, b, h, 0), head_rows(&cache->v, to->v, to->v_scale, b, h, 0),
              n, cache->v.dim[3]);
}

/* Of a token the heads often lie side by side: each takes some tokens in turn, so that what is near is read together. */
static void append_heads(const struct append *a, int64_t b, int64_t first, int64_t end)
{
    const tdm_kv_cache *cache = &a->desc->cache;
    const tdm_kv_data *data = &a->args->cache;
    for (int64_t h = first; h < end && a->desc->past.k.rank; h++)
        copy_past(a, b, h);
    for (int64_t i = 0, n; i < a->args->new_len[b]; i += n) {
        int64_t row = ring_row(cache, a->args->pos[b] + i);
        n = min64(min64(a->args->new_len[b] - i, cache->k.dim[2] - row), TURN);
        for (int64_t h = first; h < end; h++) {
            store_keys(a, b, h, i, n, head_rows(&cache->k, data->k, data->k_scale, b, h, row));
            store_values(a, b, h, i, n, head_rows(&cache->v, data->v, data->v_scale, b, h, row));
        }
    }
}

static void append_task(void *arg, int64_t task, int worker)
{
    (void)worker;
    const struct append *a = arg;
    int64_t heads = a->desc->k.dim[1], i = task * a->heads_per_task;
    int64_t end = min64(i + a->heads_per_task, a->desc->k.dim[0] * heads);
    for (int64_t n; i < end; i += n) {
        n = min64(end - i, heads - i % heads);
        append_heads(a, i / heads, i % heads, i % heads + n);
    }
}

static tdm_status append_run(const struct tdm_op *op, const struct run *run)
{
    const tdm_kv_append_desc *d = &op->desc.kv_append;
    struct append a = {d, run->args, cpu_leaf_for(op, &run->lengths), 1};
    int64_t rows = run->lengths.q_len;
    for (int64_t b = 0; b < d->k.dim[0] && d->past.k.rank; b++)
        rows = max64(rows, a.args->pos[b]);
    int64_t heads = d->k.dim[0] * d->k.dim[1], share = ceil_div(heads, TASKS * op->services->threads);
    a.heads_per_task = max64(share, GRAIN / max64(1, rows * (d->k.dim[3] + d->v.dim[3])));
    op->services->parallel_for(op->services->ctx, ceil_div(heads, a.heads_per_task), append_task, &a);
    return TDM_OK;
}

const struct impl cpu_kv_append = {.name = "append", .op = OP_KV_APPEND, .run = append_run};
