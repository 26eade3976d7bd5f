/* The groups of shim_check: the emulated GPU does what a GPU does, and reports what a GPU would not stand. */
#ifndef TESTS_SHIM_SHIM_CHECK_H
#define TESTS_SHIM_SHIM_CHECK_H

#include "tests/cuda/kernel_check.h"

/* check_formats.cpp */
void check_e4m3();
void check_16_bits();
void check_byte_perm();
void check_mma_layout();
void check_mma_sums();

/* check_threads.cpp */
void check_orders();
void check_block_sum();
void check_shuffles();
void check_limits();
void check_host_threads();

/* check_misuse.cpp */
void check_misuse();

/* check_runtime.cpp */
void check_streams();
void check_graphs();
void check_events();
void check_captured_events();
void check_memory();
void check_host_memory();
void check_devices();
void check_errors();
void check_blas();

/* check_faults.cpp: what a sanitizer, or the end of the process, has to report. False: no such fault. */
bool commit_fault(const char *name);

/* Wait for all work of the default stream. */
inline cudaError_t wait()
{
    return cudaStreamSynchronize(nullptr);
}

/* Elements on the device, NaN at first. */
template <class T> class device_array : public device_memory
{
  public:
    explicit device_array(size_t count) : device_memory(count * sizeof(T)), n(count)
    {
    }
    explicit device_array(const std::vector<T> &from) : device_array(from.size())
    {
        write(from.data());
    }
    T *get() const
    {
        return reinterpret_cast<T *>(data());
    }
    std::vector<T> values() const
    {
        std::vector<T> to(n);
        read(to.data());
        return to;
    }

  private:
    size_t n;
};

#endif
