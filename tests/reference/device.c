#include "device.h"

#include "guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

tdm_device test_device(void)
{
    return (tdm_device){!strcmp(variable("TEST_DEVICE"), "cuda") ? TDM_CUDA : TDM_CPU, 0};
}

const char *test_plugin(void)
{
    static char text[1024];
    const char *path = variable("TEST_PLUGIN");
    snprintf(text, sizeof text, "TANDEM_CUDA_PLUGIN=%s", path);
    return *path ? text : NULL;
}

bool test_shares_memory(void)
{
    return test_device().kind == TDM_CPU || strstr(variable("TEST_PLUGIN"), "shim");
}

struct lending {
    tdm_ctx *ctx;
    tdm_status status;
};

static void lend(const struct guard *guard, void *arg)
{
    struct lending *l = arg;
    if (!l->status)
        l->status = tdm_host_register(l->ctx, test_device(), guard->map, guard_open_bytes(guard));
}

static void take_back(const struct guard *guard, void *arg)
{
    struct lending *l = arg;
    l->status = tdm_host_unregister(l->ctx, test_device(), guard->map);
}

const char *test_lend_guards(tdm_ctx *ctx)
{
    struct lending l = {ctx, TDM_OK};
    if (test_device().kind != TDM_CPU)
        guard_each(lend, &l);
    return l.status ? tdm_last_error() : NULL;
}

void test_take_guards_back(tdm_ctx *ctx)
{
    struct lending l = {ctx, TDM_OK};
    if (test_device().kind != TDM_CPU)
        guard_each(take_back, &l);
}
