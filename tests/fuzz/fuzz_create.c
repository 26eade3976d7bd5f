/* The create calls of the ops without a cache, and runs of what they accept. */
#include "input.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FP8, QUANTIZE, DEQUANTIZE, OPS };

static size_t describe(struct input *in, int op)
{
    int64_t dims[4] = {dimension(in, 3), dimension(in, 3), dimension(in, 9), dimension(in, 40)};
    tdm_dtype dtype = float_type(in);
    int rank = (int)small(in, 1, 4);
    tdm_tensor plain = tensor(dtype, rank, dims[0], dims[1], dims[2], dims[3]), packed = stored(in, rank, dims);
    memset(&desc, 0, sizeof desc);
    if (op == FP8) {
        int64_t m = dimension(in, 150), n = dimension(in, 40), k = dims[3];
        desc.fp8 = (tdm_fp8_matmul_desc){sizeof desc.fp8,
                                         tensor(dtype, 2, m, k, 0, 0),
                                         tensor(TDM_F8E4M3, 2, n, k, 0, 0),
                                         tensor(dtype, 2, m, n, 0, 0),
                                         take(in) & 1,
                                         take(in) & 1,
                                         take(in) & 1};
        desc.fp8.b.scaling = TDM_PER_BLOCK;
        desc.fp8.b.scale_dtype = (tdm_dtype[]){0, TDM_F32, TDM_BF16, TDM_E8M0}[take(in) % 4];
        desc.fp8.b.block[0] = small(in, 1, 20);
        desc.fp8.b.block[1] = small(in, 1, 20);
        return sizeof desc.fp8;
    }
    desc.convert = (tdm_convert_desc){sizeof desc.convert, plain, packed};
    if (op == DEQUANTIZE)
        desc.convert = (tdm_convert_desc){sizeof desc.convert, packed, plain};
    return sizeof desc.convert;
}

static tdm_status create(int op, tdm_op **made)
{
    switch (op) {
    case FP8:
        return tdm_fp8_matmul_create(ctx, cpu, &desc.fp8, made);
    case QUANTIZE:
        return tdm_quantize_create(ctx, cpu, &desc.convert, made);
    default:
        return tdm_dequantize_create(ctx, cpu, &desc.convert, made);
    }
}

static void run_fp8(struct input *in, const tdm_op *op, tdm_workspace *workspace)
{
    const tdm_fp8_matmul_desc *d = &desc.fp8;
    double rows = (double)((d->b.dim[0] - 1) / d->b.block[0] + 1),
           columns = (double)((d->b.dim[1] - 1) / d->b.block[1] + 1);
    tdm_fp8_matmul_args args = TDM_INIT(tdm_fp8_matmul_args);
    args.a = block(in, tensor_bytes(&d->a));
    args.b = block(in, tensor_bytes(&d->b));
    args.b_scale = block(in, row_bytes(d->b.scale_dtype ? d->b.scale_dtype : TDM_F32, rows * columns));
    args.bias = d->has_bias ? block(in, row_bytes(d->a.dtype, (double)d->b.dim[0])) : NULL;
    args.a_scale = d->has_a_scale ? block(in, 4) : NULL;
    args.out = block(in, tensor_bytes(&d->out));
    args.m = small(in, -1, 152);
    tdm_fp8_matmul_run(op, workspace, NULL, &args);
}

static void run(struct input *in, int op, const tdm_op *made, tdm_workspace *workspace)
{
    const tdm_convert_desc *d = &desc.convert;
    if (op == FP8) {
        run_fp8(in, made, workspace);
        return;
    }
    tdm_convert_args args = {sizeof args, block(in, tensor_bytes(&d->src)), block(in, tensor_bytes(&d->dst)),
                             scales(in, op == QUANTIZE ? &d->dst : &d->src)};
    if (op == QUANTIZE)
        tdm_quantize_run(made, workspace, NULL, &args);
    else
        tdm_dequantize_run(made, workspace, NULL, &args);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz(data, size, OPS, describe, create, run);
}
