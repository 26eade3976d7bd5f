/* Workspaces in the caller's memory, and the memory of devices. */
#include "tests/ops/indices.h"
#include "tests/reference/guard.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

static size_t workspace_bytes(const struct world *world)
{
    size_t bytes = 0;
    cr_assert(!tdm_workspace_size(world->op, &bytes), "%s", tdm_last_error());
    return bytes;
}

/* The caller's memory, whatever it holds, gives what the library's own gives; nothing around it is touched. */
TEST_EACH(memory, workspace_of_the_caller, EACH_OPS)
{
    enum each_op op = *at;
    struct world own, given;
    world_open(&own, 2);
    world_open(&given, 2);
    cr_assert(!world_make(&own, op) && !world_run(&own, op), "%s", tdm_last_error());
    cr_assert(!world_make(&given, op), "%s", tdm_last_error());
    tdm_workspace_destroy(given.workspace);
    given.workspace = NULL;
    size_t bytes = workspace_bytes(&given);
    struct guard memory = guard_new((bytes + 63) / 64 * 64, 0xFF);
    if (bytes)
        cr_assert(!tdm_workspace_create(given.op, memory.data, memory.bytes, &given.workspace), "%s", tdm_last_error());
    cr_expect(!world_run(&given, op), "%s", tdm_last_error());
    cr_expect(!memcmp(&own.memory, &given.memory, sizeof own.memory), "other bits in the caller's memory");
    cr_expect(guard_intact(&memory));
    world_close(&given);
    guard_free(&memory);
    world_close(&own);
}

Test(memory, bad_workspaces)
{
    struct world world;
    world_open(&world, 1);
    cr_assert(!world_make(&world, GQA), "%s", tdm_last_error());
    size_t bytes = workspace_bytes(&world);
    cr_assert_gt(bytes, 64);
    char *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
    tdm_workspace *workspace = (tdm_workspace *)memory;
    cr_expect_eq(tdm_workspace_create(world.op, memory + 8, bytes, &workspace), TDM_BAD_ARG);
    cr_expect(!workspace && strstr(tdm_last_error(), "memory"), "%s", tdm_last_error());
    cr_expect_eq(tdm_workspace_create(world.op, memory, bytes - 1, &workspace), TDM_BAD_ARG);
    cr_expect(!workspace && strstr(tdm_last_error(), "bytes"), "%s", tdm_last_error());
    cr_expect_eq(tdm_workspace_create(world.op, memory, bytes, NULL), TDM_BAD_ARG);
    cr_expect_eq(tdm_workspace_size(world.op, NULL), TDM_BAD_ARG);

    /* Made for one op, used for another of the same kind. */
    struct world other;
    world_init(&other);
    other.ctx = world.ctx;
    cr_assert(!world_make(&other, GQA), "%s", tdm_last_error());
    tdm_workspace *own = world.workspace;
    world.workspace = other.workspace;
    struct memory before = world.memory;
    cr_expect_eq(world_run(&world, GQA), TDM_BAD_ARG);
    cr_expect(strstr(tdm_last_error(), "workspace"), "%s", tdm_last_error());
    cr_expect(!memcmp(&before, &world.memory, sizeof before));
    world.workspace = own;
    tdm_workspace_destroy(other.workspace);
    tdm_op_destroy(other.op);
    world_close(&world);
    free(memory);
}

Test(memory, alloc_copy_free)
{
    struct world world;
    void *to = NULL, *from = NULL;
    world_open(&world, 1);
    for (int kind = TDM_DEVICE_MEMORY; kind <= TDM_PINNED_HOST; kind++) {
        cr_assert(!tdm_alloc(world.ctx, world.device, (tdm_memory)kind, 1000, &to), "%s", tdm_last_error());
        cr_assert(!tdm_alloc(world.ctx, world.device, (tdm_memory)kind, 1000, &from), "%s", tdm_last_error());
        cr_expect((uintptr_t)to % 64 == 0 && (uintptr_t)from % 64 == 0);
        memset(from, 0x5C, 1000);
        memset(to, 0, 1000);
        cr_expect(!tdm_copy(world.ctx, world.device, to, world.device, from, 999, NULL), "%s", tdm_last_error());
        cr_expect(!memcmp(to, from, 999) && ((char *)to)[999] == 0);
        tdm_free(world.ctx, world.device, (tdm_memory)kind, to);
        tdm_free(world.ctx, world.device, (tdm_memory)kind, from);
    }
    world_close(&world);
}

Test(memory, bad_alloc_and_copy)
{
    struct world world;
    char bytes[8] = "before";
    void *pointer = bytes;
    const tdm_device cuda = {TDM_CUDA, 0}, nowhere = {(tdm_device_kind)5, 0};
    world_open(&world, 1);
    cr_expect_eq(tdm_alloc(world.ctx, world.device, TDM_DEVICE_MEMORY, 0, &pointer), TDM_OK);
    cr_expect_null(pointer);
    cr_expect_eq(tdm_alloc(world.ctx, world.device, (tdm_memory)2, 8, &pointer), TDM_BAD_ARG);
    cr_expect_eq(tdm_alloc(world.ctx, nowhere, TDM_DEVICE_MEMORY, 8, &pointer), TDM_BAD_ARG);
    cr_expect_eq(tdm_alloc(world.ctx, world.device, TDM_DEVICE_MEMORY, 8, NULL), TDM_BAD_ARG);
    cr_expect_eq(tdm_alloc(NULL, world.device, TDM_DEVICE_MEMORY, 8, &pointer), TDM_BAD_ARG);
    pointer = bytes;
    cr_expect_eq(tdm_alloc(world.ctx, world.device, TDM_DEVICE_MEMORY, SIZE_MAX - 8, &pointer), TDM_NO_MEMORY);
    cr_expect_null(pointer);
    cr_expect_eq(tdm_copy(world.ctx, world.device, bytes, world.device, NULL, 4, NULL), TDM_BAD_ARG);
    cr_expect_eq(tdm_copy(world.ctx, world.device, NULL, world.device, bytes, 4, NULL), TDM_BAD_ARG);
    cr_expect_eq(tdm_copy(world.ctx, nowhere, bytes, world.device, bytes + 1, 4, NULL), TDM_BAD_ARG);
    cr_expect_eq(tdm_copy(NULL, world.device, bytes, world.device, bytes + 1, 4, NULL), TDM_BAD_ARG);
    cr_expect_eq(tdm_copy(world.ctx, cuda, bytes, world.device, bytes + 1, 4, NULL), TDM_NO_DEVICE);
    cr_expect_eq(tdm_copy(world.ctx, world.device, NULL, world.device, NULL, 0, NULL), TDM_OK);
    cr_expect_str_eq(bytes, "before");
    tdm_free(world.ctx, world.device, TDM_DEVICE_MEMORY, NULL);
    tdm_free(NULL, world.device, TDM_DEVICE_MEMORY, NULL);
    world_close(&world);
}
