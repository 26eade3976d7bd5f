/* The types that tests go through. */
#ifndef TESTS_OPS_TYPES_H
#define TESTS_OPS_TYPES_H

#include "tandem.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* What a cache tensor can be. */
static const struct {
    tdm_dtype dtype;
    tdm_scaling scaling;
} stored_types[] = {
    {TDM_F32, TDM_UNSCALED},  {TDM_F16, TDM_UNSCALED},   {TDM_BF16, TDM_UNSCALED},
    {TDM_I8, TDM_PER_TENSOR}, {TDM_I8, TDM_PER_CHANNEL}, {TDM_I8, TDM_PER_TOKEN},
    {TDM_I4, TDM_PER_TENSOR}, {TDM_I4, TDM_PER_CHANNEL}, {TDM_I4, TDM_PER_TOKEN},
};

/* What activations can be. */
static const tdm_dtype float_types[] = {TDM_F32, TDM_F16, TDM_BF16};

#endif
