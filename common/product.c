/* qk and sv: the same op but for which dimension of x the sum runs over. */
#include "error.h"
#include "op_rows.h"
#include "tensor.h"

#include <math.h>

enum { ROWS = 2, CHANNELS = 3 }; /* dimensions of x */

/* a's last dimension is x's `depth`, out's is x's `columns`. */
static tdm_status settle(tdm_product_desc *d, int depth, int columns)
{
    static const struct tensor_rule plain = {4, 4, 4, FLOAT_DTYPES, 0, true};
    static const struct tensor_rule stored = {4, 4, 4, CACHE_DTYPES, CACHE_SCALINGS, true};
    tdm_status status = tensor_settle("a", &d->a, &plain);
    if (status || (status = tensor_settle("x", &d->x, &stored)) || (status = tensor_settle("out", &d->out, &plain)) ||
        (status = dims_match("x", &d->x, 0, "a", &d->a, 0)) ||
        (status = dims_match("a", &d->a, 3, "x", &d->x, depth)) ||
        (status = dims_match("out", &d->out, 3, "x", &d->x, columns)))
        return status;
    for (int i = 0; i < 3; i++)
        if ((status = dims_match("out", &d->out, i, "a", &d->a, i)))
            return status;
    int64_t q_heads = d->a.dim[1], kv_heads = d->x.dim[1];
    if (kv_heads == 0 ? q_heads != 0 : q_heads % kv_heads != 0)
        return fail(TDM_BAD_ARG, "a.dim[1]: got %lld query heads, want a multiple of the %lld kv heads",
                    (long long)q_heads, (long long)kv_heads);
    return TDM_OK;
}

tdm_status qk_settle(union op_desc *desc)
{
    return settle(&desc->product, CHANNELS, ROWS);
}

tdm_status sv_settle(union op_desc *desc)
{
    return settle(&desc->product, ROWS, CHANNELS);
}

/* columns: of out, depth: terms of its sums. */
static tdm_status check(const tdm_product_desc *d, const tdm_product_args *a, int64_t columns, int64_t depth)
{
    if (d->a.dim[0] * d->a.dim[1] * a->rows == 0 || columns == 0)
        return TDM_OK; /* nothing is touched */
    tdm_status status = check_data("out", a->out, d->out.dtype);
    if (status || depth == 0)
        return status;
    if ((status = check_data("a", a->a, d->a.dtype)) || (status = check_data("x", a->x, d->x.dtype)))
        return status;
    return check_scales("x_scale", a->x_scale, &d->x);
}

static tdm_status check_lengths(const tdm_product_desc *d, const tdm_product_args *a)
{
    if (a->rows < 0 || a->rows > d->a.dim[2])
        return fail(TDM_BAD_ARG, "rows: got %lld, want 0 to %lld", (long long)a->rows, (long long)d->a.dim[2]);
    if (a->keys < 0 || a->keys > d->x.dim[2])
        return fail(TDM_BAD_ARG, "keys: got %lld, want 0 to %lld", (long long)a->keys, (long long)d->x.dim[2]);
    return TDM_OK;
}

tdm_status qk_check(const union op_desc *desc, const union op_args *args)
{
    const tdm_product_args *a = &args->product;
    tdm_status status = check_lengths(&desc->product, a);
    if (status)
        return status;
    if (!isfinite(a->alpha))
        return fail(TDM_BAD_ARG, "alpha: got %g, want a finite number", (double)a->alpha);
    if (a->accumulate != 0)
        return fail(TDM_BAD_ARG, "accumulate: got %d, want 0", a->accumulate);
    return check(&desc->product, a, a->keys, desc->product.x.dim[CHANNELS]);
}

tdm_status sv_check(const union op_desc *desc, const union op_args *args)
{
    const tdm_product_args *a = &args->product;
    tdm_status status = check_lengths(&desc->product, a);
    if (status || (status = flag_check("accumulate", a->accumulate)))
        return status;
    return check(&desc->product, a, desc->product.x.dim[CHANNELS], a->keys);
}

void product_lengths(const union op_desc *desc, const union op_args *args, tdm_lengths *lengths)
{
    (void)desc;
    lengths->q_len = args->product.rows;
    lengths->kv_len = args->product.keys;
}

static void traffic_of(const tdm_product_desc *d, const tdm_product_args *a, int64_t columns, int64_t depth,
                       struct traffic *traffic)
{
    int64_t rows = d->a.dim[0] * d->a.dim[1] * a->rows, keys = d->x.dim[0] * d->x.dim[1] * a->keys;
    int64_t passes = a->accumulate ? 2 : 1; /* out is read and written */
    traffic->bytes = (uint64_t)(rows * (row_bytes(d->a.dtype, depth) + passes * row_bytes(d->out.dtype, columns)) +
                                keys * stored_row_bytes(&d->x));
    traffic->flops = 2 * (uint64_t)rows * (uint64_t)columns * (uint64_t)depth;
}

void qk_traffic(const union op_desc *desc, const union op_args *args, struct traffic *traffic)
{
    traffic_of(&desc->product, &args->product, args->product.keys, desc->product.x.dim[CHANNELS], traffic);
}

void sv_traffic(const union op_desc *desc, const union op_args *args, struct traffic *traffic)
{
    traffic_of(&desc->product, &args->product, desc->product.x.dim[CHANNELS], args->product.keys, traffic);
}
