/* The part of cuBLAS that the backend calls: a plain product, enqueued like a kernel. */
#ifndef TESTS_SHIM_CUBLAS_V2_H
#define TESTS_SHIM_CUBLAS_V2_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cublasStatus_t {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_NOT_SUPPORTED = 15
} cublasStatus_t;
typedef enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 } cublasOperation_t;
typedef enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68 } cublasComputeType_t;
typedef enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 } cublasGemmAlgo_t;
typedef struct shim_blas *cublasHandle_t;

/* The backend looks these up by name. */
#define SHIM_EXPORT __attribute__((visibility("default")))
SHIM_EXPORT cublasStatus_t cublasCreate_v2(cublasHandle_t *handle);
SHIM_EXPORT cublasStatus_t cublasDestroy_v2(cublasHandle_t handle);
SHIM_EXPORT cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream);
SHIM_EXPORT cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes);
SHIM_EXPORT cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op, int m,
                                        int n, int k, const void *alpha, const void *a, cudaDataType a_type,
                                        int a_stride, const void *b, cudaDataType b_type, int b_stride,
                                        const void *beta, void *c, cudaDataType c_type, int c_stride,
                                        cublasComputeType_t compute, cublasGemmAlgo_t algorithm);

#ifdef __cplusplus
}
#endif
#endif
