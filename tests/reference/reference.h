/* What each op must compute, in double, everything materialised. Where the result is a function of exactly
 * rounded steps (append, quantize, dequantize) the reference gives the bytes; where the order of f32
 * operations is the library's choice (gqa, fp8_matmul) it gives the exact value of each element and the bound
 * derived in docs/numerics.md. All take valid descs and args. */
#ifndef TESTS_REFERENCE_REFERENCE_H
#define TESTS_REFERENCE_REFERENCE_H

#include "compare.h"

/* Write to args->cache what tdm_kv_append_run writes. */
void reference_kv_append(const tdm_kv_append_desc *desc, const tdm_kv_append_args *args);

/* Write to args->cache what tdm_kv_shift_run writes. */
void reference_kv_shift(const tdm_kv_shift_desc *desc, const tdm_kv_shift_args *args);

/* Write to args->dst (and args->scale) what the run writes. */
void reference_quantize(const tdm_convert_desc *desc, const tdm_convert_args *args);
void reference_dequantize(const tdm_convert_desc *desc, const tdm_convert_args *args);

/* Results of rows from q_len on are left 0. */
struct gqa_expected {
    struct expected out;    /* as desc->out                      */
    struct expected lse;    /* [batch, q_heads, max_q]           */
    struct expected scores; /* as desc->scores, with a capture   */
};
struct gqa_expected reference_gqa(const tdm_gqa_desc *desc, const tdm_gqa_args *args);
void gqa_expected_free(struct gqa_expected *expected);

/* What the merge of parts must give, where each part is known to within its bound: from what gqa must give for each
 * range of keys it follows what it must give for all of them. A part as it lies in memory has bounds of 0. */
struct gqa_expected reference_merge_states(const tdm_merge_states_desc *desc, const struct gqa_expected *part,
                                           int32_t parts);
struct gqa_expected reference_part(const tdm_merge_states_desc *desc, const void *part, const float *part_lse);

/* Results of [batch, heads, rows, columns], dense: those of the run, keys being the columns of qk. What out holds
 * before is read when args->accumulate is set. */
struct expected reference_qk(const tdm_product_desc *desc, const tdm_product_args *args);
struct expected reference_sv(const tdm_product_desc *desc, const tdm_product_args *args);

/* Results of rows from args->m on are left 0. */
struct expected reference_fp8_matmul(const tdm_fp8_matmul_desc *desc, const tdm_fp8_matmul_args *args);

/* The same with the bound of rows that round the weights to the activations' type: dequant_cublas. */
struct expected reference_fp8_matmul_widened(const tdm_fp8_matmul_desc *desc, const tdm_fp8_matmul_args *args);

#endif
