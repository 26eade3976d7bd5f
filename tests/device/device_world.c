#include "device_world.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const tdm_device cpu = {TDM_CPU, 0};

void expect_failure(tdm_status want, const char *field, tdm_status got, const char *call)
{
    const char *message = got ? tdm_last_error() : "";
    cr_expect_eq(got, want, "%s: got %s (%s), want %s", call, tdm_status_name(got), message, tdm_status_name(want));
    cr_expect(got == TDM_OK || !strncmp(message, field, strlen(field)), "%s: got \"%s\", want it to name %s", call,
              message, field);
}

tdm_ctx *device_open(void)
{
    const char *const environment[] = {test_plugin(), NULL};
    tdm_options options = TDM_INIT(tdm_options);
    tdm_ctx *ctx;
    options.threads = 1;
    options.env = environment;
    MUST(tdm_open(TDM_VERSION, &options, &ctx));
    return ctx;
}

tdm_ctx *device_open_emulated(const char *variable, const char *value)
{
    if (!test_shares_memory())
        cr_skip_test("SKIPPED: %s is for the emulated device", variable);
    setenv(variable, value, 1);
    return device_open();
}

void *device_stream(tdm_ctx *ctx)
{
    void *stream;
    MUST(tdm_stream_create(ctx, test_device(), &stream));
    return stream;
}

float *device_floats(tdm_ctx *ctx, tdm_memory kind, size_t n)
{
    void *floats;
    MUST(tdm_alloc(ctx, test_device(), kind, n * sizeof(float), &floats));
    return floats;
}

void to_device(tdm_ctx *ctx, float *device, const float *host, size_t n, void *stream)
{
    MUST(tdm_copy(ctx, test_device(), device, cpu, host, n * sizeof(float), stream));
}

void to_host(tdm_ctx *ctx, float *host, const float *device, size_t n, void *stream)
{
    MUST(tdm_copy(ctx, cpu, host, test_device(), device, n * sizeof(float), stream));
}
