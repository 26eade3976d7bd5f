/* The rows of fp8_matmul that read each weight once: which runs they take, and what they launch. */
#include "fp8_matmul.h"

#include <stdio.h>

/* Up to where a row goes. The rows are tried in this order and dequant_cublas takes the rest; the numbers are derived, not
 * measured (docs/gpu.md). */
static const struct border {
    int64_t rows;        /* of activations, at most                                     */
    int64_t least_depth; /* K, at least                                                 */
    int64_t step;        /* K, and columns that share a scale unless all do: multiples */
    bool takes_f32;
} mma_border = {FP8_MMA_ROWS, 256, FP8_WINDOW, false}, warp_border = {16, FP8_CHUNK, FP8_CHUNK, true};

int64_t fp8_element(tdm_dtype dtype)
{
    return dtype == TDM_F32 ? 4 : 2;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

struct fp8_weights fp8_weights_of(const tdm_fp8_matmul_desc *desc, const tdm_fp8_matmul_args *args)
{
    const tdm_tensor *b = &desc->b;
    int64_t n = b->dim[0], k = b->dim[1];
    return (struct fp8_weights){.codes = args->b,
                                .stride = b->stride[0],
                                .scale = args->b_scale,
                                .scale_dtype = b->scale_dtype,
                                .n = n,
                                .k = k,
                                .block_n = min64(b->block[0], n),
                                .block_k = min64(b->block[1], k),
                                .k_blocks = k ? (k - 1) / b->block[1] + 1 : 0};
}

/* ---- which runs ------------------------------------------------------------------------ */

static bool refuse(char *reason, const char *field, int64_t got, const char *want, int64_t number)
{
    snprintf(reason, REASON_SIZE, "%s: got %lld, want %s %lld", field, (long long)got, want, (long long)number);
    return false;
}

static bool fits(const struct tdm_op *op, const struct border *border, char *reason)
{
    enum { MOST_STRIDE = 1 << 29 }; /* kernels count the 16 bytes of 64 rows in 32 bits */
    const tdm_fp8_matmul_desc *d = &op->desc.fp8_matmul;
    int64_t n = d->b.dim[0], k = d->b.dim[1], block = d->b.block[1];
    if (!cuda_fits_device(op, reason))
        return false;
    if (d->a.dtype == TDM_F32 && !border->takes_f32) {
        snprintf(reason, REASON_SIZE, "a.dtype: got f32, want f16 or bf16");
        return false;
    }
    if (n > INT32_MAX)
        return refuse(reason, "b.dim[0]", n, "at most", INT32_MAX);
    if (k > INT32_MAX)
        return refuse(reason, "b.dim[1]", k, "at most", INT32_MAX);
    if (k < border->least_depth)
        return refuse(reason, "b.dim[1]", k, "at least", border->least_depth);
    if (k % border->step)
        return refuse(reason, "b.dim[1]", k, "a multiple of", border->step);
    if (block < k && block % border->step)
        return refuse(reason, "b.block[1]", block, "a multiple of", border->step);
    if (d->a.stride[0] > MOST_STRIDE)
        return refuse(reason, "a.stride[0]", d->a.stride[0], "at most", MOST_STRIDE);
    if (d->a.stride[0] % FP8_ALIGNMENT)
        return refuse(reason, "a.stride[0]", d->a.stride[0], "a multiple of", FP8_ALIGNMENT);
    if (d->b.stride[0] % FP8_ALIGNMENT)
        return refuse(reason, "b.stride[0]", d->b.stride[0], "a multiple of", FP8_ALIGNMENT);
    return true;
}

static bool takes(const tdm_lengths *lengths, const struct border *border, char *reason)
{
    return lengths->m <= border->rows || refuse(reason, "m", lengths->m, "at most", border->rows);
}

/* ---- W8A8 ------------------------------------------------------------------------------- */

/* Rounded activations and their scales, in scratch. */
struct rounded {
    size_t scales, size; /* the activations lie at 0 */
};

static struct rounded lay_out(const tdm_fp8_matmul_desc *d, int64_t most_rows)
{
    int64_t rows = min64(d->a.dim[0], most_rows);
    size_t scales = (size_t)(rows * d->a.dim[1] * fp8_element(d->a.dtype));
    bool rounds = d->has_a_scale || d->dynamic_a_scale;
    return rounds ? (struct rounded){scales, scales + (size_t)rows * sizeof(float)} : (struct rounded){0, 0};
}

static cudaError_t round_first(const struct tdm_op *op, const struct run *run, const struct border *border,
                               struct fp8_gemv *p)
{
    const struct cuda_scratch *scratch = run->scratch;
    char *memory = scratch->memory;
    struct fp8_rounding rounding = {.dtype = p->dtype,
                                    .m = p->m,
                                    .k = p->b.k,
                                    .a = p->a,
                                    .a_stride = p->a_stride,
                                    .a_scale = p->a_scale,
                                    .codes = memory,
                                    .scales = (float *)(memory + lay_out(&op->desc.fp8_matmul, border->rows).scales)};
    p->a = rounding.codes;
    p->a_stride = p->b.k * fp8_element(p->dtype);
    p->a_scale = rounding.scales;
    p->a_scale_step = 1;
    return fp8_round(&rounding, run->stream);
}

/* ---- run ---------------------------------------------------------------------------------- */

static bool is_aligned(const void *pointer)
{
    return (uintptr_t)pointer % FP8_ALIGNMENT == 0;
}

static struct fp8_gemv gemv_of(const struct tdm_op *op, const struct run *run)
{
    const tdm_fp8_matmul_desc *d = &op->desc.fp8_matmul;
    const tdm_fp8_matmul_args *args = run->args;
    return (struct fp8_gemv){.b = fp8_weights_of(d, args),
                             .dtype = d->a.dtype,
                             .m = args->m,
                             .a = args->a,
                             .a_stride = d->a.stride[0],
                             .a_scale = args->a_scale,
                             .multiprocessors = cuda_device_of(op)->multiprocessors,
                             .bias = args->bias,
                             .out = args->out,
                             .out_stride = d->out.stride[0]};
}

static cudaError_t mma_launch(const struct tdm_op *op, const struct run *run)
{
    enum { ROUNDED_WHERE_READ = 8 }; /* rows: one tile. The lanes of more would each divide anew */
    const tdm_fp8_matmul_desc *d = &op->desc.fp8_matmul;
    struct fp8_gemv p = gemv_of(op, run);
    p.vectors = is_aligned(p.a) && is_aligned(p.b.codes);
    p.round = d->has_a_scale && p.vectors && p.m <= ROUNDED_WHERE_READ;
    cudaError_t error = cudaSuccess;
    if ((d->has_a_scale || d->dynamic_a_scale) && !p.round)
        error = round_first(op, run, &mma_border, &p);
    if (error)
        return error;
    return p.vectors ? fp8_mma_gemv(&p, run->stream) : fp8_warp_gemv(&p, run->stream);
}

static cudaError_t warp_launch(const struct tdm_op *op, const struct run *run)
{
    const tdm_fp8_matmul_desc *d = &op->desc.fp8_matmul;
    struct fp8_gemv p = gemv_of(op, run);
    cudaError_t error = cudaSuccess;
    if (d->has_a_scale || d->dynamic_a_scale)
        error = round_first(op, run, &warp_border, &p);
    p.vectors = is_aligned(p.a) && is_aligned(p.b.codes);
    return error ? error : fp8_warp_gemv(&p, run->stream);
}

static tdm_status run_unless_empty(const struct tdm_op *op, const struct run *run, cuda_launch *launch)
{
    const tdm_fp8_matmul_args *args = run->args;
    return args->m && op->desc.fp8_matmul.b.dim[0] ? cuda_run(op, run, launch) : TDM_OK;
}

static bool mma_fits(const struct tdm_op *op, char *reason)
{
    return fits(op, &mma_border, reason);
}

static bool mma_takes(const struct tdm_op *op, const tdm_lengths *lengths, char *reason)
{
    (void)op;
    return takes(lengths, &mma_border, reason);
}

static size_t mma_workspace(const struct tdm_op *op)
{
    return lay_out(&op->desc.fp8_matmul, mma_border.rows).size;
}

static tdm_status mma_run(const struct tdm_op *op, const struct run *run)
{
    return run_unless_empty(op, run, mma_launch);
}

static bool warp_fits(const struct tdm_op *op, char *reason)
{
    return fits(op, &warp_border, reason);
}

static bool warp_takes(const struct tdm_op *op, const tdm_lengths *lengths, char *reason)
{
    (void)op;
    return takes(lengths, &warp_border, reason);
}

static size_t warp_workspace(const struct tdm_op *op)
{
    return lay_out(&op->desc.fp8_matmul, warp_border.rows).size;
}

static tdm_status warp_run(const struct tdm_op *op, const struct run *run)
{
    return run_unless_empty(op, run, warp_launch);
}

const struct impl cuda_fp8_mma_gemv = {.name = "mma_gemv",
                                       .op = OP_FP8_MATMUL,
                                       .fits = mma_fits,
                                       .takes = mma_takes,
                                       .workspace = mma_workspace,
                                       .run = mma_run};
const struct impl cuda_fp8_warp_gemv = {.name = "warp_gemv",
                                        .op = OP_FP8_MATMUL,
                                        .fits = warp_fits,
                                        .takes = warp_takes,
                                        .workspace = warp_workspace,
                                        .run = warp_run};
