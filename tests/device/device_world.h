/* A context on the device under test (tests/reference/device.h), and floats in its memory. */
#ifndef TESTS_DEVICE_DEVICE_WORLD_H
#define TESTS_DEVICE_DEVICE_WORLD_H

#include "tests/reference/device.h"

#include <stddef.h>

/* Stop the test when a call fails. */
#define MUST(call) cr_assert(!(call), "%s: %s", #call, tdm_last_error())

/* Expect that a call fails so, and that the message names the field. */
#define EXPECT_FAILURE(status, field, call) expect_failure(status, field, call, #call)
void expect_failure(tdm_status want, const char *field, tdm_status got, const char *call);

tdm_ctx *device_open(void);

/* The same with another environment of the emulated device, "SHIM_DEVICES", "90,75"; skips the test on any other. */
tdm_ctx *device_open_emulated(const char *variable, const char *value);

void *device_stream(tdm_ctx *ctx);
float *device_floats(tdm_ctx *ctx, tdm_memory kind, size_t n);

/* Enqueue a copy of n floats. */
void to_device(tdm_ctx *ctx, float *device, const float *host, size_t n, void *stream);
void to_host(tdm_ctx *ctx, float *host, const float *device, size_t n, void *stream);

#endif
