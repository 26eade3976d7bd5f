#include "tensor.h"

#include "error.h"

#include <stdio.h>

static const struct {
    const char *name;
    int bits;
} dtypes[] = {
    [TDM_F32] = {"f32", 32},      [TDM_F16] = {"f16", 16},  [TDM_BF16] = {"bf16", 16},
    [TDM_F8E4M3] = {"f8e4m3", 8}, [TDM_E8M0] = {"e8m0", 8}, [TDM_I8] = {"i8", 8},
    [TDM_I4] = {"i4", 4},         [TDM_BOOL] = {"bool", 8}, [TDM_BITS] = {"bits", 1},
};
static const char *const scalings[] = {"UNSCALED", "PER_TENSOR", "PER_CHANNEL", "PER_TOKEN", "PER_BLOCK", "PER_GROUP"};

enum { DTYPE_COUNT = sizeof dtypes / sizeof *dtypes, SCALING_COUNT = sizeof scalings / sizeof *scalings };

static bool is_dtype(tdm_dtype dtype)
{
    return (unsigned)dtype < DTYPE_COUNT && dtypes[dtype].name;
}

const char *dtype_name(tdm_dtype dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].name : "unknown dtype";
}

int64_t row_bytes(tdm_dtype dtype, int64_t n)
{
    int per_byte = 8 / dtypes[dtype].bits;
    return per_byte > 1 ? n / per_byte + (n % per_byte != 0) : n * (dtypes[dtype].bits / 8);
}

int64_t element_alignment(tdm_dtype dtype)
{
    return dtypes[dtype].bits <= 8 ? 1 : dtypes[dtype].bits / 8;
}

/* The words of a mask, for messages. */
static const char *accepted(char *text, size_t size, unsigned mask, bool of_dtypes)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < (of_dtypes ? (int)DTYPE_COUNT : (int)SCALING_COUNT); i++) {
        const char *word = of_dtypes ? dtypes[i].name : scalings[i];
        if (word && mask >> i & 1 && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", word);
    }
    return text;
}

static tdm_status check_block(const char *field, const tdm_tensor *t)
{
    enum { GROUP_STEP = 16 };
    for (int i = 0; i < 2; i++) {
        long long block = t->block[i];
        if (t->scaling == TDM_PER_BLOCK && block < 1)
            return fail(TDM_BAD_ARG, "%s.block[%d]: got %lld, want 1 or more", field, i, block);
        if (t->scaling == TDM_PER_GROUP && i == 0 && block != 1)
            return fail(TDM_BAD_ARG, "%s.block[0]: got %lld with PER_GROUP, want 1", field, block);
        if (t->scaling == TDM_PER_GROUP && i == 1 && (block < GROUP_STEP || block % GROUP_STEP))
            return fail(TDM_BAD_ARG, "%s.block[1]: got %lld with PER_GROUP, want a positive multiple of %d", field,
                        block, GROUP_STEP);
        if (t->scaling != TDM_PER_BLOCK && t->scaling != TDM_PER_GROUP && block)
            return fail(TDM_BAD_ARG, "%s.block[%d]: got %lld without PER_BLOCK or PER_GROUP, want 0", field, i, block);
    }
    return TDM_OK;
}

static tdm_status check_types(const char *field, const tdm_tensor *t, const struct tensor_rule *rule)
{
    char text[128];
    if (!is_dtype(t->dtype))
        return fail(TDM_BAD_ARG, "%s.dtype: got %d, want one of %s", field, (int)t->dtype,
                    accepted(text, sizeof text, rule->dtypes, true));
    if ((unsigned)t->scaling >= SCALING_COUNT)
        return fail(TDM_BAD_ARG, "%s.scaling: got %d, want a tdm_scaling", field, (int)t->scaling);
    if (!(rule->dtypes >> t->dtype & 1))
        return fail(TDM_UNSUPPORTED, "%s.dtype: got %s, want one of %s", field, dtype_name(t->dtype),
                    accepted(text, sizeof text, rule->dtypes, true));

    bool takes_none = UNSCALED_DTYPES >> t->dtype & 1;
    bool may_lack = t->dtype == TDM_F8E4M3 && rule->scalings >> TDM_UNSCALED & 1;
    if (takes_none && t->scaling != TDM_UNSCALED)
        return fail(TDM_BAD_ARG, "%s.scaling: got %s with %s, want UNSCALED", field, scalings[t->scaling],
                    dtype_name(t->dtype));
    if (!takes_none && !may_lack && t->scaling == TDM_UNSCALED)
        return fail(TDM_BAD_ARG, "%s.scaling: got UNSCALED with %s, want one of %s", field, dtype_name(t->dtype),
                    accepted(text, sizeof text, rule->scalings & ~SCALING(TDM_UNSCALED), false));
    if (!takes_none && !(rule->scalings >> t->scaling & 1))
        return fail(TDM_UNSUPPORTED, "%s.scaling: got %s, want one of %s", field, scalings[t->scaling],
                    accepted(text, sizeof text, rule->scalings, false));

    unsigned scale_dtypes = DTYPE(TDM_F32);
    if (t->scaling == TDM_PER_BLOCK)
        scale_dtypes |= DTYPE(TDM_BF16) | DTYPE(TDM_E8M0);
    if (t->scale_dtype != 0 && (!is_dtype(t->scale_dtype) || !(scale_dtypes >> t->scale_dtype & 1)))
        return fail(TDM_BAD_ARG, "%s.scale_dtype: got %s (%d), want one of %s", field, dtype_name(t->scale_dtype),
                    (int)t->scale_dtype, accepted(text, sizeof text, scale_dtypes, true));
    return check_block(field, t);
}

/* Put leading dimensions of 1 in front. */
static void raise_rank(tdm_tensor *t, int rank)
{
    int shift = rank - t->rank;
    for (int i = rank - 1; i >= 0; i--) {
        t->dim[i] = i >= shift ? t->dim[i - shift] : 1;
        t->stride[i] = i >= shift ? t->stride[i - shift] : 0;
    }
    t->rank = rank;
}

/* A dimension of 0 does not excuse the others: what counts rows need not think of it. */
static bool counts_overflow(const tdm_tensor *t)
{
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] && __builtin_mul_overflow(count, t->dim[i], &count))
            return true;
    return false;
}

static tdm_status fill_strides(const char *field, tdm_tensor *t)
{
    int last = t->rank - 1;
    int64_t element = element_alignment(t->dtype);
    if (t->stride[last] != 0 && t->stride[last] != element)
        return fail(TDM_BAD_ARG, "%s.stride[%d]: got %lld, want 0 or %lld (the innermost is contiguous)", field, last,
                    (long long)t->stride[last], (long long)element);
    t->stride[last] = element;
    int64_t dense = 0, span = 0; /* bytes that clear all that lies inside; at most what check_overlap adds up */
    bool overflow = counts_overflow(t) || t->dim[last] > (INT64_MAX - 1) / element;
    if (!overflow)
        span = dense = row_bytes(t->dtype, t->dim[last]);
    for (int i = last - 1; i >= 0 && !overflow; i--) {
        if (t->stride[i] < 0 || t->stride[i] % element_alignment(t->dtype))
            return fail(TDM_BAD_ARG, "%s.stride[%d]: got %lld, want a positive multiple of %lld", field, i,
                        (long long)t->stride[i], (long long)element_alignment(t->dtype));
        if (t->stride[i] == 0)
            t->stride[i] = dense;
        int64_t extent;
        overflow =
            __builtin_mul_overflow(t->stride[i], t->dim[i], &extent) || __builtin_add_overflow(span, extent, &span);
        dense = !overflow && extent > dense ? extent : dense;
    }
    if (overflow)
        return fail(TDM_BAD_ARG, "%s.dim: the product of the dimensions does not fit 63 bits", field);
    return TDM_OK;
}

/* Taken from the shortest to the longest, each stride must clear what lies inside it. */
static tdm_status check_overlap(const char *field, const tdm_tensor *t)
{
    int order[4], n = 0;
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] == 0)
            return TDM_OK;
    for (int i = 0; i < t->rank - 1; i++) {
        if (t->dim[i] == 1)
            continue;
        int at = n++;
        for (; at > 0 && t->stride[order[at - 1]] > t->stride[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    int64_t extent = row_bytes(t->dtype, t->dim[t->rank - 1]);
    for (int i = 0; i < n; i++) {
        int dim = order[i];
        if (t->stride[dim] < extent)
            return fail(TDM_BAD_ARG, "%s.stride[%d]: got %lld, want at least %lld, or elements overlap", field, dim,
                        (long long)t->stride[dim], (long long)extent);
        extent += t->stride[dim] * (t->dim[dim] - 1);
    }
    return TDM_OK;
}

tdm_status tensor_settle(const char *field, tdm_tensor *t, const struct tensor_rule *rule)
{
    if (t->rank < rule->least_rank || t->rank > rule->most_rank)
        return fail(TDM_BAD_ARG, "%s.rank: got %d, want %d to %d", field, t->rank, rule->least_rank, rule->most_rank);
    for (int i = 0; i < 4; i++)
        if (t->spare[i])
            return fail(TDM_BAD_ARG, "%s.spare[%d]: got %lld, want 0", field, i, (long long)t->spare[i]);
    tdm_status status = check_types(field, t, rule);
    if (status)
        return status;
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] < (rule->may_be_empty ? 0 : 1))
            return fail(TDM_BAD_ARG, "%s.dim[%d]: got %lld, want %d or more", field, i, (long long)t->dim[i],
                        rule->may_be_empty ? 0 : 1);
    if ((status = fill_strides(field, t)) || (status = check_overlap(field, t)))
        return status;
    raise_rank(t, rule->rank);
    return TDM_OK;
}

tdm_status dims_match(const char *field, const tdm_tensor *a, int dim_a, const char *other, const tdm_tensor *b,
                      int dim_b)
{
    if (a->dim[dim_a] == b->dim[dim_b])
        return TDM_OK;
    return fail(TDM_BAD_ARG, "%s.dim[%d]: got %lld, want %lld as %s.dim[%d]", field, dim_a, (long long)a->dim[dim_a],
                (long long)b->dim[dim_b], other, dim_b);
}

static tdm_status check_pointer(const char *field, const void *data, int64_t alignment)
{
    if (!data)
        return fail(TDM_BAD_ARG, "%s: got NULL, want a pointer", field);
    if ((uintptr_t)data % (uintptr_t)alignment)
        return fail(TDM_BAD_ARG, "%s: got %p, want a multiple of %lld", field, data, (long long)alignment);
    return TDM_OK;
}

tdm_status check_data(const char *field, const void *data, tdm_dtype dtype)
{
    return check_pointer(field, data, element_alignment(dtype));
}

tdm_status check_scales(const char *field, const void *scales, const tdm_tensor *tensor)
{
    if (tensor->scaling == TDM_UNSCALED)
        return scales ? fail(TDM_BAD_ARG, "%s: got a pointer, want NULL for an UNSCALED tensor", field) : TDM_OK;
    return check_pointer(field, scales, element_alignment(tensor->scale_dtype ? tensor->scale_dtype : TDM_F32));
}

tdm_status check_length(const char *field, int64_t index, int64_t length, int64_t least, int64_t most)
{
    if (length >= least && length <= most)
        return TDM_OK;
    return fail(TDM_BAD_ARG, "%s[%lld]: got %lld, want %lld to %lld", field, (long long)index, (long long)length,
                (long long)least, (long long)most);
}
