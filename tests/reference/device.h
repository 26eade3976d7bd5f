/* The device that a test runs on: the CPU, or with TEST_DEVICE=cuda the GPU whose plugin TEST_PLUGIN names. */
#ifndef TESTS_REFERENCE_DEVICE_H
#define TESTS_REFERENCE_DEVICE_H

#include "tandem.h"

#include <stdbool.h>

tdm_device test_device(void);

/* "TANDEM_CUDA_PLUGIN=..." for a context's environment; NULL where it is not needed. */
const char *test_plugin(void);

/* Whether the device's memory is the CPU's own, so that kernels meet the CPU's page protection: not on a real GPU. */
bool test_shares_memory(void);

/* Make all living guards readable and writable by the device, and no more. NULL, or what failed. */
const char *test_lend_guards(tdm_ctx *ctx);
void test_take_guards_back(tdm_ctx *ctx);

#endif
