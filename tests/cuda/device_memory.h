/* Memory on the device, of exact size, that is filled and read back through the driver's calls. */
#ifndef TESTS_CUDA_DEVICE_MEMORY_H
#define TESTS_CUDA_DEVICE_MEMORY_H

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

inline void must(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
}

class device_memory
{
  public:
    /* With `shift` bytes before it, which are not its own. */
    explicit device_memory(size_t bytes, size_t shift = 0) : size(bytes), before(shift)
    {
        if (bytes + shift)
            must(cudaMalloc(&memory, bytes + shift), "cudaMalloc");
    }
    explicit device_memory(const std::vector<unsigned char> &from, size_t shift = 0) : device_memory(from.size(), shift)
    {
        copy(data(), from.data());
    }
    device_memory(const device_memory &) = delete;
    device_memory &operator=(const device_memory &) = delete;
    ~device_memory()
    {
        cudaFree(memory);
    }

    unsigned char *data() const
    {
        return static_cast<unsigned char *>(memory) + before;
    }

    void read(void *to) const
    {
        copy(to, data());
    }

    void write(const void *from) const
    {
        copy(data(), from);
    }

  private:
    void copy(void *to, const void *from) const
    {
        if (!size)
            return;
        must(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, nullptr), "cudaMemcpyAsync");
        must(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
    }

    void *memory = nullptr;
    size_t size, before;
};

#endif
