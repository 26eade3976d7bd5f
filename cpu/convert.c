/* quantize and dequantize: rows converted in batches large enough to be worth a thread. */
#include "rows.h"

enum { GRAIN = 1 << 14 }; /* elements a task converts */

typedef void convert_rows(const struct leaf_table *leaf, struct head_rows from, struct head_rows to, int64_t n,
                          int64_t channels);

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
