#include "fp8.h"

#include "common/convert.h"
#include "rows.h"

#include <math.h>

struct fp8 fp8_open(const struct tdm_op *op, const struct run *run)
{
    const tdm_fp8_matmul_desc *d = &op->desc.fp8_matmul;
    struct fp8 f = {d, run->args, cpu_leaf_for(op, &run->lengths), d->b.dim[0], d->b.dim[1], 0};
    f.k_blocks = f.k ? (f.k - 1) / d->b.block[1] + 1 : 0;
    return f;
}

int fp8_few_rows(const struct tdm_op *op, const struct leaf_table *leaf)
{
    enum { LEAST_BLOCK = 32 }; /* of the depth, with one scale: fp8_many starts a sum for each */
    bool many = leaf->fp8_many && op->desc.fp8_matmul.b.block[1] >= LEAST_BLOCK;
    return many ? leaf->fp8_rows : FP8_FEW_ROWS;
}

bool fp8_done_without_depth(const struct fp8 *f)
{
    if (f->args->m == 0 || f->n == 0)
        return true;
    if (f->k)
        return false;
    enum { PIECE = 64 };
    for (int64_t row = 0; row < f->args->m; row++)
        for (int64_t n = 0; n < f->n; n += PIECE) {
            float sums[PIECE] = {0};
            fp8_store(f, row, n, sums, min64(PIECE, f->n - n));
        }
    return true;
}

/* x = e4m3(x / scale) * scale */
static void round_activations(const struct leaf_table *leaf, float scale, float *x, int64_t n)
{
    enum { PIECE = 512 };
    uint8_t codes[PIECE];
    for (int64_t done = 0; done < n; done += PIECE) {
        int part = (int)min64(PIECE, n - done);
        leaf->to_f8(x + done, &scale, false, codes, part);
        leaf->widen[LEAF_F8E4M3]((struct leaf_rows){codes, 0, NULL}, x + done, 0, 1, part);
        leaf->scale(x + done, NULL, scale, part);
    }
}

static float dynamic_scale(const struct leaf_table *leaf, const float *x, int64_t n)
{
    float largest = leaf->absmax(x, n);
    return isfinite(largest) ? scale_of_extreme(largest, TDM_F8E4M3) : NAN;
}

void fp8_load_activations(const struct fp8 *f, int64_t row, float *out)
{
    enum { PIECE = 1 << 20 }; /* what a leaf counts in int */
    const tdm_tensor *a = &f->desc->a;
    const struct leaf_table *leaf = f->leaf;
    for (int64_t done = 0; done < f->k; done += PIECE) {
        struct leaf_rows source = {at(f->args->a, row * a->stride[0] + done * a->stride[1]), 0, NULL};
        leaf->widen[cpu_leaf_type(a->dtype)](source, out + done, 0, 1, (int)min64(PIECE, f->k - done));
    }
    if (f->desc->has_a_scale)
        round_activations(leaf, f->args->a_scale[0], out, f->k);
    else if (f->desc->dynamic_a_scale)
        round_activations(leaf, dynamic_scale(leaf, out, f->k), out, f->k);
}

const float *fp8_scales(const struct fp8 *f, int64_t n, float *buffer)
{
    const tdm_tensor *b = &f->desc->b;
    int64_t first = n / b->block[0] * f->k_blocks;
    if (b->scale_dtype == TDM_F32)
        return (const float *)f->args->b_scale + first;
    for (int64_t i = 0; i < f->k_blocks; i++)
        buffer[i] = b->scale_dtype == TDM_BF16 ? f32_of_bf16(((const uint16_t *)f->args->b_scale)[first + i])
                                               : f32_of_e8m0(((const uint8_t *)f->args->b_scale)[first + i]);
    return buffer;
}

int64_t fp8_rows_of_one_scale(const struct fp8 *f, int64_t n, int64_t most)
{
    int64_t block = f->desc->b.block[0];
    return min64(block - n % block, most);
}

void fp8_store(const struct fp8 *f, int64_t row, int64_t n, float *sums, int64_t columns)
{
    const tdm_tensor *out = &f->desc->out;
    for (int64_t i = 0; i < columns && f->desc->has_bias; i++) {
        const void *bias = f->args->bias;
        sums[i] += out->dtype == TDM_F32   ? ((const float *)bias)[n + i]
                   : out->dtype == TDM_F16 ? f32_of_f16(((const uint16_t *)bias)[n + i])
                                           : f32_of_bf16(((const uint16_t *)bias)[n + i]);
    }
    cpu_narrow(f->leaf, sums, out->dtype, at(f->args->out, row * out->stride[0] + n * out->stride[1]), columns);
}
