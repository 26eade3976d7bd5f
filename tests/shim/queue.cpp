#include "queue.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <vector>

using work = std::function<cudaError_t()>;

struct shim_graph {
    std::vector<work> steps;
};

struct shim_stream {
    int device = 0;
    std::deque<work> queue;
    std::unique_ptr<shim_graph> capture;
    uint64_t capture_number = 0; /* no two captures have the same */
    std::thread::id capture_thread;
    bool capture_is_broken = false;
};

/* One recording of an event: what waits for it is not concerned by later ones. */
struct moment {
    shim_stream *stream; /* that reaches it */
    bool reached = false;
    std::chrono::steady_clock::time_point time;
};

struct shim_event {
    int device = 0;
    std::shared_ptr<moment> last;
    uint64_t capture_number = 0; /* of the capture that recorded it last; 0: none did */
};

namespace shim
{

std::recursive_mutex lock;

namespace
{

constexpr int LEAST_MAJOR = 8; /* that kernels are built for, cmake/TandemCuda.cmake */

/* Handles that are alive; a call with any other is refused. */
std::map<shim_stream *, std::unique_ptr<shim_stream>> streams;
std::map<shim_event *, std::unique_ptr<shim_event>> events;
std::map<shim_graph *, std::unique_ptr<shim_graph>> graphs;
std::map<int, shim_stream> default_streams; /* by device */
cudaError_t broken = cudaSuccess;           /* a kernel failed: nothing works any more, as on a GPU */

int current_device()
{
    int device = 0;
    cudaGetDevice(&device);
    return device;
}

shim_stream *find(cudaStream_t stream)
{
    if (!stream) {
        shim_stream *own = &default_streams[current_device()];
        own->device = current_device();
        return own;
    }
    return streams.count(stream) ? stream : nullptr;
}

/* The stream, alive and of the current device. */
cudaError_t use(cudaStream_t stream, shim_stream **used)
{
    *used = find(stream);
    if (!*used || (*used)->device != current_device())
        return cudaErrorInvalidResourceHandle;
    return broken;
}

void step(shim_stream &stream)
{
    work next = std::move(stream.queue.front());
    stream.queue.pop_front();
    broken = next();
}

/* Whose turn it is while somebody waits for the one: streams that nobody waits for may be ahead, or not begin. */
shim_stream &whose_turn(shim_stream &awaited)
{
    std::vector<shim_stream *> busy = {&awaited};
    for (auto &s : streams)
        if (s.first != &awaited && !s.second->queue.empty())
            busy.push_back(s.first);
    return *busy[pick(busy.size())];
}

cudaError_t drain(shim_stream &stream)
{
    while (!stream.queue.empty() && !broken)
        step(whose_turn(stream));
    return broken;
}

bool is_ahead(const moment &m)
{
    return !m.reached && m.stream && !m.stream->queue.empty() && !broken;
}

cudaError_t reach(moment &m)
{
    while (is_ahead(m))
        step(*m.stream);
    return broken;
}

cudaError_t add(shim_stream &stream, work step)
{
    if (stream.capture)
        stream.capture->steps.push_back(std::move(step));
    else
        stream.queue.push_back(std::move(step));
    return cudaSuccess;
}

using locked = std::lock_guard<std::recursive_mutex>;

} // namespace

cudaError_t enqueue(cudaStream_t stream, work step)
{
    const locked held(lock);
    shim_stream *used;
    const cudaError_t error = use(stream, &used);
    return error ? error : add(*used, std::move(step));
}

cudaError_t enqueue_kernel(cudaStream_t stream, kernel k)
{
    if (!is_possible(k))
        return report(cudaErrorInvalidConfiguration);
    cudaDeviceProp properties;
    const cudaError_t error = cudaGetDeviceProperties(&properties, current_device());
    if (error || properties.major < LEAST_MAJOR)
        return report(error ? error : cudaErrorNoKernelImageForDevice);
    return report(enqueue(stream, [k] { return run(k) ? cudaSuccess : cudaErrorLaunchFailure; }));
}

bool is_capturing()
{
    bool found = false;
    for (auto &s : streams)
        if (s.second->capture && s.second->capture_thread == std::this_thread::get_id())
            found = s.second->capture_is_broken = true;
    return found;
}

cudaError_t finish_everything()
{
    for (auto &s : streams)
        drain(*s.second);
    for (auto &s : default_streams)
        drain(s.second);
    return broken;
}

void recover()
{
    broken = cudaSuccess;
    for (auto &s : streams)
        s.second->queue.clear();
    for (auto &s : default_streams)
        s.second.queue.clear();
}

int living_handles()
{
    return static_cast<int>(streams.size() + events.size() + graphs.size());
}

} // namespace shim

using namespace shim;

/* ---- streams ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    const locked held(lock);
    if (flags != cudaStreamNonBlocking)
        return report(cudaErrorInvalidValue);
    auto made = std::make_unique<shim_stream>();
    made->device = current_device();
    *stream = made.get();
    streams[*stream] = std::move(made);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    const locked held(lock);
    if (!streams.count(stream))
        return report(cudaErrorInvalidResourceHandle);
    drain(*stream);
    for (auto &event : events)
        if (event.second->last && event.second->last->stream == stream)
            event.second->last->stream = nullptr;
    streams.erase(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    const locked held(lock);
    shim_stream *used;
    cudaError_t error = use(stream, &used);
    if (!error && used->capture) {
        used->capture_is_broken = true;
        error = cudaErrorStreamCaptureUnsupported;
    }
    return report(error ? error : drain(*used));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    const locked held(lock);
    shim_stream *used;
    cudaError_t error = use(stream, &used);
    if (!error && (!events.count(event) || flags))
        error = cudaErrorInvalidResourceHandle;
    if (error)
        return report(error);
    const uint64_t capture = used->capture ? used->capture_number : 0;
    if (event->capture_number == capture && capture)
        return cudaSuccess; /* a graph of one stream has its order */
    if (event->capture_number || (capture && event->last)) {
        used->capture_is_broken = true; /* it would wait for what is not of its graph */
        return report(cudaErrorStreamCaptureIsolation);
    }
    if (!event->last)
        return cudaSuccess;
    return add(*used, [awaited = event->last] { return reach(*awaited); });
}

/* ---- graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode)
{
    const locked held(lock);
    shim_stream *used;
    cudaError_t error = use(stream, &used);
    if (!error && (!stream || used->capture))
        error = cudaErrorStreamCaptureUnsupported;
    if (error)
        return report(error);
    static uint64_t captures = 0;
    used->capture = std::make_unique<shim_graph>();
    used->capture_number = ++captures;
    used->capture_thread = std::this_thread::get_id();
    used->capture_is_broken = false;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    const locked held(lock);
    shim_stream *used;
    *graph = nullptr;
    const cudaError_t error = use(stream, &used);
    if (error || !used->capture)
        return report(error ? error : cudaErrorInvalidValue);
    if (used->capture_thread != std::this_thread::get_id())
        return report(cudaErrorStreamCaptureWrongThread);
    auto recorded = std::move(used->capture);
    if (used->capture_is_broken)
        return report(cudaErrorStreamCaptureInvalidated);
    *graph = recorded.get();
    graphs[*graph] = std::move(recorded);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags)
{
    const locked held(lock);
    if (!graphs.count(graph) || flags)
        return report(cudaErrorInvalidValue);
    auto copy = std::make_unique<shim_graph>(*graph);
    *executable = copy.get();
    graphs[*executable] = std::move(copy);
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
    const locked held(lock);
    shim_stream *used;
    const cudaError_t error = use(stream, &used);
    if (error || !graphs.count(executable))
        return report(error ? error : cudaErrorInvalidValue);
    for (const work &step : executable->steps)
        add(*used, step);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable)
{
    const locked held(lock);
    return graphs.erase(executable) ? cudaSuccess : report(cudaErrorInvalidValue);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    const locked held(lock);
    return graphs.erase(graph) ? cudaSuccess : report(cudaErrorInvalidValue);
}

/* ---- events ---- */

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    const locked held(lock);
    auto made = std::make_unique<shim_event>();
    made->device = current_device();
    *event = made.get();
    events[*event] = std::move(made);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    const locked held(lock);
    if (!events.count(event))
        return report(cudaErrorInvalidResourceHandle);
    events.erase(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    const locked held(lock);
    shim_stream *used;
    cudaError_t error = use(stream, &used);
    if (!error && (!events.count(event) || event->device != used->device))
        error = cudaErrorInvalidResourceHandle;
    if (error)
        return report(error);
    event->capture_number = used->capture ? used->capture_number : 0;
    if (used->capture)
        return cudaSuccess; /* a graph records no event when it runs */
    event->last = std::make_shared<moment>();
    event->last->stream = used;
    return add(*used, [reached = event->last] {
        reached->reached = true;
        reached->time = std::chrono::steady_clock::now();
        return cudaSuccess;
    });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    const locked held(lock);
    if (!events.count(event))
        return report(cudaErrorInvalidResourceHandle);
    if (event->capture_number)
        return report(cudaErrorCapturedEvent);
    while (event->last && is_ahead(*event->last))
        step(whose_turn(*event->last->stream));
    return report(broken);
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t first, cudaEvent_t last)
{
    const locked held(lock);
    for (const cudaEvent_t event : {first, last})
        if (!events.count(event) || (!event->last && !event->capture_number))
            return report(cudaErrorInvalidResourceHandle);
        else if (event->capture_number)
            return report(cudaErrorCapturedEvent);
    if (!first->last->reached || !last->last->reached)
        return report(cudaErrorNotReady);
    *milliseconds = std::chrono::duration<float, std::milli>(last->last->time - first->last->time).count();
    return cudaSuccess;
}
