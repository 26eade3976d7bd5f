/* Streams, marks, graphs and workspaces on two emulated GPUs, by the public API: TEST_PLUGIN, SHIM_DEVICES=90,90. What is
 * left over when a plugin is unloaded ends the test. */
#include "tests/ops/types.h"
#include "tests/reference/device.h"

#include <criterion/criterion.h>
#include <string.h>

enum { ROWS = 20, N = 24, K = 96, ONE = 0x38 /* 1.0 as E4M3 */ };

static const tdm_device cpu = {TDM_CPU, 0}, gpu = {TDM_CUDA, 0}, other_gpu = {TDM_CUDA, 1};

/* A product whose every output is K times the number that a holds. More than 16 rows go by cuBLAS. */
struct rig {
    tdm_ctx *ctx;
    tdm_op *op;
    tdm_workspace *workspace;
    void *stream;
    float *a, *out;
    tdm_fp8_matmul_args args;
    void *memory[4];
};

static void *rig_alloc(struct rig *r, int i, size_t bytes)
{
    cr_assert(!tdm_alloc(r->ctx, gpu, TDM_DEVICE_MEMORY, bytes, &r->memory[i]), "%s", tdm_last_error());
    return r->memory[i];
}

static void rig_copy(struct rig *r, void *to, const void *from, size_t bytes)
{
    cr_assert(!tdm_copy(r->ctx, gpu, to, cpu, from, bytes, r->stream), "%s", tdm_last_error());
    cr_assert(!tdm_stream_sync(r->ctx, gpu, r->stream), "%s", tdm_last_error());
}

static void rig_set(struct rig *r, float x)
{
    float a[ROWS * K];
    for (int i = 0; i < ROWS * K; i++)
        a[i] = x;
    rig_copy(r, r->a, a, sizeof a);
}

static float rig_get(struct rig *r)
{
    float x = -1;
    cr_assert(!tdm_copy(r->ctx, cpu, &x, gpu, r->out + ROWS * N - 1, sizeof x, r->stream), "%s", tdm_last_error());
    cr_assert(!tdm_stream_sync(r->ctx, gpu, r->stream), "%s", tdm_last_error());
    return x;
}

static tdm_status rig_run(struct rig *r, void *stream)
{
    return tdm_fp8_matmul_run(r->op, r->workspace, stream, &r->args);
}

static void rig_open(struct rig *r)
{
    memset(r, 0, sizeof *r);
    tdm_options options = TDM_INIT(tdm_options);
    options.threads = 1;
    options.env = (const char *const[]){test_plugin(), NULL};
    cr_assert(!tdm_open(TDM_VERSION, &options, &r->ctx), "%s", tdm_last_error());
    tdm_fp8_matmul_desc desc = TDM_INIT(tdm_fp8_matmul_desc);
    desc.a = (tdm_tensor){.dtype = TDM_F32, .rank = 2, .dim = {ROWS, K}};
    desc.b = (tdm_tensor){.dtype = TDM_F8E4M3, .scaling = TDM_PER_BLOCK, .rank = 2, .dim = {N, K}, .block = {N, K}};
    desc.out = (tdm_tensor){.dtype = TDM_F32, .rank = 2, .dim = {ROWS, N}};
    cr_assert(!tdm_fp8_matmul_create(r->ctx, gpu, &desc, &r->op), "%s", tdm_last_error());
    cr_assert(!tdm_workspace_create(r->op, NULL, 0, &r->workspace), "%s", tdm_last_error());
    cr_assert(!tdm_stream_create(r->ctx, gpu, &r->stream), "%s", tdm_last_error());
    r->args = TDM_INIT(tdm_fp8_matmul_args);
    r->args.m = ROWS;
    r->args.a = r->a = rig_alloc(r, 0, ROWS * K * sizeof *r->a);
    r->args.out = r->out = rig_alloc(r, 1, ROWS * N * sizeof *r->out);
    unsigned char b[N * K];
    float one = 1;
    memset(b, ONE, sizeof b);
    rig_copy(r, rig_alloc(r, 2, sizeof b), b, sizeof b);
    rig_copy(r, rig_alloc(r, 3, sizeof one), &one, sizeof one);
    r->args.b = r->memory[2];
    r->args.b_scale = r->memory[3];
}

static void rig_close(struct rig *r)
{
    for (int i = 0; i < COUNT(r->memory); i++)
        tdm_free(r->ctx, gpu, TDM_DEVICE_MEMORY, r->memory[i]);
    tdm_stream_destroy(r->ctx, gpu, r->stream);
    tdm_workspace_destroy(r->workspace);
    tdm_op_destroy(r->op);
    tdm_close(r->ctx);
}

/* A graph reads the memory that its calls named as it is when the graph runs. */
Test(cuda, graph)
{
    struct rig r;
    tdm_graph *graph;
    rig_open(&r);
    rig_set(&r, 1);
    cr_assert(!rig_run(&r, r.stream), "%s", tdm_last_error());
    cr_expect_eq(rig_get(&r), K);
    cr_assert(!tdm_graph_begin(r.ctx, gpu, r.stream), "%s", tdm_last_error());
    cr_assert(!rig_run(&r, r.stream), "%s", tdm_last_error());
    cr_assert(!tdm_graph_end(r.ctx, gpu, r.stream, &graph), "%s", tdm_last_error());
    for (int x = 2; x < 4; x++) {
        rig_set(&r, (float)x);
        cr_expect_eq(rig_get(&r), (x - 1) * K, "what was recorded ran");
        cr_assert(!tdm_graph_run(graph, r.stream), "%s", tdm_last_error());
        cr_expect_eq(rig_get(&r), x * K);
    }
    tdm_graph_destroy(graph);
    rig_close(&r);
}

/* What cannot be recorded fails, the graph too; then the stream is as before. */
Test(cuda, graph_that_fails)
{
    struct rig r;
    tdm_graph *graph = (tdm_graph *)&r;
    void *memory = &r;
    rig_open(&r);
    rig_set(&r, 2);
    cr_expect_eq(tdm_graph_end(r.ctx, gpu, r.stream, &graph), TDM_DEVICE_ERROR, "nothing is being recorded");
    cr_assert(!tdm_graph_begin(r.ctx, gpu, r.stream), "%s", tdm_last_error());
    cr_expect_eq(tdm_alloc(r.ctx, gpu, TDM_DEVICE_MEMORY, 64, &memory), TDM_DEVICE_ERROR);
    cr_expect_null(memory);
    cr_expect_eq(tdm_graph_end(r.ctx, gpu, r.stream, &graph), TDM_DEVICE_ERROR);
    cr_expect_null(graph);
    cr_assert(!rig_run(&r, r.stream), "%s", tdm_last_error());
    cr_expect_eq(rig_get(&r), 2 * K);
    rig_close(&r);
}

/* Another stream waits for a mark, and marks have a time between them once they are reached. */
Test(cuda, marks)
{
    struct rig r;
    tdm_mark *first, *last;
    void *stream;
    float ms = -1, seen = -1;
    rig_open(&r);
    rig_set(&r, 3);
    cr_assert(!tdm_stream_create(r.ctx, gpu, &stream), "%s", tdm_last_error());
    cr_assert(!tdm_mark_create(r.ctx, gpu, &first) && !tdm_mark_create(r.ctx, gpu, &last));
    cr_assert(!tdm_mark_record(first, r.stream) && !rig_run(&r, r.stream) && !tdm_mark_record(last, r.stream));
    cr_expect_eq(tdm_mark_elapsed(first, last, &ms), TDM_BAD_ARG, "nobody waited");
    cr_assert(!tdm_mark_wait(last, stream), "%s", tdm_last_error());
    cr_assert(!tdm_copy(r.ctx, cpu, &seen, gpu, r.out, sizeof seen, stream), "%s", tdm_last_error());
    cr_assert(!tdm_stream_sync(r.ctx, gpu, stream), "%s", tdm_last_error());
    cr_expect_eq(seen, 3 * K);
    cr_expect(!tdm_mark_elapsed(first, last, &ms) && ms >= 0, "%s", tdm_last_error());

    tdm_graph *graph;
    cr_assert(!tdm_graph_begin(r.ctx, gpu, r.stream) && !tdm_mark_record(last, r.stream));
    cr_assert(!tdm_graph_end(r.ctx, gpu, r.stream, &graph), "%s", tdm_last_error());
    cr_expect_eq(tdm_mark_elapsed(first, last, &ms), TDM_BAD_ARG, "recorded, but in a graph");
    tdm_graph_destroy(graph);
    tdm_mark_destroy(first);
    tdm_mark_destroy(last);
    tdm_stream_destroy(r.ctx, gpu, stream);
    rig_close(&r);
}

/* A stream of another device is the caller's mistake; nothing has happened. */
Test(cuda, stream_of_another_device)
{
    struct rig r;
    tdm_mark *mark;
    void *stream;
    float x = 5;
    rig_open(&r);
    rig_set(&r, 1);
    cr_assert(!rig_run(&r, r.stream), "%s", tdm_last_error());
    rig_set(&r, 2);
    cr_assert(!tdm_stream_create(r.ctx, other_gpu, &stream), "%s", tdm_last_error());
    cr_assert(!tdm_mark_create(r.ctx, gpu, &mark), "%s", tdm_last_error());
    const tdm_status got[] = {rig_run(&r, stream), tdm_copy(r.ctx, gpu, r.out, cpu, &x, sizeof x, stream),
                              tdm_stream_sync(r.ctx, gpu, stream), tdm_mark_record(mark, stream),
                              tdm_graph_begin(r.ctx, gpu, stream)};
    for (int i = 0; i < COUNT(got); i++)
        cr_expect_eq(got[i], TDM_BAD_ARG, "call %d: %s", i, tdm_status_name(got[i]));
    cr_expect(!strncmp(tdm_last_error(), "stream: got", 11), "%s", tdm_last_error());
    cr_expect_eq(rig_get(&r), K);
    tdm_mark_destroy(mark);
    tdm_stream_destroy(r.ctx, other_gpu, stream);
    rig_close(&r);
}

/* A workspace in memory of the caller's, at any multiple of 64. */
Test(cuda, workspace_of_the_caller)
{
    struct rig r;
    size_t bytes;
    void *memory;
    rig_open(&r);
    cr_assert(!tdm_workspace_size(r.op, &bytes) && bytes > 0);
    cr_assert(!tdm_alloc(r.ctx, gpu, TDM_DEVICE_MEMORY, bytes + 256, &memory), "%s", tdm_last_error());
    for (int shift = 0; shift < 256; shift += 64) {
        tdm_workspace_destroy(r.workspace);
        cr_assert(!tdm_workspace_create(r.op, (char *)memory + shift, bytes, &r.workspace), "%s", tdm_last_error());
        rig_set(&r, (float)shift);
        cr_assert(!rig_run(&r, r.stream), "%s", tdm_last_error());
        cr_expect_eq(rig_get(&r), shift * K);
    }
    tdm_free(r.ctx, gpu, TDM_DEVICE_MEMORY, memory);
    rig_close(&r);
}
