/* Checking tensor descriptions and measuring them. */
#ifndef COMMON_TENSOR_H
#define COMMON_TENSOR_H

#include "tandem.h"

#include <stdbool.h>

#define DTYPE(x) (1u << (x)) /* sets of tdm_dtype and tdm_scaling are masks */
#define FLOAT_DTYPES (DTYPE(TDM_F32) | DTYPE(TDM_F16) | DTYPE(TDM_BF16))
#define SCALING(x) (1u << (x))
#define MASK_DTYPES (DTYPE(TDM_BOOL) | DTYPE(TDM_BITS))
#define UNSCALED_DTYPES (FLOAT_DTYPES | MASK_DTYPES) /* that take no scale */
#define CACHE_DTYPES (FLOAT_DTYPES | DTYPE(TDM_F8E4M3) | DTYPE(TDM_I8) | DTYPE(TDM_I4))
#define CACHE_SCALINGS                                                                                     \
    (SCALING(TDM_UNSCALED) | SCALING(TDM_PER_TENSOR) | SCALING(TDM_PER_CHANNEL) | SCALING(TDM_PER_TOKEN) | \
     SCALING(TDM_PER_GROUP))

/* What an op takes at one place of its desc. */
struct tensor_rule {
    int least_rank, most_rank;
    int rank;          /* leading dimensions of 1 are put in front up to here */
    unsigned dtypes;   /* that it takes                                       */
    unsigned scalings; /* of i8, i4 and f8e4m3; UNSCALED there is for f8e4m3  */
    bool may_be_empty; /* dimensions of 0 allowed                             */
};

/* Check `tensor` (named `field` in messages) against the rule, then give it the rule's rank and explicit
 * strides. BAD_ARG; UNSUPPORTED when only the dtype or scaling is not taken here. */
tdm_status tensor_settle(const char *field, tdm_tensor *tensor, const struct tensor_rule *rule);

/* The two dims must agree. */
tdm_status dims_match(const char *field, const tdm_tensor *a, int dim_a, const char *other, const tdm_tensor *b,
                      int dim_b);

/* Whether the scales follow the data: written by whoever stores rows. */
static inline bool is_dynamic(tdm_scaling scaling)
{
    return scaling == TDM_PER_TOKEN || scaling == TDM_PER_GROUP;
}

/* PER_GROUP: the scales of a row. */
static inline int64_t group_count(const tdm_tensor *tensor)
{
    int64_t channels = tensor->dim[3], group = tensor->block[1];
    return channels / group + (channels % group != 0);
}

/* Bytes of a row of n contiguous elements. */
int64_t row_bytes(tdm_dtype dtype, int64_t n);

/* Alignment of an element, in bytes. */
int64_t element_alignment(tdm_dtype dtype);

/* A data pointer of a run: not NULL and aligned to `tensor`'s element. */
tdm_status check_data(const char *field, const void *data, tdm_dtype dtype);

/* The scales of a tensor: there exactly when it is scaled, and aligned. */
tdm_status check_scales(const char *field, const void *scales, const tdm_tensor *tensor);

/* A length of a run. */
tdm_status check_length(const char *field, int64_t index, int64_t length, int64_t least, int64_t most);

const char *dtype_name(tdm_dtype dtype);

#endif
