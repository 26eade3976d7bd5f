/* The types that tests go through. */
#ifndef TESTS_OPS_TYPES_H
#define TESTS_OPS_TYPES_H

#include "tandem.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

#define MOST (INT64_MAX - 15) /* channels of the largest group */

/* What a cache tensor can be. */
static const struct stored_type {
    tdm_dtype dtype;
    tdm_scaling scaling;
    int64_t group; /* channels that share a scale of PER_GROUP */
} stored_types[] = {
    {TDM_F32, TDM_UNSCALED, 0},       {TDM_F16, TDM_UNSCALED, 0},     {TDM_BF16, TDM_UNSCALED, 0},
    {TDM_I8, TDM_PER_TENSOR, 0},      {TDM_I8, TDM_PER_CHANNEL, 0},   {TDM_I8, TDM_PER_TOKEN, 0},
    {TDM_I8, TDM_PER_GROUP, 16},      {TDM_I8, TDM_PER_GROUP, MOST},  {TDM_I4, TDM_PER_TENSOR, 0},
    {TDM_I4, TDM_PER_CHANNEL, 0},     {TDM_I4, TDM_PER_TOKEN, 0},     {TDM_I4, TDM_PER_GROUP, 32},
    {TDM_I4, TDM_PER_GROUP, 128},     {TDM_F8E4M3, TDM_UNSCALED, 0},  {TDM_F8E4M3, TDM_PER_TENSOR, 0},
    {TDM_F8E4M3, TDM_PER_CHANNEL, 0}, {TDM_F8E4M3, TDM_PER_TOKEN, 0}, {TDM_F8E4M3, TDM_PER_GROUP, 32},
    {TDM_I4, TDM_PER_GROUP, 16},
};

/* Make a tensor one of them. */
static inline tdm_tensor stored_as(tdm_tensor tensor, const struct stored_type *type)
{
    tensor.scaling = type->scaling;
    tensor.block[0] = type->group ? 1 : 0;
    tensor.block[1] = type->group;
    return tensor;
}

/* What activations can be. */
static const tdm_dtype float_types[] = {TDM_F32, TDM_F16, TDM_BF16};

#endif
