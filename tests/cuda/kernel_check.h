/* Tests of kernels, as plain programs: each group of checks runs in several orders of threads, blocks and streams.
 *
 *   static void adds()
 *   {
 *       device_memory x(1000 * sizeof(float));                     of exact size, on the GPU that the tests emulate NaN
 *       const cudaError_t error = add_launch(x.data(), 1000, nullptr);
 *       expect(error == cudaSuccess, "add refuses 1000: %s", cudaGetErrorName(error));
 *       ...                                                        x.read() waits
 *   }
 *   static const check_group groups[] = {{"adds", adds}};
 *   int main(int argc, char **argv)
 *   {
 *       return kernel_check(groups, argc, argv);
 *   }
 *
 * CMake: tandem_kernel_check(NAME SECONDS SOURCE...) builds it over tests/shim and adds the test. */
#ifndef TESTS_CUDA_KERNEL_CHECK_H
#define TESTS_CUDA_KERNEL_CHECK_H

#include "device_memory.h"

#include <cstddef>

struct check_group {
    const char *name;
    void (*run)();
};

/* Run the groups that argv names, or all: 0 when nothing failed. */
int kernel_check(const check_group *groups, size_t count, int argc, char **argv);
template <size_t N> int kernel_check(const check_group (&groups)[N], int argc, char **argv)
{
    return kernel_check(groups, N, argc, argv);
}

/* Count a failure and print what was checked, in which group and order; returns ok. */
__attribute__((format(printf, 2, 3))) bool expect(bool ok, const char *format, ...);

/* Choose the order for what follows: "forward", "reverse", or the seed of a random one. */
void choose_order(const char *order);

#endif
