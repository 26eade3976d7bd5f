/* Rows of a cache or tensor from and to plain numbers, by the rules that include/tandem.h states. */
#ifndef CPU_ROWS_H
#define CPU_ROWS_H

#include "cpu.h"

/* The rows of one head: row i at data + i * stride bytes. */
struct head_rows {
    void *data;
    int64_t stride;
    tdm_dtype dtype;
    tdm_scaling scaling;
    float *scale;          /* of this head: one, one a channel, or those of each row */
    int64_t group, groups; /* PER_GROUP: channels of a scale, scales of a row        */
};

/* Head `head` of batch `batch` of a settled rank-4 tensor, from row `first` on. */
struct head_rows head_rows(const tdm_tensor *tensor, const void *data, const float *scale, int64_t batch, int64_t head,
                           int64_t first);

/* The same rows from row `first` on. */
struct head_rows rows_from(struct head_rows rows, int64_t first);

/* Bytes before channel `channel` of a row; even where two share a byte. */
int64_t channel_bytes(tdm_dtype dtype, int64_t channel);

/* Convert n rows of `channels`; store writes dynamic scales and reads the others. */
void rows_store(const struct leaf_table *leaf, struct head_rows from, struct head_rows to, int64_t n, int64_t channels);
void rows_load(const struct leaf_table *leaf, struct head_rows from, struct head_rows to, int64_t n, int64_t channels);

/* The dynamic scale of what has this extreme, the first value of the largest magnitude: 0 where its reciprocal would
 * overflow. */
float scale_of_extreme(float extreme, tdm_dtype dtype);

/* Copy n rows, byte for byte, with the scales that are theirs. The rows may overlap when `to` lies before `from`. */
void rows_copy(struct head_rows from, struct head_rows to, int64_t n, int64_t channels);

/* One plain f32 row as rows. */
static inline struct head_rows plain_row(float *x)
{
    return (struct head_rows){.data = x, .dtype = TDM_F32};
}

#endif
