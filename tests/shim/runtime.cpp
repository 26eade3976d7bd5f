/* Devices, memory and errors of the emulated GPU. From the environment, which is read each time:
 *   SHIM_DEVICES  the compute capability of each device, times ten: "90" (the default), "90,75"; "" for none
 *   SHIM_MEMORY   bytes that all devices have together (1 GiB)
 * Memory that is not freed when the plugin is unloaded ends the process. */
#include "queue.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

namespace shim
{

namespace
{

using locked = std::lock_guard<std::recursive_mutex>;

enum class where { device, host, registered };
struct block_of_memory {
    size_t bytes;
    where kind;
    int device;
};

std::map<const char *, block_of_memory> memory; /* by its first byte */
size_t used;
thread_local int device;
thread_local cudaError_t last_error = cudaSuccess;

std::vector<int> capabilities()
{
    std::vector<int> found;
    const char *text = getenv("SHIM_DEVICES");
    for (text = text ? text : "90"; *text; text += *text == ',') {
        char *end;
        found.push_back(static_cast<int>(strtol(text, &end, 10)));
        if (end == text)
            abort();
        text = end;
    }
    return found;
}

int device_count()
{
    return static_cast<int>(capabilities().size());
}

size_t total_memory()
{
    const char *text = getenv("SHIM_MEMORY");
    return text ? static_cast<size_t>(strtoull(text, nullptr, 10)) : size_t{1} << 30;
}

/* The block that holds these bytes, or none of them: then they are plain host memory. */
bool lies_well(const void *pointer, size_t bytes)
{
    const char *first = static_cast<const char *>(pointer);
    auto after = memory.upper_bound(first);
    if (after != memory.end() && after->first < first + bytes)
        return false; /* runs into a block */
    if (after == memory.begin())
        return true;
    const auto &block = *--after;
    return first >= block.first + block.second.bytes || first + bytes <= block.first + block.second.bytes;
}

bool is_memory_of(int owner, const void *pointer)
{
    const char *first = static_cast<const char *>(pointer);
    auto block = memory.upper_bound(first);
    if (block == memory.begin())
        return false;
    --block;
    return block->second.kind == where::device && block->second.device == owner &&
           first < block->first + block->second.bytes;
}

cudaError_t allocate(where kind, void **pointer, size_t bytes)
{
    const locked held(lock);
    *pointer = nullptr;
    if (is_capturing())
        return report(cudaErrorStreamCaptureUnsupported);
    if (bytes > total_memory() - used || posix_memalign(pointer, 256, bytes ? bytes : 1))
        return report(cudaErrorMemoryAllocation);
    memset(*pointer, 0xFF, bytes); /* NaN in every format */
    memory[static_cast<char *>(*pointer)] = {bytes, kind, device};
    used += bytes;
    return cudaSuccess;
}

cudaError_t release(where kind, void *pointer)
{
    const locked held(lock);
    if (!pointer)
        return cudaSuccess;
    if (is_capturing())
        return report(cudaErrorStreamCaptureUnsupported);
    const auto found = memory.find(static_cast<char *>(pointer));
    if (found == memory.end() || found->second.kind != kind)
        return report(cudaErrorInvalidValue);
    const cudaError_t error = finish_everything();
    used -= found->second.bytes;
    memory.erase(found);
    free(pointer);
    return report(error);
}

__attribute__((destructor)) void look_for_leaks()
{
    if (memory.empty() && living_handles() == 0)
        return;
    fprintf(stderr, "shim: %zu blocks of memory and %d streams, events and graphs were left over\n", memory.size(),
            living_handles());
    abort();
}

} // namespace

cudaError_t report(cudaError_t error)
{
    if (error)
        last_error = error;
    return error;
}

} // namespace shim

using namespace shim;

/* ---- devices ---- */

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    if (device_count() == 0)
        return report(cudaErrorNoDevice); /* and leaves the count alone */
    *count = device_count();
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int index)
{
    if (index < 0 || index >= device_count())
        return report(cudaErrorInvalidDevice);
    *properties = {};
    snprintf(properties->name, sizeof properties->name, "Emulated GPU %d", index);
    properties->totalGlobalMem = total_memory();
    properties->major = capabilities()[static_cast<size_t>(index)] / 10;
    properties->minor = capabilities()[static_cast<size_t>(index)] % 10;
    properties->multiProcessorCount = 2;
    properties->l2CacheSize = 64 * 1024;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int index)
{
    if (index < 0 || index >= device_count() || attribute != cudaDevAttrCanUseHostPointerForRegisteredMem)
        return report(cudaErrorInvalidValue);
    *value = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *index)
{
    *index = device;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int index)
{
    if (index < 0 || index >= device_count())
        return report(cudaErrorInvalidDevice);
    device = index;
    return cudaSuccess;
}

/* ---- memory ---- */

cudaError_t cudaMalloc(void **pointer, size_t bytes)
{
    return allocate(where::device, pointer, bytes);
}

cudaError_t cudaFree(void *pointer)
{
    return release(where::device, pointer);
}

cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned)
{
    return allocate(where::host, pointer, bytes);
}

cudaError_t cudaFreeHost(void *pointer)
{
    return release(where::host, pointer);
}

cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned)
{
    const locked held(lock);
    const char *first = static_cast<const char *>(pointer);
    if (!pointer || !bytes)
        return report(cudaErrorInvalidValue);
    if (!lies_well(pointer, bytes) || memory.count(first))
        return report(cudaErrorHostMemoryAlreadyRegistered);
    memory[first] = {bytes, where::registered, device};
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *pointer)
{
    const locked held(lock);
    const auto found = memory.find(static_cast<char *>(pointer));
    if (found == memory.end() || found->second.kind != where::registered)
        return report(cudaErrorHostMemoryNotRegistered);
    memory.erase(found);
    return report(finish_everything());
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    const locked held(lock);
    if (kind != cudaMemcpyDefault || !lies_well(to, bytes) || !lies_well(from, bytes))
        return report(cudaErrorInvalidValue);
    return report(enqueue(stream, [=] {
        if (bytes) /* else the pointers may be NULL */
            memmove(to, from, bytes);
        return cudaSuccess;
    }));
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t stream)
{
    const locked held(lock);
    if (to_device < 0 || to_device >= device_count() || from_device < 0 || from_device >= device_count())
        return report(cudaErrorInvalidDevice);
    if (!is_memory_of(to_device, to) || !is_memory_of(from_device, from))
        return report(cudaErrorInvalidValue);
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    const locked held(lock);
    if (!lies_well(to, bytes))
        return report(cudaErrorInvalidValue);
    return report(enqueue(stream, [=] {
        if (bytes)
            memset(to, value, bytes);
        return cudaSuccess;
    }));
}

/* ---- errors ---- */

namespace
{
const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
#define ERROR(error, text)  \
    {                       \
        error, #error, text \
    }
    ERROR(cudaSuccess, "no error"),
    ERROR(cudaErrorInvalidValue, "invalid argument"),
    ERROR(cudaErrorMemoryAllocation, "out of memory"),
    ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ERROR(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device"),
    ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ERROR(cudaErrorNotReady, "device not ready"),
    ERROR(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    ERROR(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    ERROR(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    ERROR(cudaErrorStreamCaptureUnmatched, "the capture was not initiated in this stream"),
    ERROR(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    ERROR(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    ERROR(cudaErrorStreamCaptureWrongThread, "attempt to terminate a capture from another thread"),
};
} // namespace

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorName(cudaError_t error)
{
    for (const auto &row : errors)
        if (row.error == error)
            return row.name;
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    for (const auto &row : errors)
        if (row.error == error)
            return row.text;
    return "unrecognized error code";
}
