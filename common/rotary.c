/* What kv_append, gqa and kv_shift ask of a norm and of rotary tables. */
#include "error.h"
#include "op_rows.h"
#include "tensor.h"

#include <math.h>

tdm_status flag_check(const char *field, int32_t flag)
{
    return flag == 0 || flag == 1 ? TDM_OK : fail(TDM_BAD_ARG, "%s: got %d, want 0 or 1", field, flag);
}

static tdm_status check_dtype(const char *field, tdm_dtype dtype)
{
    if (dtype == TDM_F32 || dtype == TDM_F16 || dtype == TDM_BF16)
        return TDM_OK;
    return fail(TDM_BAD_ARG, "%s.dtype: got %s (%d), want f32, f16, bf16 or 0", field, dtype_name(dtype), (int)dtype);
}

tdm_status norm_settle(const char *field, const tdm_norm *norm)
{
    if (norm->dtype == 0) {
        if (norm->epsilon != 0)
            return fail(TDM_BAD_ARG, "%s.epsilon: got %g without a norm, want 0", field, (double)norm->epsilon);
        return TDM_OK;
    }
    if (!(norm->epsilon >= 0) || isinf(norm->epsilon))
        return fail(TDM_BAD_ARG, "%s.epsilon: got %g, want 0 or more and finite", field, (double)norm->epsilon);
    return check_dtype(field, norm->dtype);
}

tdm_status rotary_settle(const tdm_rotary *rotary, int64_t head_dim)
{
    if (rotary->dtype == 0) {
        if (rotary->dim || rotary->positions || rotary->interleaved)
            return fail(TDM_BAD_ARG, "rotary.dtype: got 0 with other fields set, want the dtype of cos and sin");
        return TDM_OK;
    }
    tdm_status status = check_dtype("rotary", rotary->dtype);
    if (status || (status = flag_check("rotary.interleaved", rotary->interleaved)))
        return status;
    if (rotary->dim < 2 || rotary->dim % 2 || rotary->dim > head_dim)
        return fail(TDM_BAD_ARG, "rotary.dim: got %d, want an even number from 2 to the head's %lld", rotary->dim,
                    (long long)head_dim);
    if (rotary->positions < 1)
        return fail(TDM_BAD_ARG, "rotary.positions: got %d, want 1 or more", rotary->positions);
    return TDM_OK;
}

tdm_status optional_check(const char *field, const void *data, bool wanted, tdm_dtype dtype)
{
    if (wanted)
        return check_data(field, data, dtype);
    return data ? fail(TDM_BAD_ARG, "%s: got a pointer, want NULL as the desc has none", field) : TDM_OK;
}

tdm_status rotary_check(const tdm_rotary *rotary, const void *cos, const void *sin, const int32_t *positions)
{
    bool wanted = rotary->dtype != 0;
    tdm_status status = optional_check("cos", cos, wanted, rotary->dtype);
    if (status || (status = optional_check("sin", sin, wanted, rotary->dtype)))
        return status;
    return positions ? optional_check("positions", positions, wanted, TDM_F32) : TDM_OK;
}

tdm_status position_check(const tdm_rotary *rotary, const int32_t *positions, int64_t index, int64_t otherwise)
{
    if (!positions && (otherwise < 0 || otherwise >= rotary->positions))
        return fail(TDM_BAD_ARG, "positions[%lld]: got NULL, and the token's own position is %lld, want 0 to %d",
                    (long long)index, (long long)otherwise, rotary->positions - 1);
    return positions ? check_length("positions", index, positions[index], 0, rotary->positions - 1) : TDM_OK;
}
