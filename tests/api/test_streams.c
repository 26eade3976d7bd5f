/* Streams, marks, graphs and registered memory where no GPU is: nothing to wait for on the CPU, NO_DEVICE on CUDA, and
 * BAD_ARG for what is wrong anywhere. tests/device has them on one. */
#include "tests/ops/indices.h"
#include "world.h"

#include <string.h>

static const tdm_device cpu = {TDM_CPU, 0}, cuda = {TDM_CUDA, 0}, nowhere = {(tdm_device_kind)7, 0};

Test(streams, on_the_cpu)
{
    struct world world;
    void *stream = &world;
    tdm_mark *first, *last;
    float milliseconds = -1;
    world_open(&world, 1);
    cr_assert(!tdm_stream_create(world.ctx, cpu, &stream), "%s", tdm_last_error());
    cr_expect_null(stream);
    cr_assert(!tdm_mark_create(world.ctx, cpu, &first) && !tdm_mark_create(world.ctx, cpu, &last));
    cr_expect_eq(tdm_mark_elapsed(first, last, &milliseconds), TDM_BAD_ARG);
    cr_expect(strstr(tdm_last_error(), "never recorded"), "%s", tdm_last_error());
    cr_expect_eq(milliseconds, -1);
    cr_expect(!tdm_mark_sync(first) && !tdm_mark_wait(first, stream)); /* not recorded: nothing to wait for */
    cr_expect(!tdm_mark_record(first, stream), "%s", tdm_last_error());
    cr_assert(!world_make(&world, GQA) && !world_run(&world, GQA), "%s", tdm_last_error());
    cr_expect(!tdm_mark_record(last, stream) && !tdm_mark_wait(last, stream) && !tdm_mark_sync(last));
    cr_expect(!tdm_mark_elapsed(first, last, &milliseconds), "%s", tdm_last_error());
    cr_expect(milliseconds > 0, "%g ms", (double)milliseconds);
    cr_expect(!tdm_stream_sync(world.ctx, cpu, stream), "%s", tdm_last_error());
    cr_expect(!tdm_host_register(world.ctx, cpu, &world, sizeof world), "%s", tdm_last_error());
    cr_expect(!tdm_host_unregister(world.ctx, cpu, &world), "%s", tdm_last_error());
    tdm_stream_destroy(world.ctx, cpu, stream);
    tdm_mark_destroy(first);
    tdm_mark_destroy(last);
    world_close(&world);
}

Test(streams, bad_input)
{
    struct world world;
    void *stream = NULL;
    tdm_mark *mark = (tdm_mark *)&world;
    tdm_graph *graph = (tdm_graph *)&world;
    float milliseconds;
    world_open(&world, 1);
    tdm_ctx *ctx = world.ctx;
    const struct {
        tdm_status got, want;
        const char *field;
    } calls[] = {
#define CALL(status, field, call) {(call), (status), (field)}
        CALL(TDM_BAD_ARG, "stream", tdm_stream_create(ctx, cpu, NULL)),
        CALL(TDM_BAD_ARG, "ctx", tdm_stream_create(NULL, cpu, &stream)),
        CALL(TDM_BAD_ARG, "device.kind", tdm_stream_create(ctx, nowhere, &stream)),
        CALL(TDM_NO_DEVICE, "device", tdm_stream_create(ctx, cuda, &stream)),
        CALL(TDM_BAD_ARG, "ctx", tdm_stream_sync(NULL, cpu, NULL)),
        CALL(TDM_NO_DEVICE, "device", tdm_stream_sync(ctx, cuda, NULL)),
        CALL(TDM_BAD_ARG, "stream", tdm_stream_sync(ctx, cpu, &world)),
        CALL(TDM_BAD_ARG, "mark", tdm_mark_create(ctx, cpu, NULL)),
        CALL(TDM_BAD_ARG, "ctx", tdm_mark_create(NULL, cpu, &mark)),
        CALL(TDM_NO_DEVICE, "device", tdm_mark_create(ctx, cuda, &mark)),
        CALL(TDM_BAD_ARG, "mark", tdm_mark_record(NULL, NULL)),
        CALL(TDM_BAD_ARG, "mark", tdm_mark_sync(NULL)),
        CALL(TDM_BAD_ARG, "mark", tdm_mark_wait(NULL, NULL)),
        CALL(TDM_BAD_ARG, "first", tdm_mark_elapsed(NULL, NULL, &milliseconds)),
        CALL(TDM_BAD_ARG, "milliseconds", tdm_mark_elapsed(NULL, NULL, NULL)),
        CALL(TDM_UNSUPPORTED, "graph", tdm_graph_begin(ctx, cpu, NULL)),
        CALL(TDM_UNSUPPORTED, "graph", tdm_graph_end(ctx, cpu, NULL, &graph)),
        CALL(TDM_NO_DEVICE, "device", tdm_graph_begin(ctx, cuda, &world)),
        CALL(TDM_BAD_ARG, "graph", tdm_graph_end(ctx, cuda, &world, NULL)),
        CALL(TDM_BAD_ARG, "graph", tdm_graph_run(NULL, NULL)),
        CALL(TDM_BAD_ARG, "pointer", tdm_host_register(ctx, cpu, NULL, 1)),
        CALL(TDM_BAD_ARG, "bytes", tdm_host_register(ctx, cpu, &world, 0)),
        CALL(TDM_NO_DEVICE, "device", tdm_host_register(ctx, cuda, &world, 1)),
        CALL(TDM_BAD_ARG, "pointer", tdm_host_unregister(ctx, cpu, NULL)),
        CALL(TDM_BAD_ARG, "ctx", tdm_host_unregister(NULL, cpu, &world)),
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        cr_expect_eq(calls[i].got, calls[i].want, "call %zu about %s: got %s", i, calls[i].field,
                     tdm_status_name(calls[i].got));
    cr_expect_null(mark, "a failed create leaves NULL");
    cr_expect_null(stream);
    cr_expect_null(graph);
    tdm_stream_destroy(ctx, cpu, NULL);
    tdm_stream_destroy(NULL, cpu, &world);
    tdm_mark_destroy(NULL);
    tdm_graph_destroy(NULL);
    world_close(&world);
}

/* The message names the field and what it wanted. */
Test(streams, messages)
{
    struct world world;
    tdm_mark *mark;
    world_open(&world, 1);
    cr_assert(!tdm_mark_create(world.ctx, cpu, &mark));
    cr_expect_eq(tdm_mark_record(mark, &world), TDM_BAD_ARG);
    cr_expect(strstr(tdm_last_error(), "stream: got") && strstr(tdm_last_error(), "want NULL"), "%s", tdm_last_error());
    cr_expect_eq(tdm_mark_sync(mark), TDM_OK, "the failed record counts as none");
    cr_expect_eq(tdm_stream_create(world.ctx, cuda, (void *[]){NULL}), TDM_NO_DEVICE);
    cr_expect(strstr(tdm_last_error(), "/nonexistent"), "%s", tdm_last_error());
    tdm_mark_destroy(mark);
    world_close(&world);
}
