#include "each_op.h"

const char *each_op_name(enum each_op op)
{
    static const char *const names[] = {
        [APPEND] = "kv_append",
        [SHIFT] = "kv_shift",
        [GQA] = "gqa",
        [MERGE] = "merge_states",
        [QK] = "qk",
        [SV] = "sv",
        [FP8] = "fp8_matmul",
        [QUANTIZE] = "quantize",
        [DEQUANTIZE] = "dequantize",
    };
    return names[op];
}

tdm_status each_op_create(enum each_op op, tdm_ctx *ctx, tdm_device device, const void *desc, tdm_op **made)
{
    switch (op) {
    case APPEND:
        return tdm_kv_append_create(ctx, device, desc, made);
    case SHIFT:
        return tdm_kv_shift_create(ctx, device, desc, made);
    case GQA:
        return tdm_gqa_create(ctx, device, desc, made);
    case MERGE:
        return tdm_merge_states_create(ctx, device, desc, made);
    case QK:
        return tdm_qk_create(ctx, device, desc, made);
    case SV:
        return tdm_sv_create(ctx, device, desc, made);
    case FP8:
        return tdm_fp8_matmul_create(ctx, device, desc, made);
    case QUANTIZE:
        return tdm_quantize_create(ctx, device, desc, made);
    default:
        return tdm_dequantize_create(ctx, device, desc, made);
    }
}

tdm_status each_op_run(enum each_op op, const tdm_op *made, tdm_workspace *workspace, const void *args)
{
    switch (op) {
    case APPEND:
        return tdm_kv_append_run(made, workspace, NULL, args);
    case SHIFT:
        return tdm_kv_shift_run(made, workspace, NULL, args);
    case GQA:
        return tdm_gqa_run(made, workspace, NULL, args);
    case MERGE:
        return tdm_merge_states_run(made, workspace, NULL, args);
    case QK:
        return tdm_qk_run(made, workspace, NULL, args);
    case SV:
        return tdm_sv_run(made, workspace, NULL, args);
    case FP8:
        return tdm_fp8_matmul_run(made, workspace, NULL, args);
    case QUANTIZE:
        return tdm_quantize_run(made, workspace, NULL, args);
    default:
        return tdm_dequantize_run(made, workspace, NULL, args);
    }
}
