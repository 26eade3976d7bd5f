/* The ops: one row each, holding what the common layer must know of an op. */
#ifndef COMMON_OP_ROWS_H
#define COMMON_OP_ROWS_H

#include "backend.h"

union op_args {
    tdm_kv_append_args kv_append;
    tdm_kv_shift_args kv_shift;
    tdm_gqa_args gqa;
    tdm_merge_states_args merge_states;
    tdm_product_args product;
    tdm_fp8_matmul_args fp8_matmul;
    tdm_convert_args convert;
};

struct traffic {
    uint64_t bytes, flops;
};

/* Check the desc and give it explicit ranks, strides and defaults. */
typedef tdm_status op_settle(union op_desc *desc);
/* Check the lengths and pointers of a run. */
typedef tdm_status op_check(const union op_desc *desc, const union op_args *args);
/* The lengths that dispatch looks at, the longest of the batch. */
typedef void op_lengths(const union op_desc *desc, const union op_args *args, tdm_lengths *lengths);
/* Ideal bytes and flops of a run. */
typedef void op_traffic(const union op_desc *desc, const union op_args *args, struct traffic *traffic);

struct op_row {
    const char *name;
    size_t desc_size, args_size;
    op_settle *settle;
    op_check *check;
    op_lengths *lengths;
    op_traffic *traffic;
};

extern const struct op_row op_rows[OP_KINDS];

/* The rows' functions, one file an op. */
op_settle kv_append_settle, kv_shift_settle, gqa_settle, merge_states_settle, qk_settle, sv_settle, fp8_matmul_settle,
    quantize_settle, dequantize_settle;
op_check kv_append_check, kv_shift_check, gqa_check, merge_states_check, qk_check, sv_check, fp8_matmul_check,
    convert_check;
op_lengths kv_append_lengths, gqa_lengths, product_lengths, fp8_matmul_lengths;
op_traffic kv_append_traffic, kv_shift_traffic, gqa_traffic, merge_states_traffic, qk_traffic, sv_traffic,
    fp8_matmul_traffic, convert_traffic;

/* What several ops ask of a cache; name stands for it in messages. */
tdm_status cache_settle(const char *name, tdm_kv_cache *cache);
tdm_status cache_check(const char *name, const tdm_kv_cache *cache, const tdm_kv_data *data);
/* Bytes of one row of a cache tensor with its own scales. */
int64_t stored_row_bytes(const tdm_tensor *half);
/* Bytes of `rows` cache rows over all kv heads, scales included. */
uint64_t cache_traffic(const tdm_kv_cache *cache, int64_t rows);

/* What several ops ask of a norm and of rotary tables. */
tdm_status norm_settle(const char *field, const tdm_norm *norm);
tdm_status rotary_settle(const tdm_rotary *rotary, int64_t head_dim);
tdm_status rotary_check(const tdm_rotary *rotary, const void *cos, const void *sin, const int32_t *positions);
/* positions[index], or `otherwise` without positions, must be a row of the tables. */
tdm_status position_check(const tdm_rotary *rotary, const int32_t *positions, int64_t index, int64_t otherwise);

/* A field that is 0 or 1. */
tdm_status flag_check(const char *field, int32_t flag);
/* A pointer that is there exactly when the desc wants it. */
tdm_status optional_check(const char *field, const void *data, bool wanted, tdm_dtype dtype);

#endif
