#include "blas.h"

#include <cublas_v2.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#ifndef BLAS_LIBRARIES
#define BLAS_LIBRARIES "libcublas.so.13", "libcublas.so.12", "libcublas.so"
#endif

struct blas {
    void *library;
    cublasStatus_t (*create)(cublasHandle_t *handle);
    cublasStatus_t (*destroy)(cublasHandle_t handle);
    cublasStatus_t (*set_stream)(cublasHandle_t handle, cudaStream_t stream);
    cublasStatus_t (*set_workspace)(cublasHandle_t handle, void *workspace, size_t bytes);
    cublasStatus_t (*gemm)(cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op, int m, int n, int k,
                           const void *alpha, const void *a, cudaDataType a_type, int a_stride, const void *b,
                           cudaDataType b_type, int b_stride, const void *beta, void *c, cudaDataType c_type,
                           int c_stride, cublasComputeType_t compute, cublasGemmAlgo_t algorithm);
};

static void *open_library(char *reason)
{
    static const char *const names[] = {BLAS_LIBRARIES};
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        snprintf(reason, REASON_SIZE, "cuBLAS did not load: %s", dlerror());
    return library;
}

static bool find_functions(struct blas *blas, char *reason)
{
    const struct {
        const char *name;
        void *place;
    } functions[] = {{"cublasCreate_v2", &blas->create},
                     {"cublasDestroy_v2", &blas->destroy},
                     {"cublasSetStream_v2", &blas->set_stream},
                     {"cublasSetWorkspace_v2", &blas->set_workspace},
                     {"cublasGemmEx", &blas->gemm}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *symbol = dlsym(blas->library, functions[i].name);
        if (!symbol) {
            snprintf(reason, REASON_SIZE, "cuBLAS has no %s", functions[i].name);
            return false;
        }
        memcpy(functions[i].place, &symbol, sizeof symbol);
    }
    return true;
}

void blas_open(struct cuda_state *state)
{
    const struct services *services = state->services;
    struct blas blas = {.library = open_library(state->blas_reason)};
    if (blas.library && find_functions(&blas, state->blas_reason)) {
        state->blas = services->alloc(services->ctx, sizeof blas);
        if (state->blas) {
            *state->blas = blas;
            return;
        }
        snprintf(state->blas_reason, REASON_SIZE, "no memory for %zu bytes", sizeof blas);
    }
    if (blas.library)
        dlclose(blas.library);
    services->log(services->ctx, TDM_LOG_WARN, "cuda: %s", state->blas_reason);
}

void blas_close(struct cuda_state *state)
{
    if (!state->blas)
        return;
    dlclose(state->blas->library);
    state->services->free(state->services->ctx, state->blas);
}

tdm_status blas_handle_create(const struct cuda_state *state, void **handle)
{
    cublasStatus_t status = state->blas->create((cublasHandle_t *)handle);
    if (status == CUBLAS_STATUS_SUCCESS)
        return TDM_OK;
    *handle = NULL;
    cudaGetLastError();
    return state->services->fail(status == CUBLAS_STATUS_ALLOC_FAILED ? TDM_NO_MEMORY : TDM_DEVICE_ERROR,
                                 "workspace: cuBLAS gave status %d", (int)status);
}

void blas_handle_destroy(const struct cuda_state *state, void *handle)
{
    state->blas->destroy(handle);
}

static cudaDataType type_of(tdm_dtype dtype)
{
    return dtype == TDM_F16 ? CUDA_R_16F : dtype == TDM_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* cuBLAS counts by columns: there our rows are columns, and out^T = b * a^T. */
cudaError_t blas_multiply(const struct cuda_state *state, void *handle, const struct blas_product *p,
                          cudaStream_t stream)
{
    static const float one = 1, zero = 0;
    const struct blas *blas = state->blas;
    cudaDataType type = type_of(p->dtype);
    cublasStatus_t status = blas->set_stream(handle, stream);
    if (!status)
        status = blas->set_workspace(handle, p->workspace, BLAS_WORKSPACE);
    if (!status)
        status = blas->gemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, (int)p->n, (int)p->m, (int)p->k, &one, p->b, type,
                            (int)p->b_stride, p->a, type, (int)p->a_stride, &zero, p->out, type_of(p->out_dtype),
                            (int)p->out_stride, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    if (!status)
        return cudaSuccess;
    state->services->log(state->services->ctx, TDM_LOG_ERROR, "cuda: cuBLAS gave status %d", (int)status);
    return cudaErrorLaunchFailure;
}
