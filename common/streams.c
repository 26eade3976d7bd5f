/* Streams, marks and graphs: of a backend that has queues, and on one whose work is done when a call returns. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "context.h"
#include "error.h"

#include <time.h>

struct tdm_mark {
    tdm_ctx *ctx;
    const struct loaded *on;
    int index;
    void *mark;      /* the backend's, where it has streams     */
    double recorded; /* else: milliseconds of a clock, 0: never */
};

struct tdm_graph {
    tdm_ctx *ctx;
    const struct loaded *on;
    int index;
    void *graph;
};

static tdm_status find(tdm_ctx *ctx, tdm_device device, struct loaded **on)
{
    if (!ctx)
        return fail(TDM_BAD_ARG, "ctx: got NULL, want a context");
    tdm_status status = ctx_check_owner(ctx);
    return status ? status : backends_find(ctx, device, on);
}

static const struct stream_calls *calls(const struct loaded *on)
{
    return on->backend->streams;
}

/* Without queues there is one stream. */
static tdm_status check_null(const void *stream)
{
    return stream ? fail(TDM_BAD_ARG, "stream: got %p, want NULL on the CPU", stream) : TDM_OK;
}

tdm_status tdm_stream_create(tdm_ctx *ctx, tdm_device device, void **stream)
{
    struct loaded *on;
    if (!stream)
        return fail(TDM_BAD_ARG, "stream: got NULL, want a place for the stream");
    *stream = NULL;
    tdm_status status = find(ctx, device, &on);
    return status || !calls(on) ? status : calls(on)->stream_create(on->state, device.index, stream);
}

void tdm_stream_destroy(tdm_ctx *ctx, tdm_device device, void *stream)
{
    struct loaded *on;
    if (stream && !find(ctx, device, &on) && calls(on))
        calls(on)->stream_destroy(on->state, device.index, stream);
}

tdm_status tdm_stream_sync(tdm_ctx *ctx, tdm_device device, void *stream)
{
    struct loaded *on;
    tdm_status status = find(ctx, device, &on);
    if (status)
        return status;
    return calls(on) ? calls(on)->stream_sync(on->state, device.index, stream) : check_null(stream);
}

/* ---- marks ---------------------------------------------------------------------- */

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static tdm_status check_mark(const char *field, const tdm_mark *mark)
{
    if (!mark)
        return fail(TDM_BAD_ARG, "%s: got NULL, want a mark", field);
    return ctx_check_owner(mark->ctx);
}

tdm_status tdm_mark_create(tdm_ctx *ctx, tdm_device device, tdm_mark **out)
{
    struct loaded *on;
    if (!out)
        return fail(TDM_BAD_ARG, "mark: got NULL, want a place for the mark");
    *out = NULL;
    tdm_status status = find(ctx, device, &on);
    if (status)
        return status;
    tdm_mark *mark = ctx_alloc(ctx, sizeof *mark);
    if (!mark)
        return fail(TDM_NO_MEMORY, "mark: no memory for %zu bytes", sizeof *mark);
    *mark = (tdm_mark){ctx, on, device.index, NULL, 0};
    if (calls(on) && (status = calls(on)->mark_create(on->state, device.index, &mark->mark)))
        ctx_free(ctx, mark);
    else
        *out = mark;
    return status;
}

void tdm_mark_destroy(tdm_mark *mark)
{
    if (!mark)
        return;
    if (calls(mark->on))
        calls(mark->on)->mark_destroy(mark->on->state, mark->index, mark->mark);
    ctx_free(mark->ctx, mark);
}

tdm_status tdm_mark_record(tdm_mark *mark, void *stream)
{
    tdm_status status = check_mark("mark", mark);
    if (status)
        return status;
    if (calls(mark->on))
        status = calls(mark->on)->mark_record(mark->on->state, mark->index, mark->mark, stream);
    else
        status = check_null(stream);
    if (!status)
        mark->recorded = now_ms();
    return status;
}

tdm_status tdm_mark_sync(tdm_mark *mark)
{
    tdm_status status = check_mark("mark", mark);
    if (status || mark->recorded == 0 || !calls(mark->on))
        return status;
    return calls(mark->on)->mark_sync(mark->on->state, mark->index, mark->mark);
}

tdm_status tdm_mark_wait(tdm_mark *mark, void *stream)
{
    tdm_status status = check_mark("mark", mark);
    if (status)
        return status;
    if (!calls(mark->on))
        return check_null(stream);
    return mark->recorded == 0 ? TDM_OK : calls(mark->on)->mark_wait(mark->on->state, mark->index, mark->mark, stream);
}

tdm_status tdm_mark_elapsed(const tdm_mark *first, const tdm_mark *last, float *milliseconds)
{
    if (!milliseconds)
        return fail(TDM_BAD_ARG, "milliseconds: got NULL, want a place for them");
    tdm_status status = check_mark("first", first);
    if (status || (status = check_mark("last", last)))
        return status;
    if (first->on != last->on || first->index != last->index)
        return fail(TDM_BAD_ARG, "last: got a mark of another device, want one of the device of first");
    if (first->recorded == 0 || last->recorded == 0)
        return fail(TDM_BAD_ARG, "%s: got a mark that was never recorded, want a recorded one",
                    first->recorded == 0 ? "first" : "last");
    if (calls(first->on))
        return calls(first->on)->mark_elapsed(first->on->state, first->index, first->mark, last->mark, milliseconds);
    *milliseconds = (float)(last->recorded - first->recorded);
    return TDM_OK;
}

/* ---- graphs --------------------------------------------------------------------- */

static tdm_status find_recorder(tdm_ctx *ctx, tdm_device device, const void *stream, struct loaded **on)
{
    tdm_status status = find(ctx, device, on);
    if (status)
        return status;
    if (!calls(*on))
        return fail(TDM_UNSUPPORTED, "graph: got the CPU, want a device with streams");
    return stream ? TDM_OK : fail(TDM_BAD_ARG, "stream: got NULL, want one that was created");
}

tdm_status tdm_graph_begin(tdm_ctx *ctx, tdm_device device, void *stream)
{
    struct loaded *on;
    tdm_status status = find_recorder(ctx, device, stream, &on);
    return status ? status : calls(on)->graph_begin(on->state, device.index, stream);
}

tdm_status tdm_graph_end(tdm_ctx *ctx, tdm_device device, void *stream, tdm_graph **out)
{
    struct loaded *on;
    void *recorded = NULL;
    if (!out)
        return fail(TDM_BAD_ARG, "graph: got NULL, want a place for the graph");
    *out = NULL;
    tdm_status status = find_recorder(ctx, device, stream, &on);
    if (status || (status = calls(on)->graph_end(on->state, device.index, stream, &recorded)))
        return status;
    tdm_graph *graph = ctx_alloc(ctx, sizeof *graph);
    if (!graph) {
        calls(on)->graph_destroy(on->state, device.index, recorded);
        return fail(TDM_NO_MEMORY, "graph: no memory for %zu bytes", sizeof *graph);
    }
    *graph = (tdm_graph){ctx, on, device.index, recorded};
    *out = graph;
    return TDM_OK;
}

tdm_status tdm_graph_run(tdm_graph *graph, void *stream)
{
    if (!graph)
        return fail(TDM_BAD_ARG, "graph: got NULL, want a graph");
    tdm_status status = ctx_check_owner(graph->ctx);
    return status ? status : calls(graph->on)->graph_run(graph->on->state, graph->index, graph->graph, stream);
}

void tdm_graph_destroy(tdm_graph *graph)
{
    if (!graph)
        return;
    calls(graph->on)->graph_destroy(graph->on->state, graph->index, graph->graph);
    ctx_free(graph->ctx, graph);
}
