/* fp8_matmul on CUDA: what its rows (C) and its kernels (CUDA C++) share. */
#ifndef CUDA_FP8_MATMUL_H
#define CUDA_FP8_MATMUL_H

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a run of the op may call cuBLAS, so that its scratch needs a handle. */
bool fp8_calls_blas(const struct tdm_op *op);

#ifdef __cplusplus
}
#endif
#endif
