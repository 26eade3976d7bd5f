/* Few rows of activations: every weight is converted once for up to 8 of them, tasks split the columns. */
#include "fp8.h"

#include <stdio.h>

enum { COLUMNS = 64, TASK_WEIGHTS = 1 << 16 };

struct gemv_layout {
    int64_t a_stride;
    size_t a, scales, size, scales_of_worker;
};

static struct gemv_layout lay_out(const tdm_fp8_matmul_desc *d, int threads)
{
    int64_t k = d->b.dim[1], blocks = k ? (k - 1) / d->b.block[1] + 1 : 0;
    struct gemv_layout g = {.a_stride = padded(k)};
    struct layout layout = {0}, worker = {0};
    g.a = layout_add(&layout, min64(FP8_FEW_ROWS, d->a.dim[0]) * g.a_stride, sizeof(float));
    layout_add(&worker, blocks, sizeof(float));
    g.scales_of_worker = worker.size;
    g.scales = layout_add(&layout, d->b.scale_dtype == TDM_F32 ? 0 : threads, worker.size);
    g.size = layout.size;
    return g;
}

static size_t gemv_workspace(const struct tdm_op *op)
{
    return lay_out(&op->desc.fp8_matmul, op->services->threads).size;
}

struct gemv {
    struct fp8 f;
    struct gemv_layout layout;
    const float *a;
    int64_t a_stride, columns; /* columns of a task */
    char *scratch;
};

static void columns_of_one_scale(const struct gemv *g, int64_t n, int64_t columns, const float *scales,
                                 int64_t scale_stride)
{
    const struct fp8 *f = &g->f;
    const tdm_tensor *b = &f->desc->b;
    float sums[FP8_DOT_ROWS][COLUMNS];
    struct leaf_rows w = {at(f->args->b, n * b->stride[0]), b->stride[0], NULL};
    /* Passes of almost equal size: the weights of a few columns stay in the second cache meanwhile. */
    int64_t step = ceil_div(f->args->m, ceil_div(f->args->m, FP8_DOT_ROWS));
    for (int64_t first = 0; first < f->args->m; first += step) {
        int rows = (int)min64(step, f->args->m - first);
        f->leaf->fp8_dot(g->a + first * g->a_stride, g->a_stride, w, scales, scale_stride, b->block[1], sums[0],
                         COLUMNS, rows, (int)columns, f->k);
        for (int row = 0; row < rows; row++)
            fp8_store(f, first + row, n, sums[row], columns);
    }
}

static void gemv_task(void *arg, int64_t task, int worker)
{
    const struct gemv *g = arg;
    const struct fp8 *f = &g->f;
    float *buffer = at(g->scratch, (int64_t)(g->layout.scales + (size_t)worker * g->layout.scales_of_worker));
    int64_t end = min64((task + 1) * g->columns, f->n);
    /* Rows with scales of their own lie behind each other, so f32 ones go to the leaf many rows at once. */
    bool own_rows = f->desc->b.block[0] == 1 && f->desc->b.scale_dtype == TDM_F32;
    for (int64_t n = task * g->columns, columns; n < end; n += columns) {
        columns = min64(COLUMNS, end - n);
        if (!own_rows)
            columns = fp8_rows_of_one_scale(f, n, columns);
        columns_of_one_scale(g, n, columns, fp8_scales(f, n, buffer), own_rows ? f->k_blocks : 0);
    }
}

static bool gemv_takes(const struct tdm_op *op, const tdm_lengths *lengths, char *reason)
{
    int most = fp8_few_rows(op, cpu_leaf_for(op, lengths));
    if (lengths->m <= most)
        return true;
    snprintf(reason, REASON_SIZE, "m: got %lld, want at most %d", (long long)lengths->m, most);
    return false;
}

static tdm_status gemv_run(const struct tdm_op *op, const struct run *run)
{
    struct gemv g = {.f = fp8_open(op, run), .layout = lay_out(&op->desc.fp8_matmul, op->services->threads)};
    const struct fp8 *f = &g.f;
    if (fp8_done_without_depth(f))
        return TDM_OK;
    g.scratch = run->scratch;
    if (f->desc->a.dtype == TDM_F32 && !f->desc->has_a_scale && !f->desc->dynamic_a_scale && f->args->m == 1) {
        g.a = f->args->a;
    } else { /* rows lie in different sets of the cache, whatever their stride was */
        float *a = at(g.scratch, (int64_t)g.layout.a);
        for (int64_t row = 0; row < f->args->m; row++)
            fp8_load_activations(f, row, a + row * g.layout.a_stride);
        g.a = a;
        g.a_stride = g.layout.a_stride;
    }
    g.columns = min64(f->n, ceil_div(max64(COLUMNS, TASK_WEIGHTS / max64(1, f->k)), 8) * 8);
    cpu_parallel_for(op, f->leaf, ceil_div(f->n, g.columns), gemv_task, &g);
    return TDM_OK;
}

const struct impl cpu_fp8_gemv = {
    .name = "gemv", .op = OP_FP8_MATMUL, .takes = gemv_takes, .workspace = gemv_workspace, .run = gemv_run};
