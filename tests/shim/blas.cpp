/* A product of two matrices under the names of cuBLAS. SHIM_BLAS=none: no handle can be made. */
#include "queue.h"

#include "common/convert.h"

#include <cstdlib>
#include <cstring>
#include <cublas_v2.h>

struct shim_blas {
    cudaStream_t stream;
    void *workspace;
    size_t workspace_bytes;
};

namespace
{

enum : size_t { LEAST_WORKSPACE = 1 << 20 };

float element(const void *data, cudaDataType type, int64_t i)
{
    if (type == CUDA_R_32F)
        return static_cast<const float *>(data)[i];
    const uint16_t bits = static_cast<const uint16_t *>(data)[i];
    return type == CUDA_R_16F ? f32_of_f16(bits) : f32_of_bf16(bits);
}

void store(void *data, cudaDataType type, int64_t i, float value)
{
    if (type == CUDA_R_32F)
        static_cast<float *>(data)[i] = value;
    else
        static_cast<uint16_t *>(data)[i] = type == CUDA_R_16F ? f16_of_f32(value) : bf16_of_f32(value);
}

/* c[j, i] = sum over l of a[i, l] * b[j, l]: columns of a and b lie one behind the other, as do those of c. */
struct product {
    int m, n, k;
    const void *a, *b;
    cudaDataType type;
    int64_t a_stride, b_stride, c_stride;
    void *c;
    cudaDataType c_type; /* a's, or f32 */
};

cudaError_t multiply(const product &p)
{
    for (int j = 0; j < p.n; j++)
        for (int i = 0; i < p.m; i++) {
            float sum = 0;
            for (int l = 0; l < p.k; l++)
                sum += element(p.a, p.type, i * p.a_stride + l) * element(p.b, p.type, j * p.b_stride + l);
            store(p.c, p.c_type, j * p.c_stride + i, sum);
        }
    return cudaSuccess;
}

} // namespace

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    const char *choice = getenv("SHIM_BLAS");
    if (choice && !strcmp(choice, "none"))
        return CUBLAS_STATUS_ALLOC_FAILED;
    *handle = new shim_blas{};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    handle->workspace = nullptr; /* as cuBLAS forgets it */
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes)
{
    handle->workspace = workspace;
    handle->workspace_bytes = bytes;
    return reinterpret_cast<uintptr_t>(workspace) % 256 ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op, int m, int n, int k,
                            const void *alpha, const void *a, cudaDataType a_type, int a_stride, const void *b,
                            cudaDataType b_type, int b_stride, const void *beta, void *c, cudaDataType c_type,
                            int c_stride, cublasComputeType_t compute, cublasGemmAlgo_t)
{
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (m < 0 || n < 0 || k < 0 || a_stride < k || b_stride < k || c_stride < m || !a_stride || !b_stride || !c_stride)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (a_op != CUBLAS_OP_T || b_op != CUBLAS_OP_N || a_type != b_type || (c_type != CUDA_R_32F && c_type != a_type) ||
        compute != CUBLAS_COMPUTE_32F || *static_cast<const float *>(alpha) != 1 ||
        *static_cast<const float *>(beta) != 0)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!handle->workspace || handle->workspace_bytes < LEAST_WORKSPACE)
        return CUBLAS_STATUS_NOT_INITIALIZED; /* it would allocate, which a run must not */
    char *workspace = static_cast<char *>(handle->workspace);
    const product p = {m, n, k, a, b, a_type, a_stride, b_stride, c_stride, c, c_type};
    const cudaError_t error = shim::enqueue(handle->stream, [p, workspace] {
        memset(workspace, 0xFF, LEAST_WORKSPACE);
        return multiply(p);
    });
    return error ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}
