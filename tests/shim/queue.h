/* Streams: queues whose work is done when somebody waits for it, and no sooner, so that a host that forgets to wait
 * sees what was there before. */
#ifndef TESTS_SHIM_QUEUE_H
#define TESTS_SHIM_QUEUE_H

#include "block.h"

#include <cuda_runtime_api.h>
#include <mutex>

namespace shim
{

/* Held by every call: one at a time. */
extern std::recursive_mutex lock;

/* Enqueue work on a stream of the current device, or record it in the graph that the stream captures. */
cudaError_t enqueue(cudaStream_t stream, std::function<cudaError_t()> work);
cudaError_t enqueue_kernel(cudaStream_t stream, kernel k);

/* Do all that is enqueued anywhere. */
cudaError_t finish_everything();

/* After a kernel failed nothing works any more, as on a GPU. Go on as if a process began, without what is enqueued. */
void recover();

/* Whether this thread captures a stream: then it may not allocate, and to try spoils the capture. */
bool is_capturing();

/* Streams and events that were not destroyed. */
int living_handles();

/* Remember the error for cudaGetLastError, and return it. */
cudaError_t report(cudaError_t error);

} // namespace shim
#endif
