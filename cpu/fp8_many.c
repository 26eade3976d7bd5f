/* Many rows of activations where the leaf table multiplies them with weights as they are stored: panels of columns, read
 * once for a chunk of rows. */
#include "fp8.h"

#include <stdio.h>
#include <string.h>

enum {
    CHUNK = 192,   /* rows of activations that share a pass over the weights */
    COLUMNS = 512, /* of a panel: the leaf prepares the activations once for all of them */
    ALIGN = 64     /* columns that the leaf takes at a time */
};

struct many_layout {
    int64_t a_stride, columns;
    size_t a, sums, scales, buffer, workers, worker_size, size;
};

/* Panels for every thread, as wide as they may be. */
static struct many_layout lay_out(const tdm_fp8_matmul_desc *d, int threads)
{
    int64_t n = d->b.dim[0], k = d->b.dim[1], blocks = k ? (k - 1) / d->b.block[1] + 1 : 0;
    struct many_layout m = {.a_stride = padded(k)};
    struct layout shared = {0}, worker = {0};
    m.columns = min64(COLUMNS, max64(1, ceil_div(ceil_div(n, threads), ALIGN)) * ALIGN);
    m.sums = layout_add(&worker, min64(CHUNK, d->a.dim[0]) * m.columns, sizeof(float));
    m.scales = layout_add(&worker, blocks * m.columns, sizeof(float));
    m.buffer = layout_add(&worker, blocks, sizeof(float));
    m.worker_size = worker.size;
    m.a = layout_add(&shared, min64(CHUNK, d->a.dim[0]) * m.a_stride, sizeof(float));
    m.workers = layout_add(&shared, threads, worker.size);
    m.size = shared.size;
    return m;
}

static size_t many_workspace(const struct tdm_op *op)
{
    const tdm_lengths any = {0};
    return cpu_leaf_for(op, &any)->fp8_many ? lay_out(&op->desc.fp8_matmul, op->services->threads).size : 0;
}

struct many {
    struct fp8 f;
    struct many_layout layout;
    float *a; /* the chunk, f32 */
    int64_t row, rows;
    char *scratch;
};

static void load_task(void *arg, int64_t row, int worker)
{
    (void)worker;
    const struct many *m = arg;
    fp8_load_activations(&m->f, m->row + row, m->a + row * m->layout.a_stride);
}

/* Scales of a panel's columns, one row of them a column. */
static void load_scales(const struct many *m, int64_t n, int64_t columns, float *scales, float *buffer)
{
    const struct fp8 *f = &m->f;
    for (int64_t j = 0; j < columns; j++)
        memcpy(scales + j * f->k_blocks, fp8_scales(f, n + j, buffer), (size_t)f->k_blocks * sizeof *scales);
}

static void panel_task(void *arg, int64_t task, int worker)
{
    const struct many *m = arg;
    const struct fp8 *f = &m->f;
    const tdm_tensor *b = &f->desc->b;
    char *own = at(m->scratch, (int64_t)(m->layout.workers + (size_t)worker * m->layout.worker_size));
    float *sums = at(own, (int64_t)m->layout.sums), *scales = at(own, (int64_t)m->layout.scales);
    int64_t n = task * m->layout.columns, columns = min64(m->layout.columns, f->n - n);
    load_scales(m, n, columns, scales, at(own, (int64_t)m->layout.buffer));
    struct leaf_rows w = {at(f->args->b, n * b->stride[0]), b->stride[0], NULL};
    f->leaf->fp8_many(m->a, m->layout.a_stride, w, scales, f->k_blocks, b->block[1], sums, columns, (int)m->rows,
                      (int)columns, f->k);
    for (int64_t r = 0; r < m->rows; r++)
        fp8_store(f, m->row + r, n, sums + r * columns, columns);
}

static bool many_takes(const struct tdm_op *op, const tdm_lengths *lengths, char *reason)
{
    const struct leaf_table *leaf = cpu_leaf_for(op, lengths);
    if (fp8_few_rows(op, leaf) < FP8_FEW_ROWS)
        return true;
    snprintf(reason, REASON_SIZE, "the leaves of %s do not take many rows by these blocks", leaf->name);
    return false;
}

static tdm_status many_run(const struct tdm_op *op, const struct run *run)
{
    struct many m = {.f = fp8_open(op, run), .layout = lay_out(&op->desc.fp8_matmul, op->services->threads)};
    m.scratch = run->scratch;
    m.a = at(m.scratch, (int64_t)m.layout.a);
    if (fp8_done_without_depth(&m.f))
        return TDM_OK;
    for (; m.row < m.f.args->m; m.row += CHUNK) {
        m.rows = min64(CHUNK, m.f.args->m - m.row);
        cpu_parallel_for(op, m.f.leaf, m.rows, load_task, &m);
        cpu_parallel_for(op, m.f.leaf, ceil_div(m.f.n, m.layout.columns), panel_task, &m);
    }
    return TDM_OK;
}

const struct impl cpu_fp8_many = {
    .name = "many", .op = OP_FP8_MATMUL, .takes = many_takes, .workspace = many_workspace, .run = many_run};
