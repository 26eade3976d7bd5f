#include "op_rows.h"

/* Every run is alike. */
static void no_lengths(const union op_desc *desc, const union op_args *args, tdm_lengths *lengths)
{
    (void)desc, (void)args, (void)lengths;
}

const struct op_row op_rows[OP_KINDS] = {
    [OP_KV_APPEND] = {"kv_append", sizeof(tdm_kv_append_desc), sizeof(tdm_kv_append_args), kv_append_settle,
                      kv_append_check, kv_append_lengths, kv_append_traffic},
    [OP_KV_SHIFT] = {"kv_shift", sizeof(tdm_kv_shift_desc), sizeof(tdm_kv_shift_args), kv_shift_settle, kv_shift_check,
                     no_lengths, kv_shift_traffic},
    [OP_GQA] = {"gqa", sizeof(tdm_gqa_desc), sizeof(tdm_gqa_args), gqa_settle, gqa_check, gqa_lengths, gqa_traffic},
    [OP_MERGE_STATES] = {"merge_states", sizeof(tdm_merge_states_desc), sizeof(tdm_merge_states_args),
                         merge_states_settle, merge_states_check, no_lengths, merge_states_traffic},
    [OP_QK] = {"qk", sizeof(tdm_product_desc), sizeof(tdm_product_args), qk_settle, qk_check, product_lengths,
               qk_traffic},
    [OP_SV] = {"sv", sizeof(tdm_product_desc), sizeof(tdm_product_args), sv_settle, sv_check, product_lengths,
               sv_traffic},
    [OP_FP8_MATMUL] = {"fp8_matmul", sizeof(tdm_fp8_matmul_desc), sizeof(tdm_fp8_matmul_args), fp8_matmul_settle,
                       fp8_matmul_check, fp8_matmul_lengths, fp8_matmul_traffic},
    [OP_QUANTIZE] = {"quantize", sizeof(tdm_convert_desc), sizeof(tdm_convert_args), quantize_settle, convert_check,
                     no_lengths, convert_traffic},
    [OP_DEQUANTIZE] = {"dequantize", sizeof(tdm_convert_desc), sizeof(tdm_convert_args), dequantize_settle,
                       convert_check, no_lengths, convert_traffic},
};
