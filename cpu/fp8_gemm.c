/* Many rows of activations: a panel of weights is widened and scaled once for all rows of a pass, which lie transposed,
 * so that they fill the lanes of sv on f32 and the weights need no transposing. */
#include "fp8.h"

#include <string.h>

enum {
    CHUNK = 192, /* rows of activations of one call of sv */
    CHUNKS = 3,  /* of a pass */
    GROUP = 16,  /* rows transposed at once */
    COLUMNS = 96,
    DEPTH = 256 /* of a panel: with a chunk's activations it stays in the second cache */
};

struct gemm_layout {
    int64_t a_stride, panel_stride, sums_stride, out_stride;
    size_t a, chunk_size, panel, sums, out, buffer, workers, worker_size, size;
};

/* Lanes for n rows: vectors of 8 at least are whole. */
static int64_t lanes(int64_t n)
{
    return (n + 7) & ~(int64_t)7;
}

static struct gemm_layout lay_out(const tdm_fp8_matmul_desc *d, int threads)
{
    int64_t k = d->b.dim[1], blocks = k ? (k - 1) / d->b.block[1] + 1 : 0;
    int64_t rows = lanes(min64(CHUNK * CHUNKS, d->a.dim[0])), chunk = min64(CHUNK, rows);
    struct gemm_layout g = {.a_stride = padded(chunk),
                            .panel_stride = padded(DEPTH),
                            .sums_stride = padded(rows),
                            .out_stride = padded(COLUMNS)};
    struct layout shared = {0}, worker = {0}, one = {0};
    g.panel = layout_add(&worker, COLUMNS * g.panel_stride, sizeof(float));
    g.sums = layout_add(&worker, COLUMNS * g.sums_stride, sizeof(float));
    g.out = layout_add(&worker, chunk * g.out_stride, sizeof(float));
    g.buffer = layout_add(&worker, blocks, sizeof(float));
    g.worker_size = worker.size;
    layout_add(&one, k * g.a_stride, sizeof(float));
    g.chunk_size = one.size;
    g.a = layout_add(&shared, ceil_div(rows, CHUNK), one.size);
    g.workers = layout_add(&shared, threads, worker.size);
    g.size = one.size == SIZE_MAX || worker.size == SIZE_MAX ? SIZE_MAX : shared.size;
    return g;
}

static size_t gemm_workspace(const struct tdm_op *op)
{
    return lay_out(&op->desc.fp8_matmul, op->services->threads).size;
}

struct gemm {
    struct fp8 f;
    struct gemm_layout layout;
    int64_t row, rows; /* of the pass */
    char *scratch;
};

/* The transposed activations of a chunk of the pass: [k][row]. */
static float *chunk_at(const struct gemm *g, int64_t chunk)
{
    return at(g->scratch, (int64_t)(g->layout.a + (size_t)chunk * g->layout.chunk_size));
}

static void load_task(void *arg, int64_t task, int worker)
{
    enum { PIECE = 128 };
    (void)worker;
    const struct gemm *g = arg;
    const int64_t first = task * GROUP, n = min64(GROUP, g->rows - first), stride = g->layout.a_stride;
    float rows[GROUP][PIECE + GROUP];
    float *to = chunk_at(g, first / CHUNK) + first % CHUNK;
    memset(rows, 0, sizeof rows); /* the lanes behind the last row */
    for (int64_t k = 0; k < g->f.k; k += PIECE) {
        int64_t part = min64(PIECE, g->f.k - k);
        for (int64_t r = 0; r < n; r++)
            fp8_load_activations(&g->f, g->row + first + r, k, part, rows[r]);
        g->f.leaf->transpose[LEAF_F32]((struct leaf_rows){rows, sizeof rows[0], NULL}, to + k * stride, stride,
                                       (int)lanes(n), (int)part);
    }
}

/* panel[j][k] = weight times scale, for depth k from `first` on. */
static void load_panel(const struct gemm *g, int64_t n, int64_t columns, int64_t first, int64_t depth, float *buffer,
                       float *panel)
{
    const struct fp8 *f = &g->f;
    const tdm_tensor *b = &f->desc->b;
    const float *scales = NULL;
    for (int64_t j = 0, same = 0; j < columns; j++, same--, panel += g->layout.panel_stride) {
        if (same == 0) {
            scales = fp8_scales(f, n + j, buffer);
            same = fp8_rows_of_one_scale(f, n + j, columns - j);
        }
        struct leaf_rows w = {at(f->args->b, (n + j) * b->stride[0] + first), 0, NULL};
        f->leaf->widen[LEAF_F8E4M3](w, panel, 0, 1, (int)depth);
        for (int64_t k = 0, part; k < depth; k += part) {
            const int64_t size = b->block[1];
            part = min64(size - (first + k) % size, depth - k);
            f->leaf->scale(panel + k, NULL, scales[(first + k) / size], part);
        }
    }
}

static void store_chunk(const struct gemm *g, int64_t first, int64_t rows, int64_t n, int64_t columns,
                        const float *sums, float *out)
{
    const int64_t stride = g->layout.out_stride;
    g->f.leaf->transpose[LEAF_F32](
        (struct leaf_rows){sums + first, g->layout.sums_stride * (int64_t)sizeof(float), NULL}, out, stride,
        (int)columns, (int)rows);
    for (int64_t r = 0; r < rows; r++)
        fp8_store(&g->f, g->row + first + r, n, out + r * stride, columns);
}

static void panel_task(void *arg, int64_t task, int worker)
{
    const struct gemm *g = arg;
    const struct fp8 *f = &g->f;
    const struct gemm_layout *l = &g->layout;
    char *own = at(g->scratch, (int64_t)(l->workers + (size_t)worker * l->worker_size));
    float *panel = at(own, (int64_t)l->panel), *sums = at(own, (int64_t)l->sums);
    const int64_t n = task * COLUMNS, columns = min64(COLUMNS, f->n - n);
    for (int64_t k = 0; k < f->k; k += DEPTH) {
        int64_t depth = min64(DEPTH, f->k - k);
        load_panel(g, n, columns, k, depth, at(own, (int64_t)l->buffer), panel);
        for (int64_t r = 0; r < g->rows; r += CHUNK) {
            struct leaf_rows a = {chunk_at(g, r / CHUNK) + k * l->a_stride, l->a_stride * (int64_t)sizeof(float), NULL};
            f->leaf->sv[LEAF_F32](panel, l->panel_stride, a, sums + r, l->sums_stride, (int)columns, (int)depth,
                                  (int)lanes(min64(CHUNK, g->rows - r)), k > 0);
        }
    }
    for (int64_t r = 0; r < g->rows; r += CHUNK)
        store_chunk(g, r, min64(CHUNK, g->rows - r), n, columns, sums, at(own, (int64_t)l->out));
}

static tdm_status gemm_run(const struct tdm_op *op, const struct run *run)
{
    struct gemm g = {.f = fp8_open(op, run), .layout = lay_out(&op->desc.fp8_matmul, op->services->threads)};
    g.scratch = run->scratch;
    if (fp8_done_without_depth(&g.f))
        return TDM_OK;
    for (; g.row < g.f.args->m; g.row += g.rows) {
        g.rows = min64(CHUNK * CHUNKS, g.f.args->m - g.row);
        cpu_parallel_for(op, g.f.leaf, ceil_div(g.rows, GROUP), load_task, &g);
        cpu_parallel_for(op, g.f.leaf, ceil_div(g.f.n, COLUMNS), panel_task, &g);
    }
    return TDM_OK;
}

const struct impl cpu_fp8_gemm = {.name = "gemm", .op = OP_FP8_MATMUL, .workspace = gemm_workspace, .run = gemm_run};
