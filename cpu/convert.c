/* kv_append, quantize and dequantize: rows converted in batches large enough to be worth a thread. */
#include "rows.h"

enum { GRAIN = 1 << 14 }; /* elements a task converts */

typedef void convert_rows(const struct leaf_table *leaf, struct head_rows from, struct head_rows to, int64_t n,
                          int64_t channels);

/* ---- kv_append --------------------------------------------------------------- */

struct append {
    const tdm_kv_append_desc *desc;
    const tdm_kv_append_args *args;
    const struct leaf_table *leaf;
    int64_t heads_per_task;
};

static void append_head(const struct append *a, int64_t b, int64_t h)
{
    const tdm_kv_append_desc *d = a->desc;
    const tdm_kv_data *cache = &a->args->cache;
    int64_t n = a->args->new_len[b], pos = a->args->pos[b];
    rows_store(a->leaf, head_rows(&d->k, a->args->k, NULL, b, h, 0),
               head_rows(&d->cache.k, cache->k, cache->k_scale, b, h, pos), n, d->k.dim[3]);
    rows_store(a->leaf, head_rows(&d->v, a->args->v, NULL, b, h, 0),
               head_rows(&d->cache.v, cache->v, cache->v_scale, b, h, pos), n, d->v.dim[3]);
}

static void append_task(void *arg, int64_t task, int worker)
{
    (void)worker;
    const struct append *a = arg;
    int64_t heads = a->desc->k.dim[1], all = a->desc->k.dim[0] * heads;
    for (int64_t i = task * a->heads_per_task; i < min64((task + 1) * a->heads_per_task, all); i++)
        append_head(a, i / heads, i % heads);
}

static tdm_status append_run(const struct tdm_op *op, const struct run *run)
{
    const tdm_kv_append_desc *d = &op->desc.kv_append;
    struct append a = {d, run->args, cpu_leaf_for(op, &run->lengths), 1};
    int64_t elements = max64(1, run->lengths.q_len * (d->k.dim[3] + d->v.dim[3]));
    a.heads_per_task = max64(1, GRAIN / elements);
    op->services->parallel_for(op->services->ctx, ceil_div(d->k.dim[0] * d->k.dim[1], a.heads_per_task), append_task,
                               &a);
    return TDM_OK;
}

const struct impl cpu_kv_append = {.name = "append", .op = OP_KV_APPEND, .run = append_run};

/* ---- quantize and dequantize ---------------------------------------------------- */

struct conversion {
    const tdm_convert_desc *desc;
    const tdm_convert_args *args;
    const struct leaf_table *leaf;
    convert_rows *rows;
    int64_t rows_per_task, tasks_per_head;
};

static void convert_task(void *arg, int64_t task, int worker)
{
    (void)worker;
    const struct conversion *c = arg;
    const tdm_tensor *src = &c->desc->src, *dst = &c->desc->dst;
    int64_t head = task / c->tasks_per_head, first = task % c->tasks_per_head * c->rows_per_task;
    int64_t b = head / src->dim[1], h = head % src->dim[1];
    float *scale = c->args->scale;
    c->rows(c->leaf, head_rows(src, c->args->src, src->scaling ? scale : NULL, b, h, first),
            head_rows(dst, c->args->dst, dst->scaling ? scale : NULL, b, h, first),
            min64(c->rows_per_task, src->dim[2] - first), src->dim[3]);
}

static tdm_status convert_run(const struct tdm_op *op, const struct run *run, convert_rows *rows)
{
    const tdm_convert_desc *d = &op->desc.convert;
    if (d->src.dim[2] == 0 || d->src.dim[3] == 0)
        return TDM_OK;
    struct conversion c = {d, run->args, cpu_leaf_for(op, &run->lengths), rows, 1, 1};
    c.rows_per_task = min64(max64(1, GRAIN / d->src.dim[3]), d->src.dim[2]);
    c.tasks_per_head = ceil_div(d->src.dim[2], c.rows_per_task);
    op->services->parallel_for(op->services->ctx, d->src.dim[0] * d->src.dim[1] * c.tasks_per_head, convert_task, &c);
    return TDM_OK;
}

static tdm_status quantize_run(const struct tdm_op *op, const struct run *run)
{
    return convert_run(op, run, rows_store);
}

static tdm_status dequantize_run(const struct tdm_op *op, const struct run *run)
{
    return convert_run(op, run, rows_load);
}

const struct impl cpu_quantize = {.name = "quantize", .op = OP_QUANTIZE, .run = quantize_run};
const struct impl cpu_dequantize = {.name = "dequantize", .op = OP_DEQUANTIZE, .run = dequantize_run};
