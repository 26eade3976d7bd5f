/* Graphs of a GPU: what is recorded runs later, as often as wanted; what cannot be recorded is the caller's mistake. */
#include "device_world.h"

#include <criterion/criterion.h>
#include <string.h>

enum { M = 2, COLUMNS = 24, CHANNELS = 64, ONE = 0x38 /* 1.0 as e4m3 */ };

/* A product, its arrays on the device and pinned ones of the input and output. */
struct product {
    tdm_op *op;
    tdm_workspace *workspace;
    float *a, *scale, *out, *in, *result;
    void *b;
    tdm_fp8_matmul_args args;
};

static void product_new(struct product *p, tdm_ctx *ctx, void *stream)
{
    const tdm_device gpu = test_device(), cpu = {TDM_CPU, 0};
    unsigned char codes[COLUMNS * CHANNELS];
    float scales[COLUMNS];
    tdm_fp8_matmul_desc desc = TDM_INIT(tdm_fp8_matmul_desc);
    desc.a = (tdm_tensor){.dtype = TDM_F32, .rank = 2, .dim = {M, CHANNELS}};
    desc.b = (tdm_tensor){
        .dtype = TDM_F8E4M3, .scaling = TDM_PER_BLOCK, .rank = 2, .dim = {COLUMNS, CHANNELS}, .block = {1, CHANNELS}};
    desc.out = (tdm_tensor){.dtype = TDM_F32, .rank = 2, .dim = {M, COLUMNS}};
    MUST(tdm_fp8_matmul_create(ctx, gpu, &desc, &p->op));
    MUST(tdm_workspace_create(p->op, NULL, 0, &p->workspace));
    memset(codes, ONE, sizeof codes);
    for (int n = 0; n < COLUMNS; n++)
        scales[n] = (float)(n + 1);
    p->a = device_floats(ctx, TDM_DEVICE_MEMORY, M * CHANNELS);
    p->scale = device_floats(ctx, TDM_DEVICE_MEMORY, COLUMNS);
    p->out = device_floats(ctx, TDM_DEVICE_MEMORY, M * COLUMNS);
    p->in = device_floats(ctx, TDM_PINNED_HOST, M * CHANNELS);
    p->result = device_floats(ctx, TDM_PINNED_HOST, M * COLUMNS);
    MUST(tdm_alloc(ctx, gpu, TDM_DEVICE_MEMORY, sizeof codes, &p->b));
    MUST(tdm_copy(ctx, gpu, p->b, cpu, codes, sizeof codes, stream));
    to_device(ctx, p->scale, scales, COLUMNS, stream);
    MUST(tdm_stream_sync(ctx, gpu, stream));
    p->args = TDM_INIT(tdm_fp8_matmul_args);
    p->args.a = p->a;
    p->args.b = p->b;
    p->args.b_scale = p->scale;
    p->args.out = p->out;
    p->args.m = M;
}

static void product_free(struct product *p, tdm_ctx *ctx)
{
    const tdm_device gpu = test_device();
    void *const there[] = {p->a, p->scale, p->out, p->b};
    for (int i = 0; i < 4; i++)
        tdm_free(ctx, gpu, TDM_DEVICE_MEMORY, there[i]);
    tdm_free(ctx, gpu, TDM_PINNED_HOST, p->in);
    tdm_free(ctx, gpu, TDM_PINNED_HOST, p->result);
    tdm_workspace_destroy(p->workspace);
    tdm_op_destroy(p->op);
}

static void enqueue(struct product *p, tdm_ctx *ctx, void *stream)
{
    to_device(ctx, p->a, p->in, M * CHANNELS, stream);
    MUST(tdm_fp8_matmul_run(p->op, p->workspace, stream, &p->args));
    to_host(ctx, p->result, p->out, M * COLUMNS, stream);
}

/* Rows of equal numbers, whose products are exact: x * CHANNELS * (n + 1). */
static void set_rows(struct product *p, float x)
{
    for (int i = 0; i < M * CHANNELS; i++)
        p->in[i] = x + (float)(i / CHANNELS);
    for (int i = 0; i < M * COLUMNS; i++)
        p->result[i] = -1;
}

static void expect_rows(const struct product *p, float x, const char *when)
{
    for (int i = 0; i < M * COLUMNS; i++) {
        const float want = (x + (float)(i / COLUMNS)) * CHANNELS * (float)(i % COLUMNS + 1);
        cr_expect_eq(p->result[i], want, "%s: [%d]: got %g, want %g", when, i, p->result[i], want);
    }
}

/* Copy in, product, copy out: recorded once, run with other numbers each time, on another stream too. */
Test(graphs, run_what_was_recorded)
{
    tdm_ctx *ctx = device_open();
    const tdm_device gpu = test_device();
    void *stream = device_stream(ctx), *other = device_stream(ctx);
    struct product p;
    tdm_graph *graph;
    product_new(&p, ctx, stream);
    set_rows(&p, 9);
    MUST(tdm_graph_begin(ctx, gpu, stream));
    enqueue(&p, ctx, stream);
    MUST(tdm_graph_end(ctx, gpu, stream, &graph));
    MUST(tdm_stream_sync(ctx, gpu, stream));
    cr_expect_eq(p.result[0], -1, "recording runs nothing");
    for (int turn = 0; turn < 3; turn++) {
        void *on = turn == 1 ? other : stream;
        set_rows(&p, (float)turn);
        MUST(tdm_graph_run(graph, on));
        MUST(tdm_stream_sync(ctx, gpu, on));
        expect_rows(&p, (float)turn, "replayed");
    }
    set_rows(&p, 4);
    enqueue(&p, ctx, stream);
    MUST(tdm_stream_sync(ctx, gpu, stream));
    expect_rows(&p, 4, "directly");
    tdm_graph_destroy(graph);
    product_free(&p, ctx);
    tdm_stream_destroy(ctx, gpu, stream);
    tdm_stream_destroy(ctx, gpu, other);
    tdm_close(ctx);
}

/* Each mistake is BAD_ARG, gives no graph and leaves a stream that works. */
Test(graphs, mistakes)
{
    tdm_ctx *ctx = device_open();
    const tdm_device gpu = test_device();
    void *stream = device_stream(ctx), *memory = NULL;
    struct product p;
    tdm_graph *graph = (tdm_graph *)&graph;
    product_new(&p, ctx, stream);
    EXPECT_FAILURE(TDM_BAD_ARG, "stream", tdm_graph_begin(ctx, gpu, NULL));
    EXPECT_FAILURE(TDM_BAD_ARG, "stream", tdm_graph_end(ctx, gpu, stream, &graph));
    cr_expect_null(graph, "a failed call leaves NULL");
    enum { TWICE, SYNC, ALLOC, MISTAKES };
    for (int mistake = 0; mistake < MISTAKES; mistake++) {
        graph = (tdm_graph *)&graph;
        set_rows(&p, 1);
        MUST(tdm_graph_begin(ctx, gpu, stream));
        if (mistake == TWICE)
            EXPECT_FAILURE(TDM_BAD_ARG, "graph", tdm_graph_begin(ctx, gpu, stream));
        else if (mistake == SYNC)
            EXPECT_FAILURE(TDM_BAD_ARG, "stream", tdm_stream_sync(ctx, gpu, stream));
        else
            EXPECT_FAILURE(TDM_BAD_ARG, "bytes", tdm_alloc(ctx, gpu, TDM_DEVICE_MEMORY, 64, &memory));
        const tdm_status ended = tdm_graph_end(ctx, gpu, stream, &graph);
        cr_expect(ended == TDM_OK || (ended == TDM_BAD_ARG && !graph), "mistake %d: the end gives %s", mistake,
                  tdm_status_name(ended));
        tdm_graph_destroy(ended ? NULL : graph);
        enqueue(&p, ctx, stream);
        MUST(tdm_stream_sync(ctx, gpu, stream));
        expect_rows(&p, 1, "after a mistake");
    }
    product_free(&p, ctx);
    tdm_stream_destroy(ctx, gpu, stream);
    tdm_close(ctx);
}

/* A mark that a graph holds is a point in the graph: it has no time, and nobody can wait for it. */
Test(graphs, marks_inside)
{
    tdm_ctx *ctx = device_open();
    const tdm_device gpu = test_device();
    void *stream = device_stream(ctx);
    tdm_mark *inside, *outside;
    tdm_graph *graph;
    float milliseconds = -1;
    MUST(tdm_mark_create(ctx, gpu, &inside));
    MUST(tdm_mark_create(ctx, gpu, &outside));
    MUST(tdm_mark_record(outside, stream));
    MUST(tdm_graph_begin(ctx, gpu, stream));
    MUST(tdm_mark_record(inside, stream));
    MUST(tdm_graph_end(ctx, gpu, stream, &graph));
    EXPECT_FAILURE(TDM_BAD_ARG, "mark", tdm_mark_elapsed(outside, inside, &milliseconds));
    EXPECT_FAILURE(TDM_BAD_ARG, "mark", tdm_mark_sync(inside));
    cr_expect_eq(milliseconds, -1);
    MUST(tdm_graph_run(graph, stream));
    MUST(tdm_stream_sync(ctx, gpu, stream));
    tdm_graph_destroy(graph);
    tdm_mark_destroy(inside);
    tdm_mark_destroy(outside);
    tdm_stream_destroy(ctx, gpu, stream);
    tdm_close(ctx);
}
