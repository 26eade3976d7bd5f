/* Graphs of a GPU: what is recorded runs later, as often as wanted; what cannot be recorded is the caller's mistake. */
#include "product.h"

#include <criterion/criterion.h>

/* Copy in, product, copy out: recorded once, run with other numbers each time, on another stream too. */
static void record_and_run(int rows)
{
    tdm_ctx *ctx = device_open();
    const tdm_device gpu = test_device();
    void *stream = device_stream(ctx), *other = device_stream(ctx);
    struct product p;
    tdm_graph *graph;
    product_new(&p, ctx, stream, rows);
    product_set(&p, 9);
    MUST(tdm_graph_begin(ctx, gpu, stream));
    product_enqueue(&p, ctx, stream);
    MUST(tdm_graph_end(ctx, gpu, stream, &graph));
    MUST(tdm_stream_sync(ctx, gpu, stream));
    cr_expect_eq(p.result[0], -1, "recording runs nothing");
    for (int turn = 0; turn < 3; turn++) {
        void *on = turn == 1 ? other : stream;
        product_set(&p, (float)turn);
        MUST(tdm_graph_run(graph, on));
        MUST(tdm_stream_sync(ctx, gpu, on));
        product_expect(&p, (float)turn, "replayed");
    }
    product_set(&p, 4);
    product_enqueue(&p, ctx, stream);
    MUST(tdm_stream_sync(ctx, gpu, stream));
    product_expect(&p, 4, "directly");
    tdm_graph_destroy(graph);
    product_free(&p, ctx);
    tdm_stream_destroy(ctx, gpu, stream);
    tdm_stream_destroy(ctx, gpu, other);
    tdm_close(ctx);
}

Test(graphs, run_what_was_recorded)
{
    record_and_run(FEW);
    record_and_run(MANY);
}

/* Each mistake is BAD_ARG, gives no graph and leaves a stream that works. */
Test(graphs, mistakes)
{
    tdm_ctx *ctx = device_open();
    const tdm_device gpu = test_device();
    void *stream = device_stream(ctx), *memory = NULL;
    struct product p;
    tdm_graph *graph = (tdm_graph *)&graph;
    product_new(&p, ctx, stream, MANY);
    EXPECT_FAILURE(TDM_BAD_ARG, "stream", tdm_graph_begin(ctx, gpu, NULL));
    EXPECT_FAILURE(TDM_BAD_ARG, "stream", tdm_graph_end(ctx, gpu, stream, &graph));
    cr_expect_null(graph, "a failed call leaves NULL");
    enum { TWICE, SYNC, ALLOC, MISTAKES };
    for (int mistake = 0; mistake < MISTAKES; mistake++) {
        graph = (tdm_graph *)&graph;
        product_set(&p, 1);
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
        product_enqueue(&p, ctx, stream);
        MUST(tdm_stream_sync(ctx, gpu, stream));
        product_expect(&p, 1, "after a mistake");
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
    EXPECT_FAILURE(TDM_BAD_ARG, "last", tdm_mark_elapsed(outside, inside, &milliseconds));
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
