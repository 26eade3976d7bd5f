/* The scratch of a run in flight: memory on the device and a cuBLAS handle. */
#include "blas.h"
#include "fp8_matmul.h"

static cudaError_t get_memory(const struct tdm_op *op, void *memory, struct cuda_scratch *scratch)
{
    int before;
    cudaError_t error = cudaSuccess;
    scratch->memory = memory;
    if (memory || op->workspace == 0)
        return error;
    error = cuda_enter(op->device.index, &before);
    if (!error)
        error = cudaMalloc(&scratch->memory, op->workspace);
    scratch->owned = !error;
    cuda_leave(before);
    return error;
}

static tdm_status get_handle(const struct tdm_op *op, struct cuda_scratch *scratch)
{
    int before;
    if (op->kind != OP_FP8_MATMUL || !fp8_calls_blas(op))
        return TDM_OK;
    tdm_status status = cuda_status(op->services, cuda_enter(op->device.index, &before), "workspace");
    if (!status)
        status = blas_handle_create(op->state, &scratch->blas);
    cuda_leave(before);
    return status;
}

tdm_status cuda_scratch_open(const struct tdm_op *op, void *memory, void **out)
{
    const struct services *services = op->services;
    struct cuda_scratch *scratch = services->alloc(services->ctx, sizeof *scratch);
    if (!scratch)
        return services->fail(TDM_NO_MEMORY, "workspace: no memory for %zu bytes", sizeof *scratch);
    *scratch = (struct cuda_scratch){NULL, false, NULL};
    tdm_status status = cuda_status(services, get_memory(op, memory, scratch), "workspace");
    if (!status)
        status = get_handle(op, scratch);
    if (status)
        cuda_scratch_close(op, scratch);
    else
        *out = scratch;
    return status;
}

void cuda_scratch_close(const struct tdm_op *op, void *opaque)
{
    struct cuda_scratch *scratch = opaque;
    int before;
    cudaError_t error = cuda_enter(op->device.index, &before);
    if (!error && scratch->blas)
        blas_handle_destroy(op->state, scratch->blas);
    if (!error && scratch->owned)
        cudaFree(scratch->memory);
    cuda_leave(before);
    op->services->free(op->services->ctx, scratch);
}
