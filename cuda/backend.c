/* The CUDA backend: its rows and its devices. */
#include "attention_rows.h"
#include "blas.h"
#include "cuda.h"
#include "fp8_matmul.h"

#include <stdio.h>
#include <string.h>

static const struct impl *const impls[] = {
    &cuda_append, &cuda_flash, &cuda_fp8_mma_gemv, &cuda_fp8_warp_gemv, &cuda_fp8_dequant_cublas, NULL,
};

cudaError_t cuda_enter(int index, int *before)
{
    *before = -1;
    int current;
    cudaError_t error = cudaGetDevice(&current);
    if (error || current == index)
        return error;
    error = cudaSetDevice(index);
    if (!error)
        *before = current;
    return error;
}

void cuda_leave(int before)
{
    if (before >= 0)
        cudaSetDevice(before);
}

/* What a recording forbids, and memory that is registered twice or never, are the caller's mistakes. */
static tdm_status status_of(cudaError_t error)
{
    if (error == cudaErrorMemoryAllocation)
        return TDM_NO_MEMORY;
    if (error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorStreamCaptureWrongThread)
        return TDM_BAD_ARG;
    static const cudaError_t mistakes[] = {cudaErrorIllegalState, cudaErrorHostMemoryAlreadyRegistered,
                                           cudaErrorHostMemoryNotRegistered};
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        if (error == mistakes[i])
            return TDM_BAD_ARG;
    return TDM_DEVICE_ERROR;
}

tdm_status cuda_status(const struct services *services, cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return TDM_OK;
    cudaGetLastError();
    if (error == cudaErrorInvalidResourceHandle) /* of the handles only the stream is the caller's */
        return services->fail(TDM_BAD_ARG, "stream: got none of this device, want one of it (%s)",
                              cudaGetErrorName(error));
    return services->fail(status_of(error), "%s: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

bool cuda_fits_device(const struct tdm_op *op, char *reason)
{
    const struct cuda_device *device = cuda_device_of(op);
    if (device->major >= LEAST_MAJOR)
        return true;
    snprintf(reason, REASON_SIZE, "the device has compute capability %d.%d, want %d.0 or more", device->major,
             device->minor, LEAST_MAJOR);
    return false;
}

tdm_status cuda_run(const struct tdm_op *op, const struct run *run, cuda_launch *launch)
{
    int before;
    cudaError_t error = cuda_enter(op->device.index, &before);
    if (!error)
        error = launch(op, run);
    cuda_leave(before);
    return cuda_status(op->services, error, "launch");
}

static cudaError_t describe_device(int index, struct cuda_device *device)
{
    struct cudaDeviceProp properties;
    cudaError_t error = cudaGetDeviceProperties(&properties, index);
    if (error)
        return error;
    snprintf(device->name, sizeof device->name, "%.*s", (int)sizeof device->name - 1, properties.name);
    device->major = properties.major;
    device->minor = properties.minor;
    device->multiprocessors = properties.multiProcessorCount;
    device->memory = (int64_t)properties.totalGlobalMem;
    device->l2 = properties.l2CacheSize;
    return cudaSuccess;
}

/* The runtime calls a missing driver one of an insufficient version. */
static const char *text_of(cudaError_t error)
{
    int version = 0;
    if (error == cudaErrorInsufficientDriver && !cudaDriverGetVersion(&version) && version == 0)
        return "there is no NVIDIA driver";
    return cudaGetErrorString(error);
}

static tdm_status find_devices(struct cuda_state *state)
{
    int count = 0; /* without a driver the call leaves it alone */
    cudaError_t error = cudaGetDeviceCount(&count);
    if (!error && count == 0)
        error = cudaErrorNoDevice;
    state->device_count = count < MAX_DEVICES ? count : MAX_DEVICES;
    for (int i = 0; i < state->device_count && !error; i++)
        error = describe_device(i, &state->device[i]);
    if (!error)
        return TDM_OK;
    cudaGetLastError();
    return state->services->fail(TDM_NO_DEVICE, "no CUDA device: %s (%s)", text_of(error), cudaGetErrorName(error));
}

static tdm_status cuda_open(const struct services *services, void **out)
{
    struct cuda_state *state = services->alloc(services->ctx, sizeof *state);
    if (!state)
        return services->fail(TDM_NO_MEMORY, "cuda: no memory for %zu bytes", sizeof *state);
    memset(state, 0, sizeof *state);
    state->services = services;
    tdm_status status = find_devices(state);
    if (status) {
        services->free(services->ctx, state);
        return status;
    }
    for (int i = 0; i < state->device_count; i++)
        services->log(services->ctx, TDM_LOG_INFO, "cuda: device %d: %s, compute capability %d.%d", i,
                      state->device[i].name, state->device[i].major, state->device[i].minor);
    blas_open(state);
    *out = state;
    return TDM_OK;
}

static void cuda_close(void *opaque)
{
    struct cuda_state *state = opaque;
    blas_close(state);
    state->services->free(state->services->ctx, state);
}

static int cuda_device_count(void *state)
{
    return ((struct cuda_state *)state)->device_count;
}

static void cuda_device_info(void *state, int index, tdm_device_info *info)
{
    const struct cuda_device *device = &((struct cuda_state *)state)->device[index];
    snprintf(info->name, sizeof info->name, "%s", device->name);
    snprintf(info->features, sizeof info->features, "sm_%d%d multiprocessors:%d", device->major, device->minor,
             device->multiprocessors);
    info->memory = device->memory;
    info->cache[1] = device->l2;
}

static const struct backend cuda_backend = {
    .abi = BACKEND_ABI,
    .kind = TDM_CUDA,
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .device_count = cuda_device_count,
    .device_info = cuda_device_info,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .copy = cuda_copy,
    .host_register = cuda_host_register,
    .host_unregister = cuda_host_unregister,
    .streams = &cuda_streams,
    .scratch_open = cuda_scratch_open,
    .scratch_close = cuda_scratch_close,
    .impls = impls,
    .vendor = &cuda_vendor,
};

__attribute__((visibility("default"))) backend_entry tandem_backend;

const struct backend *tandem_backend(uint32_t abi)
{
    return abi == BACKEND_ABI ? &cuda_backend : NULL;
}
