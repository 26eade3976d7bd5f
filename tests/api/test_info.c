/* Status names, error texts, devices and the rows of the tables. */
#include "tests/ops/indices.h"
#include "tests/ops/types.h"
#include "world.h"

#include <pthread.h>
#include <string.h>

static const tdm_device cpu = {TDM_CPU, 0};

Test(info, status_names)
{
    static const char *const names[] = {"TDM_OK",        "TDM_BAD_ARG",   "TDM_UNSUPPORTED",
                                        "TDM_NO_DEVICE", "TDM_NO_MEMORY", "TDM_DEVICE_ERROR"};
    for (int i = 0; i < COUNT(names); i++)
        cr_expect_str_eq(tdm_status_name((tdm_status)i), names[i]);
    cr_expect_str_eq(tdm_status_name((tdm_status)6), "unknown status");
    cr_expect_str_eq(tdm_status_name((tdm_status)-1), "unknown status");
}

static void *own_error(void *arg)
{
    char *text = arg;
    cr_expect_str_empty(tdm_last_error(), "another thread's error is seen");
    tdm_open(0xFFFFFFFF, NULL, &(tdm_ctx *){NULL});
    strncpy(text, tdm_last_error(), 63);
    return NULL;
}

/* Each thread has its own text: empty at first, and a success leaves it. */
Test(info, last_error)
{
    char theirs[64] = "", ours[64] = "";
    pthread_t thread;
    cr_expect_str_empty(tdm_last_error());
    tdm_setting_get(NULL, 0, NULL);
    strncpy(ours, tdm_last_error(), 63);
    cr_expect(strstr(ours, "ctx"), "%s", ours);
    cr_assert(!pthread_create(&thread, NULL, own_error, theirs));
    pthread_join(thread, NULL);
    cr_expect(strstr(theirs, "version"), "%s", theirs);
    cr_expect_str_eq(tdm_last_error(), ours);
    struct world world;
    world_open(&world, 1);
    cr_expect_str_eq(tdm_last_error(), ours);
    world_close(&world);
}

Test(info, cpu)
{
    struct world world;
    tdm_device_info info = TDM_INIT(tdm_device_info);
    world_open(&world, 3);
    cr_assert(!tdm_device_get(world.ctx, cpu, &info), "%s", tdm_last_error());
    cr_expect(info.present && !*info.reason && *info.name, "%s: %s", info.name, info.reason);
    cr_expect_eq(info.threads, 3);
    for (int i = 0; i < 3; i++)
        cr_expect_geq(info.cache[i], 0);
    world_close(&world);
}

/* A caller with an older, shorter struct gets what fits and nothing behind it. */
Test(info, shorter_structs)
{
    struct world world;
    unsigned char memory[sizeof(tdm_device_info)];
    size_t size = 16;
    world_open(&world, 3);
    memset(memory, 0xEE, sizeof memory);
    memcpy(memory, &size, sizeof size);
    cr_assert(!tdm_device_get(world.ctx, cpu, (tdm_device_info *)memory), "%s", tdm_last_error());
    int32_t threads;
    memcpy(&threads, memory + 12, sizeof threads);
    cr_expect_eq(threads, 3);
    for (size_t i = size; i < sizeof memory; i++)
        cr_expect_eq(memory[i], 0xEE, "byte %zu", i);
    memset(memory, 0, sizeof size);
    cr_expect_eq(tdm_device_get(world.ctx, cpu, (tdm_device_info *)memory), TDM_BAD_ARG);
    world_close(&world);
}

Test(info, devices_that_cannot_be)
{
    struct world world;
    tdm_device_info info = TDM_INIT(tdm_device_info);
    world_open(&world, 1);
    cr_expect_eq(tdm_device_get(world.ctx, (tdm_device){(tdm_device_kind)9, 0}, &info), TDM_BAD_ARG);
    cr_expect_eq(tdm_device_get(world.ctx, (tdm_device){TDM_CPU, 1}, &info), TDM_BAD_ARG);
    cr_expect_eq(tdm_device_get(world.ctx, (tdm_device){TDM_CUDA, -1}, &info), TDM_BAD_ARG);
    cr_expect_eq(tdm_device_get(world.ctx, cpu, NULL), TDM_BAD_ARG);
    cr_expect_eq(tdm_device_get(NULL, cpu, &info), TDM_BAD_ARG);
    world_close(&world);
}

/* Impls first, then leaves; the last leaf is what every machine has. */
Test(info, kernels)
{
    static const char *const ops[] = {"kv_append", "gqa", "fp8_matmul", "quantize", "dequantize"};
    struct world world;
    tdm_kernel row = TDM_INIT(tdm_kernel);
    int rows = 0, leaves = 0, of_op[COUNT(ops)] = {0};
    char last[32] = "";
    world_open(&world, 1);
    for (; !tdm_kernel_get(world.ctx, cpu, rows, &row); rows++) {
        cr_expect(row.is_leaf || !leaves, "impls come first");
        leaves += row.is_leaf;
        cr_expect_eq(row.usable, !*row.reason, "%s: %s", row.name, row.reason);
        for (int i = 0; i < COUNT(ops); i++)
            of_op[i] += !row.is_leaf && !strcmp(row.op, ops[i]);
        cr_expect(!row.is_leaf || !*row.op);
        strncpy(last, row.name, sizeof last - 1);
    }
    cr_expect_geq(leaves, 1);
    cr_expect_str_eq(last, "scalar");
    for (int i = 0; i < COUNT(ops); i++)
        cr_expect_geq(of_op[i], 1, "%s has no row", ops[i]);
    cr_expect(of_op[1] >= 2 && of_op[2] >= 2, "gqa and fp8_matmul have two rows");
    cr_expect_eq(tdm_kernel_get(world.ctx, cpu, rows, &row), TDM_BAD_ARG);
    cr_expect_eq(tdm_kernel_get(world.ctx, cpu, INT32_MAX, &row), TDM_BAD_ARG);
    cr_expect_eq(tdm_kernel_get(world.ctx, cpu, -1, &row), TDM_BAD_ARG);
    cr_expect_eq(tdm_kernel_get(world.ctx, cpu, 0, NULL), TDM_BAD_ARG);
    cr_expect_eq(tdm_kernel_get(NULL, cpu, 0, &row), TDM_BAD_ARG);
    world_close(&world);
}
