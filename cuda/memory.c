/* Device and host memory, and copies between them. */
#include "cuda.h"

static cudaError_t get(tdm_memory kind, size_t bytes, void **pointer)
{
    if (kind == TDM_PINNED_HOST)
        return cudaHostAlloc(pointer, bytes, cudaHostAllocPortable);
    return cudaMalloc(pointer, bytes);
}

tdm_status cuda_alloc(void *opaque, int index, tdm_memory kind, size_t bytes, void **pointer)
{
    const struct cuda_state *state = opaque;
    int before;
    cudaError_t error = cuda_enter(index, &before);
    if (!error)
        error = get(kind, bytes, pointer);
    cuda_leave(before);
    if (error)
        *pointer = NULL;
    return cuda_status(state->services, error, "bytes");
}

void cuda_free(void *opaque, int index, tdm_memory kind, void *pointer)
{
    const struct cuda_state *state = opaque;
    int before;
    cudaError_t error = cuda_enter(index, &before);
    if (!error)
        error = kind == TDM_PINNED_HOST ? cudaFreeHost(pointer) : cudaFree(pointer);
    cuda_leave(before);
    if (error)
        state->services->log(state->services->ctx, TDM_LOG_ERROR, "cuda: free: %s", cudaGetErrorString(error));
}

tdm_status cuda_copy(void *opaque, tdm_device to, void *dst, tdm_device from, const void *src, size_t bytes,
                     void *stream)
{
    const struct cuda_state *state = opaque;
    bool both = to.kind == TDM_CUDA && from.kind == TDM_CUDA;
    int before;
    cudaError_t error = cuda_enter(to.kind == TDM_CUDA ? to.index : from.index, &before);
    if (!error && both && to.index != from.index)
        error = cudaMemcpyPeerAsync(dst, to.index, src, from.index, bytes, stream);
    else if (!error)
        error = cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream);
    cuda_leave(before);
    return cuda_status(state->services, error, "copy");
}

static cudaError_t use_host_memory(int index, void *pointer, size_t bytes)
{
    int same_address = 0;
    cudaError_t error = cudaDeviceGetAttribute(&same_address, cudaDevAttrCanUseHostPointerForRegisteredMem, index);
    if (error)
        return error;
    if (!same_address)
        return cudaErrorNotSupported;
    error = cudaHostRegister(pointer, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (error != cudaErrorInvalidValue && error != cudaErrorNotPermitted && error != cudaErrorNotSupported)
        return error;
    cudaGetLastError(); /* perhaps a mapping that may only be read */
    return cudaHostRegister(pointer, bytes,
                            cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterReadOnly);
}

tdm_status cuda_host_register(void *opaque, int index, void *pointer, size_t bytes)
{
    const struct cuda_state *state = opaque;
    int before;
    cudaError_t error = cuda_enter(index, &before);
    if (!error)
        error = use_host_memory(index, pointer, bytes);
    cuda_leave(before);
    if (error != cudaErrorNotSupported)
        return cuda_status(state->services, error, "pointer");
    cudaGetLastError();
    return state->services->fail(TDM_UNSUPPORTED, "pointer: this device does not read memory at host addresses");
}

tdm_status cuda_host_unregister(void *opaque, int index, void *pointer)
{
    const struct cuda_state *state = opaque;
    int before;
    cudaError_t error = cuda_enter(index, &before);
    if (!error)
        error = cudaHostUnregister(pointer);
    cuda_leave(before);
    return cuda_status(state->services, error, "pointer");
}
