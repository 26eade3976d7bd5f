#include "error.h"
#include "op_rows.h"
#include "tensor.h"

tdm_status fp8_matmul_settle(union op_desc *desc)
{
    static const struct tensor_rule activation = {2, 2, 2, FLOAT_DTYPES, 0, true};
    static const struct tensor_rule weight = {2, 2, 2, DTYPE(TDM_F8E4M3), SCALING(TDM_PER_BLOCK), true};
    tdm_fp8_matmul_desc *d = &desc->fp8_matmul;
    tdm_status status = tensor_settle("a", &d->a, &activation);
    if (status || (status = tensor_settle("b", &d->b, &weight)) ||
        (status = tensor_settle("out", &d->out, &activation)) || (status = dims_match("b", &d->b, 1, "a", &d->a, 1)) ||
        (status = dims_match("out", &d->out, 0, "a", &d->a, 0)) ||
        (status = dims_match("out", &d->out, 1, "b", &d->b, 0)))
        return status;
    if (d->a.dtype != d->out.dtype)
        return fail(TDM_BAD_ARG, "out.dtype: got %s, want %s as a", dtype_name(d->out.dtype), dtype_name(d->a.dtype));
    if ((status = flag_check("has_bias", d->has_bias)) || (status = flag_check("has_a_scale", d->has_a_scale)) ||
        (status = flag_check("dynamic_a_scale", d->dynamic_a_scale)))
        return status;
    if (d->has_a_scale && d->dynamic_a_scale)
        return fail(TDM_BAD_ARG, "dynamic_a_scale: got 1 with has_a_scale, want one of the two");
    if (!d->b.scale_dtype)
        d->b.scale_dtype = TDM_F32;
    return TDM_OK;
}

tdm_status fp8_matmul_check(const union op_desc *desc, const union op_args *args)
{
    const tdm_fp8_matmul_desc *d = &desc->fp8_matmul;
    const tdm_fp8_matmul_args *a = &args->fp8_matmul;
    if (a->m < 0 || a->m > d->a.dim[0])
        return fail(TDM_BAD_ARG, "m: got %lld, want 0 to %lld", (long long)a->m, (long long)d->a.dim[0]);
    if (a->m == 0 || d->b.dim[0] == 0)
        return TDM_OK; /* nothing is touched */
    bool has_depth = d->b.dim[1] > 0;
    tdm_status status = optional_check("bias", a->bias, d->has_bias, d->a.dtype);
    if (status || (status = optional_check("a_scale", a->a_scale, d->has_a_scale, TDM_F32)) ||
        (status = check_data("out", a->out, d->out.dtype)))
        return status;
    if (!has_depth)
        return TDM_OK;
    if ((status = check_data("a", a->a, d->a.dtype)) || (status = check_data("b", a->b, d->b.dtype)))
        return status;
    return check_scales("b_scale", a->b_scale, &d->b);
}

void fp8_matmul_lengths(const union op_desc *desc, const union op_args *args, tdm_lengths *lengths)
{
    (void)desc;
    lengths->m = args->fp8_matmul.m;
}

void fp8_matmul_traffic(const union op_desc *desc, const union op_args *args, struct traffic *traffic)
{
    const tdm_fp8_matmul_desc *d = &desc->fp8_matmul;
    int64_t m = args->fp8_matmul.m, n = d->b.dim[0], k = d->b.dim[1];
    int64_t blocks = ((n - 1) / d->b.block[0] + 1) * ((k - 1) / d->b.block[1] + 1);
    if (m == 0 || n == 0 || k == 0)
        blocks = 0;
    traffic->bytes = (uint64_t)(m ? n * k + row_bytes(d->b.scale_dtype, blocks) : 0) +
                     (uint64_t)row_bytes(d->a.dtype, m * (k + n) + (d->has_bias && m ? n : 0));
    traffic->flops = (uint64_t)(2 * m * n * k);
}
