/* The host's allocator: everything comes from it and goes back, its failures are reported, runs do not use it. */
#include "counting.h"
#include "tests/ops/indices.h"
#include "world.h"

static tdm_status open_counted(struct world *world, struct counting *counting, const char *variable)
{
    tdm_allocator allocator = counting_allocator(counting);
    world_init(world);
    tdm_options options = TDM_INIT(tdm_options);
    options.threads = 2;
    options.env = (const char *const[]){variable, NULL};
    options.allocator = &allocator;
    return tdm_open(TDM_VERSION, &options, &world->ctx);
}

Test(allocator, balanced)
{
    struct counting counting = {0};
    struct world world;
    cr_assert(!open_counted(&world, &counting, "TANDEM_LOG=off"), "%s", tdm_last_error());
    int opened = counting.calls;
    cr_expect_geq(opened, 2);
    cr_expect(!world_run_all(&world), "%s", tdm_last_error());
    cr_expect_gt(counting.calls, opened);
    void *pointer;
    cr_expect(!tdm_alloc(world.ctx, world.device, TDM_DEVICE_MEMORY, 100, &pointer));
    int live = counting.live;
    tdm_free(world.ctx, world.device, TDM_DEVICE_MEMORY, pointer);
    cr_expect_eq(counting.live, live - 1);
    world_close(&world);
    cr_expect_eq(counting.live, 0, "%d blocks are left", counting.live);
    cr_expect(!counting.misaligned && !counting.null_frees);
}

Test(allocator, runs_do_not_allocate)
{
    struct counting counting = {0};
    struct world world;
    cr_assert(!open_counted(&world, &counting, NULL), "%s", tdm_last_error());
    for (enum each_op op = 0; op < EACH_OPS; op++) {
        cr_assert(!world_make(&world, op), "%s", tdm_last_error());
        int calls = counting.calls;
        for (int i = 0; i < 3; i++)
            cr_expect(!world_run(&world, op), "%s", tdm_last_error());
        cr_expect_eq(counting.calls, calls, "a run of op %d allocated", (int)op);
        tdm_workspace_destroy(world.workspace);
        tdm_op_destroy(world.op);
        world.workspace = NULL;
        world.op = NULL;
    }
    world_close(&world);
    cr_expect_eq(counting.live, 0);
}

/* Everything a host does, with the n-th allocation failing: NO_MEMORY, and nothing is left behind. */
static tdm_status whole_life(struct counting *counting)
{
    struct world world;
    void *pointer = NULL;
    tdm_status status = open_counted(&world, counting, "TANDEM_SKIP=naive");
    if (status)
        return status;
    for (enum each_op op = 0; op < EACH_OPS && !status; op++) {
        if (!(status = world_make(&world, op)))
            status = world_run(&world, op);
        tdm_workspace_destroy(world.workspace);
        tdm_op_destroy(world.op);
        world.workspace = NULL;
        world.op = NULL;
    }
    if (!status && !(status = tdm_alloc(world.ctx, world.device, TDM_PINNED_HOST, 64, &pointer)))
        tdm_free(world.ctx, world.device, TDM_PINNED_HOST, pointer);
    world_close(&world);
    return status;
}

Test(allocator, every_failure)
{
    struct counting all = {0};
    cr_assert(!whole_life(&all), "%s", tdm_last_error());
    for (int n = 1; n <= all.calls; n++) {
        struct counting counting = {.fail_at = n};
        tdm_status status = whole_life(&counting);
        cr_expect_eq(status, TDM_NO_MEMORY, "allocation %d of %d: %s", n, all.calls, tdm_status_name(status));
        cr_expect_eq(counting.live, 0, "allocation %d of %d: %d blocks are left", n, all.calls, counting.live);
        cr_expect_eq(counting.calls, n, "allocation %d of %d: went on after the failure", n, all.calls);
    }
}

/* A failed create leaves the context as it was: the next one works. */
Test(allocator, recovers)
{
    struct counting counting = {0};
    struct world world;
    cr_assert(!open_counted(&world, &counting, NULL), "%s", tdm_last_error());
    counting.fail_at = counting.calls + 1;
    cr_expect_eq(world_create(&world, GQA), TDM_NO_MEMORY);
    cr_expect_null(world.op);
    counting.fail_at = 0;
    cr_expect(!world_run_all(&world), "%s", tdm_last_error());
    world_close(&world);
    cr_expect_eq(counting.live, 0);
}
