/* Streams, marks (events of the driver, with their time) and graphs. */
#include "cuda.h"

/* Leave the device and turn the error into a status. */
static tdm_status finish(void *opaque, int before, cudaError_t error, const char *what)
{
    cuda_leave(before);
    return cuda_status(((struct cuda_state *)opaque)->services, error, what);
}

static tdm_status stream_create(void *state, int index, void **stream)
{
    int before;
    cudaError_t error = cuda_enter(index, &before);
    if (!error)
        error = cudaStreamCreateWithFlags((cudaStream_t *)stream, cudaStreamNonBlocking);
    return finish(state, before, error, "stream");
}

static void stream_destroy(void *state, int index, void *stream)
{
    int before;
    (void)state;
    if (!cuda_enter(index, &before))
        cudaStreamDestroy(stream);
    cuda_leave(before);
}

static tdm_status stream_sync(void *state, int index, void *stream)
{
    int before;
    cudaError_t error = cuda_enter(index, &before);
    if (!error)
        error = cudaStreamSynchronize(stream);
    return finish(state, before, error, "stream");
}

static tdm_status mark_create(void *state, int index, void **mark)
{
    int before;
    cudaError_t error = cuda_enter(index, &before);
    if (!error)
        error = cudaEventCreate((cudaEvent_t *)mark);
    return finish(state, before, error, "mark");
}

static void mark_destroy(void *state, int index, void *mark)
{
    int before;
    (void)state;
    if (!cuda_enter(index, &before))
        cudaEventDestroy(mark);
    cuda_leave(before);
}

static tdm_status mark_record(void *state, int index, void *mark, void *stream)
{
    int before;
    cudaError_t error = cuda_enter(index, &before);
    if (!error)
        error = cudaEventRecord(mark, stream);
    return finish(state, before, error, "mark");
}

static tdm_status mark_sync(void *state, int index, void *mark)
{
    int before;
    cudaError_t error = cuda_enter(index, &before);
    if (!error)
        error = cudaEventSynchronize(mark);
    return finish(state, before, error, "mark");
}

static tdm_status mark_wait(void *state, int index, void *mark, void *stream)
{
    int before;
    cudaError_t error = cuda_enter(index, &before);
    if (!error)
        error = cudaStreamWaitEvent(stream, mark, 0);
    return finish(state, before, error, "mark");
}

static tdm_status mark_elapsed(void *opaque, int index, void *first, void *last, float *milliseconds)
{
    struct cuda_state *state = opaque;
    int before;
    cudaError_t error = cuda_enter(index, &before);
    if (!error)
        error = cudaEventElapsedTime(milliseconds, first, last);
    bool is_unreached = error == cudaErrorNotReady || error == cudaErrorCapturedEvent || /* not yet, or in a graph */
                        error == cudaErrorInvalidResourceHandle;
    if (!is_unreached)
        return finish(state, before, error, "mark");
    cuda_leave(before);
    cudaGetLastError();
    return state->services->fail(TDM_BAD_ARG, "last: got a mark that is not reached, want one that is");
}

static tdm_status graph_begin(void *state, int index, void *stream)
{
    int before;
    cudaError_t error = cuda_enter(index, &before);
    if (!error)
        error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    return finish(state, before, error, "graph");
}

static tdm_status graph_end(void *state, int index, void *stream, void **graph)
{
    int before;
    cudaGraph_t recorded = NULL;
    cudaError_t error = cuda_enter(index, &before);
    if (!error)
        error = cudaStreamEndCapture(stream, &recorded);
    if (!error)
        error = cudaGraphInstantiate((cudaGraphExec_t *)graph, recorded, 0);
    if (recorded)
        cudaGraphDestroy(recorded);
    return finish(state, before, error == cudaErrorInvalidValue ? cudaErrorStreamCaptureUnmatched : error, "stream");
}

static tdm_status graph_run(void *state, int index, void *graph, void *stream)
{
    int before;
    cudaError_t error = cuda_enter(index, &before);
    if (!error)
        error = cudaGraphLaunch(graph, stream);
    return finish(state, before, error, "graph");
}

static void graph_destroy(void *state, int index, void *graph)
{
    int before;
    (void)state;
    if (!cuda_enter(index, &before))
        cudaGraphExecDestroy(graph);
    cuda_leave(before);
}

const struct stream_calls cuda_streams = {
    stream_create, stream_destroy, stream_sync, mark_create, mark_destroy, mark_record,   mark_sync,
    mark_wait,     mark_elapsed,   graph_begin, graph_end,   graph_run,    graph_destroy,
};
