/* Many rows of activations: panels of weights are widened and scaled once for a chunk of rows, then multiplied. */
#include "fp8.h"

enum {
    CHUNK = 192,  /* rows of activations that share a panel: a multiple of every leaf's row_step */
    COLUMNS = 96, /* of a task */
    PANEL = 16,   /* columns that are multiplied while they lie in the first cache */
    DEPTH = 256,  /* of a panel */
    LINE = 64     /* bytes of a cache line */
};

struct gemm_layout {
    int64_t a_stride, sums_stride;
    size_t a, panel, sums, scales, buffer, workers, worker_size, size;
};

static struct gemm_layout lay_out(const tdm_fp8_matmul_desc *d, int threads)
{
    int64_t k = d->b.dim[1], blocks = k ? (k - 1) / d->b.block[1] + 1 : 0;
    struct gemm_layout g = {.a_stride = padded(k), .sums_stride = padded(COLUMNS)};
    struct layout shared = {0}, worker = {0};
    g.panel = layout_add(&worker, DEPTH * PANEL, sizeof(float));
    g.sums = layout_add(&worker, CHUNK * g.sums_stride, sizeof(float));
    g.scales = layout_add(&worker, blocks, COLUMNS * sizeof(float));
    g.buffer = layout_add(&worker, blocks, sizeof(float));
    g.worker_size = worker.size;
    g.a = layout_add(&shared, min64(CHUNK, d->a.dim[0]) * g.a_stride, sizeof(float));
    g.workers = layout_add(&shared, threads, worker.size);
    g.size = shared.size;
    return g;
}

static size_t gemm_workspace(const struct tdm_op *op)
{
    return lay_out(&op->desc.fp8_matmul, op->services->threads).size;
}

struct gemm {
    struct fp8 f;
    struct gemm_layout layout;
    float *a; /* the chunk, f32 */
    int64_t row, rows;
    char *scratch;
};

static void load_task(void *arg, int64_t row, int worker)
{
    (void)worker;
    const struct gemm *g = arg;
    fp8_load_activations(&g->f, g->row + row, g->a + row * g->layout.a_stride);
}

/* Scales of a panel's columns, transposed: [block][column]. */
static void load_scales(const struct gemm *g, int64_t n, int64_t columns, float *scales, float *buffer)
{
    const struct fp8 *f = &g->f;
    for (int64_t j = 0, same; j < columns; j += same) {
        const float *row = fp8_scales(f, n + j, buffer);
        same = fp8_rows_of_one_scale(f, n + j, columns - j);
        for (int64_t block = 0; block < f->k_blocks; block++)
            for (int64_t i = j; i < j + same; i++)
                scales[block * COLUMNS + i] = row[block];
    }
}

/* panel[k][j] = weight times scale, for depth k from `first` on. The next panel is `next` bytes away. */
static void load_panel(const struct gemm *g, int64_t n, int64_t columns, int64_t first, int64_t depth, int64_t next,
                       const float *scales, float *panel)
{
    const struct fp8 *f = &g->f;
    const tdm_tensor *b = &f->desc->b;
    const char *w = at(f->args->b, n * b->stride[0]);
    for (int64_t k = first, length; k < first + depth; k += length, panel += length * PANEL) {
        length = min64(b->block[1] - k % b->block[1], first + depth - k);
        struct leaf_rows rows = {w + k, b->stride[0], w + k + next};
        f->leaf->fp8_panel(rows, scales + k / b->block[1] * COLUMNS, panel, PANEL, (int)columns, (int)length);
    }
}

static void panel_task(void *arg, int64_t task, int worker)
{
    const struct gemm *g = arg;
    const struct fp8 *f = &g->f;
    char *own = at(g->scratch, (int64_t)(g->layout.workers + (size_t)worker * g->layout.worker_size));
    float *panel = at(own, (int64_t)g->layout.panel), *sums = at(own, (int64_t)g->layout.sums);
    float *scales = at(own, (int64_t)g->layout.scales), *buffer = at(own, (int64_t)g->layout.buffer);
    int64_t n = task * COLUMNS, columns = min64(COLUMNS, f->n - n), stride = g->layout.sums_stride;
    load_scales(g, n, columns, scales, buffer);
    struct leaf_rows rows = {panel, PANEL * (int64_t)sizeof(float), NULL};
    /* Panels of almost equal depth, in whole cache lines. */
    int64_t even = ceil_div(ceil_div(f->k, ceil_div(f->k, DEPTH)), LINE) * LINE;
    for (int64_t k = 0, depth; k < f->k; k += depth) {
        depth = min64(even, f->k - k);
        for (int64_t j = 0; j < columns; j += PANEL) {
            int64_t width = min64(PANEL, columns - j);
            int64_t next = j + PANEL < columns ? PANEL * f->desc->b.stride[0] : depth - j * f->desc->b.stride[0];
            load_panel(g, n + j, width, k, depth, next, scales + j, panel);
            f->leaf->sv[LEAF_F32](g->a + k, g->layout.a_stride, rows, sums + j, stride, (int)g->rows, (int)depth,
                                  (int)width, k > 0);
        }
    }
    for (int64_t r = 0; r < g->rows; r++)
        fp8_store(f, g->row + r, n, sums + r * stride, columns);
}

static tdm_status gemm_run(const struct tdm_op *op, const struct run *run)
{
    struct gemm g = {.f = fp8_open(op, run), .layout = lay_out(&op->desc.fp8_matmul, op->services->threads)};
    g.scratch = run->scratch;
    g.a = at(g.scratch, (int64_t)g.layout.a);
    if (fp8_done_without_depth(&g.f))
        return TDM_OK;
    for (; g.row < g.f.args->m; g.row += CHUNK) {
        g.rows = min64(CHUNK, g.f.args->m - g.row);
        cpu_parallel_for(op, g.f.leaf, g.rows, load_task, &g);
        cpu_parallel_for(op, g.f.leaf, ceil_div(g.f.n, COLUMNS), panel_task, &g);
    }
    return TDM_OK;
}

const struct impl cpu_fp8_gemm = {.name = "gemm", .op = OP_FP8_MATMUL, .workspace = gemm_workspace, .run = gemm_run};
