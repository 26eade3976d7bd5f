#include "turns.h"

#include "options.h"

#define BATCH_SECONDS 1e-3
#define MAX_BATCH 64

struct batch {
    const struct turns *turns;
    int count;
    tdm_graph *graph; /* NULL: plain runs */
    tdm_mark *first, *last;
};

static tdm_status enqueue_each(const struct batch *batch)
{
    const struct turns *turns = batch->turns;
    tdm_status status = TDM_OK;
    for (int i = 0; i < batch->count && !status; i++)
        status = turns->enqueue(turns->arg, turns->stream, i % turns->copies);
    return status;
}

/* Run the batch; *seconds is the mean of a turn. */
static tdm_status time_batch(const struct batch *batch, double *seconds)
{
    void *stream = batch->turns->stream;
    float milliseconds = 0;
    tdm_status status = tdm_mark_record(batch->first, stream);
    if (!status)
        status = batch->graph ? tdm_graph_run(batch->graph, stream) : enqueue_each(batch);
    if (!status)
        status = tdm_mark_record(batch->last, stream);
    if (!status)
        status = tdm_mark_sync(batch->last);
    if (!status)
        status = tdm_mark_elapsed(batch->first, batch->last, &milliseconds);
    *seconds = milliseconds * 1e-3 / batch->count;
    return status;
}

/* Choose how many turns fit a batch, by the time of a single one, and record them. */
static tdm_status prepare(struct batch *batch)
{
    const struct turns *turns = batch->turns;
    double one;
    batch->count = 1;
    tdm_status status = time_batch(batch, &one);
    if (status)
        return status;
    int fit = one * MAX_BATCH < BATCH_SECONDS ? MAX_BATCH : (int)(BATCH_SECONDS / one);
    batch->count = (fit / turns->copies + 1) * turns->copies;
    if (tdm_graph_begin(turns->ctx, turns->device, turns->stream))
        return TDM_OK;
    bool recorded = !enqueue_each(batch);
    recorded = !tdm_graph_end(turns->ctx, turns->device, turns->stream, &batch->graph) && recorded;
    if (!recorded) {
        tdm_graph_destroy(batch->graph);
        batch->graph = NULL;
    }
    return TDM_OK;
}

static int time_batches(const struct batch *batch, double *seconds)
{
    const struct turns *turns = batch->turns;
    int n = 0, limit = turns->repeat ? (int)turns->repeat : MAX_REPEATS;
    double spent = 0, ignored;
    if (time_batch(batch, &ignored)) /* the first run of a graph sets it up */
        return 0;
    for (; n < limit && (turns->repeat || n < MIN_REPEATS || spent < MAX_SECONDS); n++) {
        if (time_batch(batch, &seconds[n]))
            return 0;
        spent += seconds[n] * batch->count;
    }
    return n;
}

int turns_time(const struct turns *turns, double *seconds, const char **how)
{
    struct batch batch = {.turns = turns};
    int n = 0;
    tdm_status status = tdm_mark_create(turns->ctx, turns->device, &batch.first);
    if (!status)
        status = tdm_mark_create(turns->ctx, turns->device, &batch.last);
    for (int64_t i = 0; i < turns->warmup && !status; i++)
        status = turns->enqueue(turns->arg, turns->stream, (int)(i % turns->copies));
    if (!status)
        status = prepare(&batch);
    if (!status)
        n = time_batches(&batch, seconds);
    *how = batch.graph ? "graph" : "runs";
    tdm_graph_destroy(batch.graph);
    tdm_mark_destroy(batch.first);
    tdm_mark_destroy(batch.last);
    return n;
}
