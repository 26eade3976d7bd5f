#include "error.h"
#include "op_rows.h"
#include "tensor.h"

#include <stdio.h>
#include <string.h>

tdm_status merge_states_settle(union op_desc *desc)
{
    static const struct tensor_rule rule = {4, 4, 4, FLOAT_DTYPES, 0, false};
    tdm_merge_states_desc *d = &desc->merge_states;
    tdm_status status = tensor_settle("part", &d->part, &rule);
    if (status || (status = tensor_settle("out", &d->out, &rule)))
        return status;
    for (int i = 0; i < 4; i++)
        if ((status = dims_match("out", &d->out, i, "part", &d->part, i)))
            return status;
    if (d->max_parts < 1 || d->max_parts > MAX_MERGED)
        return fail(TDM_BAD_ARG, "max_parts: got %d, want 1 to %d", d->max_parts, MAX_MERGED);
    return TDM_OK;
}

static tdm_status check_part(const tdm_merge_states_desc *d, const tdm_merge_states_args *a, int32_t i)
{
    char part[32], part_lse[32];
    snprintf(part, sizeof part, "part[%d]", i);
    snprintf(part_lse, sizeof part_lse, "part_lse[%d]", i);
    tdm_status status = check_data(part, a->part[i], d->part.dtype);
    if (status || (status = check_data(part_lse, a->part_lse[i], TDM_F32)))
        return status;
    bool alike = d->part.dtype == d->out.dtype && !memcmp(d->part.stride, d->out.stride, sizeof d->out.stride);
    if (a->out == a->part[i] && !alike)
        return fail(TDM_BAD_ARG, "out: got the memory of part[%d], want that only with the part's dtype and strides",
                    i);
    return TDM_OK;
}

tdm_status merge_states_check(const union op_desc *desc, const union op_args *args)
{
    const tdm_merge_states_desc *d = &desc->merge_states;
    const tdm_merge_states_args *a = &args->merge_states;
    if (a->parts < 0 || a->parts > d->max_parts)
        return fail(TDM_BAD_ARG, "parts: got %d, want 0 to %d", a->parts, d->max_parts);
    if (a->parts && !a->part)
        return fail(TDM_BAD_ARG, "part: got NULL, want a pointer for each part");
    if (a->parts && !a->part_lse)
        return fail(TDM_BAD_ARG, "part_lse: got NULL, want a pointer for each part");
    if ((uintptr_t)a->part % sizeof *a->part || (uintptr_t)a->part_lse % sizeof *a->part_lse)
        return fail(TDM_BAD_ARG, "%s: got an odd address, want a multiple of %zu",
                    (uintptr_t)a->part % sizeof *a->part ? "part" : "part_lse", sizeof *a->part);
    tdm_status status = check_data("out", a->out, d->out.dtype);
    if (!status && a->lse)
        status = check_data("lse", a->lse, TDM_F32);
    for (int32_t i = 0; i < a->parts && !status; i++)
        status = check_part(d, a, i);
    return status;
}

void merge_states_traffic(const union op_desc *desc, const union op_args *args, struct traffic *traffic)
{
    const tdm_merge_states_desc *d = &desc->merge_states;
    int64_t rows = d->out.dim[0] * d->out.dim[1] * d->out.dim[2], channels = d->out.dim[3];
    int64_t parts = args->merge_states.parts, number = sizeof(float);
    int64_t written = row_bytes(d->out.dtype, channels) + (args->merge_states.lse ? number : 0);
    traffic->bytes = (uint64_t)(rows * (parts * (row_bytes(d->part.dtype, channels) + number) + written));
    traffic->flops = (uint64_t)(2 * rows * parts * channels);
}
