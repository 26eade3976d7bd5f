/* quantize and dequantize: the same op with its ends exchanged. */
#include "error.h"
#include "op_rows.h"
#include "tensor.h"

static const struct tensor_rule float_rule = {1, 4, 4, FLOAT_DTYPES, 0, true};
static const struct tensor_rule cache_rule = {1, 4, 4, CACHE_DTYPES, CACHE_SCALINGS, true};

static tdm_status settle(tdm_convert_desc *d, const struct tensor_rule *src_rule, const struct tensor_rule *dst_rule)
{
    if (d->src.rank != d->dst.rank)
        return fail(TDM_BAD_ARG, "dst.rank: got %d, want %d as src", d->dst.rank, d->src.rank);
    int raised = 4 - d->src.rank; /* dimensions of 1 that settling puts in front */
    tdm_status status = tensor_settle("src", &d->src, src_rule);
    if (status || (status = tensor_settle("dst", &d->dst, dst_rule)))
        return status;
    for (int i = raised; i < 4; i++)
        if (d->dst.dim[i] != d->src.dim[i])
            return fail(TDM_BAD_ARG, "dst.dim[%d]: got %lld, want %lld as src", i - raised, (long long)d->dst.dim[i],
                        (long long)d->src.dim[i]);
    return TDM_OK;
}

tdm_status quantize_settle(union op_desc *desc)
{
    return settle(&desc->convert, &float_rule, &cache_rule);
}

tdm_status dequantize_settle(union op_desc *desc)
{
    return settle(&desc->convert, &cache_rule, &float_rule);
}

tdm_status convert_check(const union op_desc *desc, const union op_args *args)
{
    const tdm_convert_desc *d = &desc->convert;
    for (int i = 0; i < 4; i++)
        if (d->src.dim[i] == 0)
            return TDM_OK; /* nothing is touched */
    tdm_status status = check_data("src", args->convert.src, d->src.dtype);
    if (status || (status = check_data("dst", args->convert.dst, d->dst.dtype)))
        return status;
    return check_scales("scale", args->convert.scale, d->dst.scaling ? &d->dst : &d->src);
}

void convert_traffic(const union op_desc *desc, const union op_args *args, struct traffic *traffic)
{
    (void)args;
    const int64_t *dim = desc->convert.src.dim;
    int64_t rows = dim[0] * dim[1] * dim[2];
    traffic->bytes =
        (uint64_t)(rows * (row_bytes(desc->convert.src.dtype, dim[3]) + row_bytes(desc->convert.dst.dtype, dim[3])));
    traffic->flops = (uint64_t)(rows * dim[3]);
}
