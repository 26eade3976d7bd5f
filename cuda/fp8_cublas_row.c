/* The row of fp8_matmul that takes everything: weights widened for a product of cuBLAS, tile by tile, and finished by a
 * kernel of our own. */
#include "blas.h"
#include "fp8_matmul.h"

#include <stdio.h>

enum {
    TILE_BYTES = 64 << 20, /* of each of the three tiles in scratch, but at least one row */
    TILE_STEP = 128,       /* rows of a tile: a multiple, where there are more             */
    ALIGNMENT = 256,       /* bytes, of what lies in scratch: cuBLAS wants it of its own   */
    LEAST_ALIGNMENT = 64   /* of scratch itself, when it is the caller's                   */
};

struct layout {
    int64_t columns, rows; /* of a tile of the output: weight rows, rows of activations */
    size_t exponents, weights, sums, codes, scales, size;
};

/* How many of `count` rows of `bytes` each make a tile. */
static int64_t rows_of_tile(int64_t count, int64_t bytes)
{
    int64_t rows = bytes ? TILE_BYTES / bytes : count;
    if (rows > TILE_STEP)
        rows = rows / TILE_STEP * TILE_STEP;
    if (rows < 1)
        rows = 1;
    return rows < count ? rows : count;
}

static size_t add(struct layout *l, int64_t count, int64_t bytes)
{
    size_t offset = l->size;
    l->size = offset + ((size_t)(count * bytes) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return offset;
}

static bool rounds(const tdm_fp8_matmul_desc *d)
{
    return d->has_a_scale || d->dynamic_a_scale;
}

static struct layout lay_out(const tdm_fp8_matmul_desc *d)
{
    int64_t m = d->a.dim[0], n = d->b.dim[0], k = d->b.dim[1], element = fp8_element(d->a.dtype);
    struct layout l = {.columns = rows_of_tile(n, k * element), .size = BLAS_WORKSPACE};
    int64_t of_sums = rows_of_tile(m, l.columns * (int64_t)sizeof(float)), of_codes = rows_of_tile(m, k * element);
    l.rows = rounds(d) && of_codes < of_sums ? of_codes : of_sums;
    l.exponents = add(&l, n ? (n - 1) / d->b.block[0] + 1 : 0, sizeof(int32_t));
    l.weights = add(&l, l.columns, k * element);
    l.sums = add(&l, l.rows, l.columns * (int64_t)sizeof(float));
    l.codes = add(&l, rounds(d) ? l.rows : 0, k * element);
    l.scales = add(&l, rounds(d) ? l.rows : 0, sizeof(float));
    return l;
}

/* ---- which runs --------------------------------------------------------------------------- */

/* No run gets here when an earlier row takes the longest one, for those take all that are shorter. */
static bool is_reached(const struct tdm_op *op)
{
    char reason[REASON_SIZE];
    tdm_lengths longest = {.struct_size = sizeof longest, .m = op->desc.fp8_matmul.a.dim[0]};
    for (int i = 0; i < op->impl_count; i++)
        if (op->impls[i] == &cuda_fp8_dequant_cublas)
            return true;
        else if (op->impls[i]->takes(op, &longest, reason))
            return false;
    return false;
}

bool fp8_calls_blas(const struct tdm_op *op)
{
    return is_reached(op);
}

static bool cublas_fits(const struct tdm_op *op, char *reason)
{
    const tdm_fp8_matmul_desc *d = &op->desc.fp8_matmul;
    const struct cuda_state *state = op->state;
    if (!cuda_fits_device(op, reason))
        return false;
    if (!state->blas) {
        snprintf(reason, REASON_SIZE, "%s", state->blas_reason);
        return false;
    }
    const struct {
        const char *field;
        int64_t got;
    } ints[] = {{"a.dim[0]", d->a.dim[0]},
                {"b.dim[0]", d->b.dim[0]},
                {"b.dim[1]", d->b.dim[1]},
                {"a.stride[0] in elements", d->a.dim[0] > 1 ? d->a.stride[0] / fp8_element(d->a.dtype) : 0}};
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
        if (ints[i].got > INT32_MAX) {
            snprintf(reason, REASON_SIZE, "%s: got %lld, want at most %d", ints[i].field, (long long)ints[i].got,
                     INT32_MAX);
            return false;
        }
    return true;
}

static size_t cublas_workspace(const struct tdm_op *op)
{
    return is_reached(op) ? lay_out(&op->desc.fp8_matmul).size + ALIGNMENT - LEAST_ALIGNMENT : 0;
}

/* ---- run ------------------------------------------------------------------------------------ */

/* What the steps of a run share. */
struct job {
    const struct tdm_op *op;
    const tdm_fp8_matmul_desc *desc;
    const tdm_fp8_matmul_args *args;
    struct layout layout;
    const struct cuda_scratch *scratch;
    cudaStream_t stream;
    struct fp8_dequantization weights; /* the tile */
};

static void *scratch_at(const struct job *j, size_t offset)
{
    char *memory = j->scratch->memory;
    return memory + -(uintptr_t)memory % ALIGNMENT + offset;
}

static bool reads_vectors(const struct fp8_weights *b)
{
    return b->k % FP8_CHUNK == 0 && (b->block_k == b->k || b->block_k % FP8_CHUNK == 0) &&
           b->stride % FP8_ALIGNMENT == 0 && (uintptr_t)b->codes % FP8_ALIGNMENT == 0;
}

/* Rows [first, first + rows) of the activations, rounded where the desc wants it, times the tile of weights. */
static cudaError_t multiply(const struct job *j, int64_t first, int64_t rows)
{
    const tdm_fp8_matmul_desc *d = j->desc;
    const struct fp8_weights *b = &j->weights.b;
    int64_t element = fp8_element(d->a.dtype);
    struct blas_product product = {.m = rows,
                                   .n = j->weights.rows,
                                   .k = b->k,
                                   .dtype = d->a.dtype,
                                   .a = (const char *)j->args->a + first * d->a.stride[0],
                                   .b = j->weights.out,
                                   .out = scratch_at(j, j->layout.sums),
                                   .a_stride = rows > 1 ? d->a.stride[0] / element : b->k, /* the desc's may be less */
                                   .b_stride = b->k,
                                   .out_stride = j->weights.rows,
                                   .workspace = scratch_at(j, 0)};
    if (rounds(d)) {
        struct fp8_rounding rounding = {.dtype = d->a.dtype,
                                        .m = rows,
                                        .k = b->k,
                                        .a = product.a,
                                        .a_stride = d->a.stride[0],
                                        .a_scale = j->args->a_scale,
                                        .codes = scratch_at(j, j->layout.codes),
                                        .scales = scratch_at(j, j->layout.scales)};
        cudaError_t error = fp8_round(&rounding, j->stream);
        if (error)
            return error;
        product.a = rounding.codes;
        product.a_stride = b->k;
    }
    return blas_multiply(j->op->state, j->scratch->blas, &product, j->stream);
}

static cudaError_t finish(const struct job *j, int64_t first, int64_t rows)
{
    const tdm_fp8_matmul_desc *d = j->desc;
    bool has_depth = j->weights.b.k > 0;
    struct fp8_result result = {.dtype = d->a.dtype,
                                .m = rows,
                                .n = j->weights.rows,
                                .first = j->weights.first,
                                .sums = has_depth ? scratch_at(j, j->layout.sums) : NULL,
                                .exponents = j->weights.exponents,
                                .block_n = j->weights.b.block_n,
                                .a_scale = rounds(d) ? scratch_at(j, j->layout.scales) : NULL,
                                .bias = j->args->bias,
                                .out = (char *)j->args->out + first * d->out.stride[0],
                                .out_stride = d->out.stride[0]};
    return fp8_finish(&result, j->stream);
}

static cudaError_t multiply_tile(const struct job *j)
{
    bool has_depth = j->weights.b.k > 0;
    cudaError_t error = has_depth ? fp8_dequantize(&j->weights, j->stream) : cudaSuccess;
    for (int64_t first = 0, rows; first < j->args->m && !error; first += rows) {
        rows = j->args->m - first < j->layout.rows ? j->args->m - first : j->layout.rows;
        if (has_depth)
            error = multiply(j, first, rows);
        if (!error)
            error = finish(j, first, rows);
    }
    return error;
}

static cudaError_t cublas_launch(const struct tdm_op *op, const struct run *run)
{
    const tdm_fp8_matmul_desc *d = &op->desc.fp8_matmul;
    struct job j = {op, d, run->args, lay_out(d), run->scratch, run->stream, {.dtype = d->a.dtype}};
    struct fp8_dequantization *w = &j.weights;
    w->b = fp8_weights_of(d, run->args);
    w->vectors = reads_vectors(&w->b);
    w->exponents = scratch_at(&j, j.layout.exponents);
    w->out = scratch_at(&j, j.layout.weights);
    cudaError_t error = w->b.k ? fp8_exponents(w, run->stream) : cudaSuccess;
    for (; w->first < w->b.n && !error; w->first += w->rows) {
        w->rows = w->b.n - w->first < j.layout.columns ? w->b.n - w->first : j.layout.columns;
        error = multiply_tile(&j);
    }
    return error;
}

static tdm_status cublas_run(const struct tdm_op *op, const struct run *run)
{
    const tdm_fp8_matmul_args *args = run->args;
    return args->m && op->desc.fp8_matmul.b.dim[0] ? cuda_run(op, run, cublas_launch) : TDM_OK;
}

const struct impl cuda_fp8_dequant_cublas = {.name = "dequant_cublas",
                                             .op = OP_FP8_MATMUL,
                                             .fits = cublas_fits,
                                             .workspace = cublas_workspace,
                                             .run = cublas_run};
