/* What both ways to run fp8_matmul share: activations as f32 and block scales as f32. */
#ifndef CPU_FP8_H
#define CPU_FP8_H

#include "cpu.h"

struct fp8 {
    const tdm_fp8_matmul_desc *desc;
    const tdm_fp8_matmul_args *args;
    const struct leaf_table *leaf;
    int64_t n, k;
    int64_t k_blocks; /* scales in a row of them */
};

struct fp8 fp8_open(const struct tdm_op *op, const struct run *run);

enum {
    FP8_DOT_ROWS = 8,  /* that the leaf fp8_dot takes at once                                  */
    FP8_FEW_ROWS = 11, /* up to here several calls of it beat widening the weights for all rows */
};

/* Rows of activations up to which fp8_dot is the leaf to call. Above, fp8_many is where this is below FP8_FEW_ROWS. */
int fp8_few_rows(const struct tdm_op *op, const struct leaf_table *leaf);

/* Whether the run is finished without reading a weight: no rows, no columns, or k = 0, where out is the bias. */
bool fp8_done_without_depth(const struct fp8 *f);

/* Row `row` of a as f32, with the W8A8 rounding where the desc wants it. */
void fp8_load_activations(const struct fp8 *f, int64_t row, float *out);

/* The scales of weight row n, one a block of k: in place when they are f32, else widened into buffer. */
const float *fp8_scales(const struct fp8 *f, int64_t n, float *buffer);

/* Weight rows [n, n + result) share a row of scales; at most `most`. */
int64_t fp8_rows_of_one_scale(const struct fp8 *f, int64_t n, int64_t most);

/* Add the bias to `columns` sums from column n of row `row` on, round and write them out. */
void fp8_store(const struct fp8 *f, int64_t row, int64_t n, float *sums, int64_t columns);

#endif
