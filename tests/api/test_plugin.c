/* Loading a backend: what is wrong with a plugin makes its device absent, with a reason, and nothing else. */
#include "tests/ops/indices.h"
#include "tests/ops/types.h"
#include "world.h"

#include <stdio.h>
#include <string.h>

static const tdm_device cpu = {TDM_CPU, 0}, cuda = {TDM_CUDA, 0};

static void hear(void *user, tdm_log_level level, const char *message)
{
    (void)level;
    char *log = user;
    strncat(strncat(log, message, 1000), "\n", 2);
}

static tdm_status open_with(struct world *world, const char *plugin, const char *variable, char *log)
{
    char path[512];
    snprintf(path, sizeof path, "TANDEM_CUDA_PLUGIN=%s%s", *plugin == '/' ? "" : FAKE_BACKENDS "/", plugin);
    world_init(world);
    tdm_options options = TDM_INIT(tdm_options);
    options.threads = 2;
    options.env = (const char *const[]){path, variable, NULL};
    options.log = log ? hear : NULL;
    options.user = log;
    return tdm_open(TDM_VERSION, &options, &world->ctx);
}

static const struct {
    const char *plugin, *reason;
} absent[] = {
    {"/nonexistent/libtandem_cuda.so", "/nonexistent/libtandem_cuda.so"},
    {"/dev/null", "/dev/null"},
    {"fake_no_symbol.so", "tandem_backend"},
    {"fake_wrong_abi.so", "version"},
    {"fake_refuses_abi.so", "version"},
    {"fake_wrong_kind.so", "version"},
    {"fake_open_fails.so", "the driver is asleep"},
};

TEST_EACH(plugin, absent, COUNT(absent))
{
    struct world world;
    cr_assert(!open_with(&world, absent[*at].plugin, NULL, NULL), "%s", tdm_last_error());
    tdm_device_info info = TDM_INIT(tdm_device_info);
    for (int i = 0; i < 2; i++) { /* the second time nothing is loaded again */
        cr_expect_eq(tdm_device_get(world.ctx, cuda, &info), TDM_OK, "%s", tdm_last_error());
        cr_expect(!info.present && strstr(info.reason, absent[*at].reason), "%s", info.reason);
    }
    tdm_kernel row = TDM_INIT(tdm_kernel);
    cr_expect_eq(tdm_kernel_get(world.ctx, cuda, 0, &row), TDM_NO_DEVICE);
    world.device = cuda;
    for (enum each_op op = 0; op < EACH_OPS; op++) {
        cr_expect_eq(world_create(&world, op), TDM_NO_DEVICE, "op %d", (int)op);
        cr_expect(strstr(tdm_last_error(), absent[*at].reason), "%s", tdm_last_error());
    }
    world.device = cpu;
    cr_expect(!world_run_all(&world), "the CPU: %s", tdm_last_error());
    world_close(&world);
}

Test(plugin, loads)
{
    struct world world;
    tdm_device_info info = TDM_INIT(tdm_device_info);
    tdm_kernel row = TDM_INIT(tdm_kernel);
    char log[4096] = "";
    cr_assert(!open_with(&world, "fake_none.so", NULL, log), "%s", tdm_last_error());
    cr_assert(!tdm_device_get(world.ctx, cuda, &info), "%s", tdm_last_error());
    cr_expect(info.present && !*info.reason && !strcmp(info.name, "fake device 0"), "%s %s", info.name, info.reason);
    cr_expect(info.memory == 1 << 20 && info.threads == 0);
    cr_expect(strstr(log, "fake has 2 threads"), "the plugin's message did not arrive: %s", log);
    cr_expect(!tdm_device_get(world.ctx, (tdm_device){TDM_CUDA, 1}, &info) && !info.present && *info.reason);
    cr_expect(!tdm_kernel_get(world.ctx, cuda, 0, &row) && !strcmp(row.name, "ones") && !strcmp(row.op, "gqa"));
    cr_expect(!tdm_kernel_get(world.ctx, cuda, 1, &row) && !strcmp(row.name, "fakeleaf") && row.is_leaf);
    cr_expect_eq(tdm_kernel_get(world.ctx, cuda, 2, &row), TDM_BAD_ARG);
    world_close(&world);
}

Test(plugin, runs)
{
    struct world world;
    cr_assert(!open_with(&world, "fake_none.so", NULL, NULL), "%s", tdm_last_error());
    world.device = cuda;
    cr_assert(!world_make(&world, GQA), "%s", tdm_last_error());
    cr_expect_null(world.workspace);
    cr_expect(!world_run(&world, GQA), "%s", tdm_last_error());
    for (int i = 0; i < BATCH * Q_HEADS * MAX_Q * V_DIM; i++)
        cr_assert_eq(world.memory.out[i], 1, "output %d", i);
    world.memory.q_len[0] = 0;
    cr_expect_eq(world_run(&world, GQA), TDM_DEVICE_ERROR);
    cr_expect(strstr(tdm_last_error(), "the kernel was launched"), "%s", tdm_last_error());
    world.memory.q_len[0] = -1; /* the library looks before the plugin does */
    cr_expect_eq(world_run(&world, GQA), TDM_BAD_ARG);
    world_close(&world);
}

/* An op that the plugin lacks, a shape it does not take, and a row that is left out: UNSUPPORTED, with the reason. */
Test(plugin, refuses)
{
    struct world world;
    cr_assert(!open_with(&world, "fake_none.so", NULL, NULL), "%s", tdm_last_error());
    world.device = cuda;
    cr_expect_eq(world_create(&world, FP8), TDM_UNSUPPORTED);
    cr_expect(strstr(tdm_last_error(), "fake"), "%s", tdm_last_error());
    world.gqa.q.dim[3] = world.gqa.cache.k.dim[3] = 7;
    cr_expect_eq(world_create(&world, GQA), TDM_UNSUPPORTED);
    cr_expect(strstr(tdm_last_error(), "ones: head_dim: got 7, want an even number"), "%s", tdm_last_error());
    world_close(&world);

    cr_assert(!open_with(&world, "fake_none.so", "TANDEM_SKIP=ones", NULL), "%s", tdm_last_error());
    world.device = cuda;
    cr_expect_eq(world_create(&world, GQA), TDM_UNSUPPORTED);
    cr_expect(strstr(tdm_last_error(), "ones: left out by TANDEM_SKIP"), "%s", tdm_last_error());
    world.device = cpu;
    cr_expect(!world_run_all(&world), "%s", tdm_last_error());
    world_close(&world);
}

Test(plugin, memory)
{
    struct world world;
    void *pointer = NULL;
    char back[8] = "";
    cr_assert(!open_with(&world, "fake_none.so", NULL, NULL), "%s", tdm_last_error());
    cr_assert(!tdm_alloc(world.ctx, cuda, TDM_DEVICE_MEMORY, 8, &pointer), "%s", tdm_last_error());
    cr_expect(!tdm_copy(world.ctx, cuda, pointer, cpu, "a word", 7, NULL));
    cr_expect(!tdm_copy(world.ctx, cpu, back, cuda, pointer, 7, NULL));
    cr_expect_str_eq(back, "! word");
    tdm_free(world.ctx, cuda, TDM_DEVICE_MEMORY, pointer);
    world_close(&world);
}

/* Opening, loading and closing again and again leaves nothing loaded twice. */
Test(plugin, many_times)
{
    for (int i = 0; i < 20; i++) {
        struct world world;
        tdm_device_info info = TDM_INIT(tdm_device_info);
        cr_assert(!open_with(&world, i % 2 ? "fake_none.so" : "fake_open_fails.so", NULL, NULL), "%s",
                  tdm_last_error());
        cr_expect(!tdm_device_get(world.ctx, cuda, &info) && info.present == i % 2, "%s", info.reason);
        world_close(&world);
    }
}
