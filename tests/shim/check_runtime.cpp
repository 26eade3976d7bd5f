#include "shim_check.h"

#include <device.cuh>

#include <cmath>
#include <cstring>
#include <cublas_v2.h>
#include <string>
#include <thread>

namespace
{

__global__ void set(float *out, float value)
{
    *out = value;
}
__global__ void add_one(float *out)
{
    *out += 1;
}

cudaStream_t new_stream()
{
    cudaStream_t stream;
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return stream;
}

void launch_set(float *out, float value, cudaStream_t stream)
{
    must(launch(set, dim3(1), dim3(1), 0, stream, out, value), "launch");
}

/* Enqueue reading `from` on the stream. */
void enqueue_read(float *to, const float *from, cudaStream_t stream)
{
    must(cudaMemcpyAsync(to, from, sizeof *to, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}

void expect_error(cudaError_t got, cudaError_t want, const char *what)
{
    expect(got == want, "%s: %s, not %s", what, cudaGetErrorName(got), cudaGetErrorName(want));
    expect(cudaGetLastError() == want, "%s is not the last error", what);
    expect(cudaGetLastError() == cudaSuccess, "%s is still the last error", what);
}

} // namespace

/* Nothing is done before somebody waits for it; then what the stream was given, in order. */
void check_streams()
{
    const device_array<float> x(1);
    const cudaStream_t one = new_stream(), other = new_stream();
    float seen = 0, seen_by_other = 0;
    launch_set(x.get(), 3, one);
    enqueue_read(&seen, x.get(), one);
    expect(seen == 0, "work ran that nobody waited for");
    must(cudaStreamSynchronize(one), "cudaStreamSynchronize");
    expect(seen == 3, "the copy gives %g", static_cast<double>(seen));

    /* Without an event between them, the other stream's copy may come first, and in forward order does. */
    launch_set(x.get(), 4, one);
    enqueue_read(&seen_by_other, x.get(), other);
    must(cudaStreamSynchronize(other), "cudaStreamSynchronize");
    const bool forward = !strcmp(getenv("SHIM_ORDER"), "forward");
    expect(seen_by_other == 3 || (seen_by_other == 4 && !forward), "the other stream sees %g",
           static_cast<double>(seen_by_other));
    must(cudaMemsetAsync(x.get(), 0, sizeof(float), one), "cudaMemsetAsync");
    enqueue_read(&seen, x.get(), one);
    must(cudaStreamSynchronize(one), "cudaStreamSynchronize");
    expect(seen == 0, "cleared memory is %g", static_cast<double>(seen));
    must(cudaStreamDestroy(one), "cudaStreamDestroy");
    must(cudaStreamDestroy(other), "cudaStreamDestroy");
    expect_error(cudaStreamSynchronize(one), cudaErrorInvalidResourceHandle, "a stream that is gone");
}

void check_graphs()
{
    const device_array<float> x(1);
    const cudaStream_t stream = new_stream();
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    launch_set(x.get(), 0, stream);
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    launch(add_one, dim3(1), dim3(1), 0, stream, x.get());
    must(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    must(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    must(cudaGraphDestroy(graph), "cudaGraphDestroy");
    float before = -1, after = -1;
    enqueue_read(&before, x.get(), stream);
    must(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
    must(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
    enqueue_read(&after, x.get(), stream);
    must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    expect(before == 0, "what is captured ran");
    expect(after == 2, "a graph that was launched twice added %g", static_cast<double>(after));
    must(cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");

    void *memory;
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    std::thread([] { /* another thread is free to */
                     const device_array<float> own(1);
                     expect(own.get(), "no memory while another thread captures");
    })
        .join();
    expect_error(cudaMalloc(&memory, 4), cudaErrorStreamCaptureUnsupported, "memory during a capture");
    expect_error(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported, "waiting during a capture");
    expect_error(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated, "a capture that was broken");
    expect_error(cudaStreamEndCapture(stream, &graph), cudaErrorInvalidValue, "no capture");
    must(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

void check_events()
{
    const device_array<float> x(1);
    const cudaStream_t writer = new_stream(), reader = new_stream();
    cudaEvent_t first, last;
    must(cudaEventCreate(&first), "cudaEventCreate");
    must(cudaEventCreate(&last), "cudaEventCreate");
    float milliseconds = -1, seen = 0;
    expect_error(cudaEventElapsedTime(&milliseconds, first, last), cudaErrorInvalidResourceHandle,
                 "the time of events that were not recorded");
    must(cudaEventRecord(first, writer), "cudaEventRecord");
    launch_set(x.get(), 5, writer);
    must(cudaEventRecord(last, writer), "cudaEventRecord");
    must(cudaStreamWaitEvent(reader, last, 0), "cudaStreamWaitEvent");
    launch_set(x.get(), 6, writer);
    enqueue_read(&seen, x.get(), reader);
    expect_error(cudaEventElapsedTime(&milliseconds, first, last), cudaErrorNotReady, "the time of what did not run");
    must(cudaEventSynchronize(last), "cudaEventSynchronize");
    must(cudaEventElapsedTime(&milliseconds, first, last), "cudaEventElapsedTime");
    expect(milliseconds >= 0, "it took %g ms", static_cast<double>(milliseconds));
    must(cudaStreamSynchronize(reader), "cudaStreamSynchronize");
    expect(seen == 5 || seen == 6, "the reader did not wait: %g", static_cast<double>(seen));

    /* What waits for a recording is not let go by a later one in another stream. */
    launch_set(x.get(), 7, writer);
    must(cudaEventRecord(first, writer), "cudaEventRecord");
    must(cudaStreamWaitEvent(reader, first, 0), "cudaStreamWaitEvent");
    must(cudaEventRecord(first, nullptr), "cudaEventRecord");
    enqueue_read(&seen, x.get(), reader);
    must(cudaStreamSynchronize(reader), "cudaStreamSynchronize");
    expect(seen == 7, "the reader waited for another recording: %g", static_cast<double>(seen));
    must(cudaEventDestroy(first), "cudaEventDestroy");
    must(cudaEventDestroy(last), "cudaEventDestroy");
    expect_error(cudaEventRecord(last, writer), cudaErrorInvalidResourceHandle, "an event that is gone");
    must(cudaStreamDestroy(writer), "cudaStreamDestroy");
    must(cudaStreamDestroy(reader), "cudaStreamDestroy");
}

/* A captured event orders its graph and is nothing else; a graph waits for nothing outside. */
void check_captured_events()
{
    const cudaStream_t stream = new_stream(), other = new_stream();
    cudaEvent_t inside, outside;
    cudaGraph_t graph;
    must(cudaEventCreate(&inside), "cudaEventCreate");
    must(cudaEventCreate(&outside), "cudaEventCreate");
    must(cudaEventRecord(outside, other), "cudaEventRecord");
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    must(cudaEventRecord(inside, stream), "cudaEventRecord");
    must(cudaStreamWaitEvent(stream, inside, 0), "cudaStreamWaitEvent");
    std::thread([=] {
        cudaGraph_t none;
        expect_error(cudaStreamEndCapture(stream, &none), cudaErrorStreamCaptureWrongThread, "the end by another");
    }).join();
    must(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    must(cudaGraphDestroy(graph), "cudaGraphDestroy");
    expect_error(cudaEventSynchronize(inside), cudaErrorCapturedEvent, "waiting for a captured event");
    expect_error(cudaStreamWaitEvent(other, inside, 0), cudaErrorStreamCaptureIsolation, "a captured event");
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    expect_error(cudaStreamWaitEvent(stream, outside, 0), cudaErrorStreamCaptureIsolation, "an event from outside");
    expect_error(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated, "a capture that was broken");
    must(cudaEventDestroy(inside), "cudaEventDestroy");
    must(cudaEventDestroy(outside), "cudaEventDestroy");
    must(cudaStreamDestroy(stream), "cudaStreamDestroy");
    must(cudaStreamDestroy(other), "cudaStreamDestroy");
}

void check_memory()
{
    void *first, *second;
    unsigned char bytes[100] = {};
    must(cudaMalloc(&first, sizeof bytes), "cudaMalloc");
    expect(reinterpret_cast<uintptr_t>(first) % 256 == 0, "memory at %p", first);
    must(cudaMemcpyAsync(bytes, first, sizeof bytes, cudaMemcpyDefault, nullptr), "cudaMemcpyAsync");
    must(wait(), "cudaStreamSynchronize");
    for (const unsigned char byte : bytes)
        expect(byte == 0xFF, "new memory holds %02x", byte);
    expect_error(cudaMemcpyAsync(first, bytes, sizeof bytes + 1, cudaMemcpyDefault, nullptr), cudaErrorInvalidValue,
                 "a copy past the end");
    expect_error(cudaMemsetAsync(static_cast<char *>(first) + 1, 0, sizeof bytes, nullptr), cudaErrorInvalidValue,
                 "a fill past the end");
    setenv("SHIM_MEMORY", "150", 1);
    expect_error(cudaMalloc(&second, 51), cudaErrorMemoryAllocation, "more than there is");
    must(cudaMalloc(&second, 50), "cudaMalloc");
    unsetenv("SHIM_MEMORY");
    expect_error(cudaFree(static_cast<char *>(second) + 1), cudaErrorInvalidValue, "freeing the middle");
    expect_error(cudaFreeHost(second), cudaErrorInvalidValue, "freeing device memory as the host's");
    must(cudaFree(first), "cudaFree");
    must(cudaFree(second), "cudaFree");
    expect_error(cudaFree(second), cudaErrorInvalidValue, "freeing twice");
    must(cudaFree(nullptr), "cudaFree");
}

void check_host_memory()
{
    std::vector<char> memory(1000);
    void *pinned;
    must(cudaHostAlloc(&pinned, 10, cudaHostAllocPortable), "cudaHostAlloc");
    expect_error(cudaFree(pinned), cudaErrorInvalidValue, "freeing host memory as the device's");
    must(cudaFreeHost(pinned), "cudaFreeHost");
    const unsigned flags = cudaHostRegisterPortable | cudaHostRegisterMapped;
    must(cudaHostRegister(memory.data() + 100, 200, flags), "cudaHostRegister");
    expect_error(cudaHostRegister(memory.data() + 100, 200, flags), cudaErrorHostMemoryAlreadyRegistered, "twice");
    expect_error(cudaHostRegister(memory.data(), 101, flags), cudaErrorHostMemoryAlreadyRegistered, "the first byte");
    expect_error(cudaHostRegister(memory.data() + 299, 9, flags), cudaErrorHostMemoryAlreadyRegistered, "the last");
    must(cudaHostRegister(memory.data() + 300, 9, flags), "cudaHostRegister");
    expect_error(cudaHostUnregister(memory.data()), cudaErrorHostMemoryNotRegistered, "unknown memory");
    must(cudaHostUnregister(memory.data() + 300), "cudaHostUnregister");
    must(cudaHostUnregister(memory.data() + 100), "cudaHostUnregister");
    expect_error(cudaHostUnregister(memory.data() + 100), cudaErrorHostMemoryNotRegistered, "memory that was");
    expect_error(cudaHostRegister(memory.data(), 0, flags), cudaErrorInvalidValue, "no bytes");
}

void check_devices()
{
    int count = -1;
    cudaDeviceProp properties;
    setenv("SHIM_DEVICES", "", 1);
    expect_error(cudaGetDeviceCount(&count), cudaErrorNoDevice, "no device");
    setenv("SHIM_DEVICES", "90,75", 1);
    must(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    expect(count == 2, "%d devices, not 2", count);
    must(cudaGetDeviceProperties(&properties, 1), "cudaGetDeviceProperties");
    expect(properties.major == 7 && properties.minor == 5, "device 1 is %d.%d", properties.major, properties.minor);
    expect_error(cudaSetDevice(2), cudaErrorInvalidDevice, "a third device");
    must(cudaSetDevice(1), "cudaSetDevice");
    expect_error(launch(add_one, dim3(1), dim3(1), 0, nullptr, static_cast<float *>(nullptr)),
                 cudaErrorNoKernelImageForDevice, "a kernel on a device that is too old");
    void *here;
    float there = 0;
    must(cudaMalloc(&here, sizeof there), "cudaMalloc");
    must(cudaMemsetAsync(here, 0, sizeof there, nullptr), "cudaMemsetAsync");
    expect_error(cudaMemcpyPeerAsync(here, 0, here, 1, sizeof there, nullptr), cudaErrorInvalidValue,
                 "a copy to another device than the memory's");
    expect_error(cudaMemcpyPeerAsync(here, 1, &there, 0, sizeof there, nullptr), cudaErrorInvalidValue,
                 "a copy from the host's memory as a device's");
    must(cudaFree(here), "cudaFree");
    const cudaStream_t stream = new_stream();
    must(cudaSetDevice(0), "cudaSetDevice");
    expect_error(launch(add_one, dim3(1), dim3(1), 0, stream, static_cast<float *>(nullptr)),
                 cudaErrorInvalidResourceHandle, "a stream of another device");
    must(cudaStreamDestroy(stream), "cudaStreamDestroy");
    unsetenv("SHIM_DEVICES");
}

void check_errors()
{
    expect(!strcmp(cudaGetErrorName(cudaErrorLaunchFailure), "cudaErrorLaunchFailure"), "an error has a wrong name");
    expect(!strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory"), "an error has a wrong text");
    cudaSetDevice(99);
    must(wait(), "cudaStreamSynchronize");
    expect(cudaGetLastError() == cudaErrorInvalidDevice, "a call that succeeds clears the last error");
}

void check_blas()
{
    enum { M = 3, N = 5, K = 7, STRIDE = 9 };
    std::vector<f16> a(M * STRIDE), b(N * STRIDE);
    for (size_t i = 0; i < a.size(); i++)
        a[i] = narrow<f16>(static_cast<float>(i % 11) - 4);
    for (size_t i = 0; i < b.size(); i++)
        b[i] = narrow<f16>(static_cast<float>(i % 13) / 2);
    const device_array<f16> a_there(a), b_there(b);
    const device_array<float> c_there(M * N);
    const device_memory workspace(32 << 20);
    const float one = 1, zero = 0;
    cublasHandle_t handle;
    setenv("SHIM_BLAS", "none", 1);
    expect(cublasCreate_v2(&handle) != CUBLAS_STATUS_SUCCESS, "there is a handle without cuBLAS");
    unsetenv("SHIM_BLAS");
    expect(cublasCreate_v2(&handle) == CUBLAS_STATUS_SUCCESS, "there is no handle");
    cublasSetStream_v2(handle, nullptr);
    const auto multiply = [&](int stride) {
        return cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, N, M, K, &one, b_there.get(), CUDA_R_16F, stride,
                            a_there.get(), CUDA_R_16F, STRIDE, &zero, c_there.get(), CUDA_R_32F, N, CUBLAS_COMPUTE_32F,
                            CUBLAS_GEMM_DEFAULT);
    };
    expect(multiply(STRIDE) != CUBLAS_STATUS_SUCCESS, "a product without workspace");
    cublasSetWorkspace_v2(handle, workspace.data(), 32 << 20);
    expect(multiply(K - 1) == CUBLAS_STATUS_INVALID_VALUE, "columns that overlap");
    expect(multiply(STRIDE) == CUBLAS_STATUS_SUCCESS, "the product is refused");
    const std::vector<float> c = c_there.values();
    for (size_t m = 0; m < M; m++)
        for (size_t n = 0; n < N; n++) {
            float sum = 0; /* of multiples of 1/2 below 2^23: exact */
            for (size_t k = 0; k < K; k++)
                sum += widen(a[m * STRIDE + k]) * widen(b[n * STRIDE + k]);
            expect(c[m * N + n] == sum, "product [%zu, %zu] is %g", m, n, static_cast<double>(c[m * N + n]));
        }
    cublasDestroy_v2(handle);
}
