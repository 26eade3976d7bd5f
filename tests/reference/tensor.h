/* Tensors as the tests build and read them: dense or strided descriptions, one element at a time. */
#ifndef TESTS_REFERENCE_TENSOR_H
#define TESTS_REFERENCE_TENSOR_H

#include "tandem.h"

#include <stdbool.h>

/* A dense, unscaled tensor. */
tdm_tensor tensor4(tdm_dtype dtype, int64_t d0, int64_t d1, int64_t d2, int64_t d3);
tdm_tensor tensor2(tdm_dtype dtype, int64_t rows, int64_t columns);

/* A tensor [batch, heads, rows, channels], dense or, interleaved, with the heads of one row side by side in memory
 * as packed projections have them, and a gap behind each. */
tdm_tensor tensor_in_layout(tdm_dtype dtype, bool interleaved, int64_t batch, int64_t heads, int64_t rows,
                            int64_t channels);

/* Bytes from one index of an axis to the next; the last axis has none of its own for i4 (0). */
int64_t tensor_stride(const tdm_tensor *tensor, int axis);

/* Bytes from the first byte to the end of the last element. */
int64_t tensor_bytes(const tdm_tensor *tensor);

int64_t tensor_elements(const tdm_tensor *tensor);

/* How many scales a row has that change along it: the groups of PER_GROUP, else 1. */
int64_t tensor_groups(const tdm_tensor *tensor);

/* How many scales the tensor has, by its scaling; 0 when unscaled. */
int64_t tensor_scales(const tdm_tensor *tensor);

/* Where row [b, h, r] of a tensor of any rank starts; the axes that it lacks have index 0. */
void *tensor_row(const tdm_tensor *tensor, const void *data, int64_t b, int64_t h, int64_t r);

/* Set one element. */
void tensor_put(const tdm_tensor *tensor, const void *data, int64_t b, int64_t h, int64_t r, int64_t c, double x);

/* The scale that covers element [b, h, r, c]; 1 when unscaled. For cache tensors: f32 scales. */
double tensor_scale(const tdm_tensor *tensor, const float *scale, int64_t b, int64_t h, int64_t r, int64_t c);

/* The axis' length counted from the innermost: 0 for channels, 1 rows, 2 heads, 3 batch. 1 beyond the rank. */
int64_t tensor_dim(const tdm_tensor *tensor, int from_last);

/* The stored values of the whole tensor, dense and not scaled. The caller frees them. */
double *tensor_read(const tdm_tensor *tensor, const void *data);

/* Whether dtype is an integer, stored with scales. */
static inline bool is_quantized(tdm_dtype dtype)
{
    return dtype == TDM_I8 || dtype == TDM_I4;
}

/* Whether append and quantize write the scales. */
static inline bool is_dynamic(const tdm_tensor *tensor)
{
    return tensor->scaling == TDM_PER_TOKEN || tensor->scaling == TDM_PER_GROUP;
}

const char *format_name(tdm_dtype dtype);
const char *scaling_text(tdm_scaling scaling);

#endif
