/* The matrix product of cuBLAS as it is, for ours to be measured against. */
#include "blas.h"

struct vendor {
    void *blas;
    void *workspace;
};

static void vendor_close(void *opaque, int index, void *handle)
{
    const struct cuda_state *state = opaque;
    struct vendor *vendor = handle;
    int before;
    cudaError_t error = cuda_enter(index, &before);
    if (!error && vendor->blas)
        blas_handle_destroy(state, vendor->blas);
    if (!error)
        cudaFree(vendor->workspace);
    cuda_leave(before);
    state->services->free(state->services->ctx, vendor);
}

static tdm_status vendor_open(void *opaque, int index, void **handle)
{
    const struct cuda_state *state = opaque;
    const struct services *services = state->services;
    if (!state->blas)
        return services->fail(TDM_UNSUPPORTED, "vendor: %s", state->blas_reason);
    struct vendor *vendor = services->alloc(services->ctx, sizeof *vendor);
    if (!vendor)
        return services->fail(TDM_NO_MEMORY, "vendor: no memory for %zu bytes", sizeof *vendor);
    *vendor = (struct vendor){NULL, NULL};
    int before;
    cudaError_t error = cuda_enter(index, &before);
    if (!error)
        error = cudaMalloc(&vendor->workspace, BLAS_WORKSPACE);
    tdm_status status = cuda_status(services, error, "vendor");
    if (!status)
        status = blas_handle_create(state, &vendor->blas);
    cuda_leave(before);
    if (status)
        vendor_close(opaque, index, vendor);
    else
        *handle = vendor;
    return status;
}

static tdm_status vendor_multiply(void *opaque, int index, void *handle, const struct vendor_product *p, void *stream)
{
    const struct cuda_state *state = opaque;
    const struct vendor *vendor = handle;
    struct blas_product product = {.m = p->m,
                                   .n = p->n,
                                   .k = p->k,
                                   .dtype = TDM_F16,
                                   .out_dtype = TDM_F16,
                                   .a = p->a,
                                   .b = p->b,
                                   .out = p->out,
                                   .a_stride = p->k,
                                   .b_stride = p->k,
                                   .out_stride = p->n,
                                   .workspace = vendor->workspace};
    int before;
    cudaError_t error = cuda_enter(index, &before);
    if (!error)
        error = blas_multiply(state, vendor->blas, &product, stream);
    cuda_leave(before);
    return cuda_status(state->services, error, "vendor");
}

const struct vendor_calls cuda_vendor = {vendor_open, vendor_close, vendor_multiply};
