/* What the files of the CUDA backend share: its state, its devices, and how a driver's error becomes a status. */
#ifndef CUDA_CUDA_H
#define CUDA_CUDA_H

#include "common/backend.h"

#include <cuda_runtime_api.h>

enum { MAX_DEVICES = 16, LEAST_MAJOR = 8 }; /* kernels are built for compute capability 8.0 and later */

struct cuda_device {
    char name[128];
    int major, minor, multiprocessors;
    int64_t memory, l2;
};

struct cuda_state {
    const struct services *services;
    int device_count;
    struct cuda_device device[MAX_DEVICES];
    struct blas *blas; /* the library's functions, NULL: absent, see blas_reason */
    char blas_reason[REASON_SIZE];
};

/* Scratch of one run in flight. */
struct cuda_scratch {
    void *memory; /* op->workspace bytes on the device, NULL when that is 0 */
    bool owned;
    void *blas; /* a handle of cuBLAS, NULL when no row of the op calls it */
};

/* Make device `index` the calling thread's; *before is what cuda_leave then restores. */
cudaError_t cuda_enter(int index, int *before);
void cuda_leave(int before);

/* TDM_OK, NO_MEMORY or DEVICE_ERROR with the driver's text after `what`, or BAD_ARG for the caller's mistakes: a stream
 * that is not the device's, what a recording forbids, memory registered twice or never. The driver forgets the error. */
tdm_status cuda_status(const struct services *services, cudaError_t error, const char *what);

static inline const struct cuda_device *cuda_device_of(const struct tdm_op *op)
{
    return &((const struct cuda_state *)op->state)->device[op->device.index];
}

/* Whether the kernels of this library run on the op's device; what every row asks first. */
bool cuda_fits_device(const struct tdm_op *op, char *reason);

/* Enqueue what `launch` enqueues, on the op's device. */
typedef cudaError_t cuda_launch(const struct tdm_op *op, const struct run *run);
tdm_status cuda_run(const struct tdm_op *op, const struct run *run, cuda_launch *launch);

/* memory.c */
tdm_status cuda_alloc(void *state, int index, tdm_memory kind, size_t bytes, void **pointer);
void cuda_free(void *state, int index, tdm_memory kind, void *pointer);
tdm_status cuda_copy(void *state, tdm_device to, void *dst, tdm_device from, const void *src, size_t bytes,
                     void *stream);
tdm_status cuda_host_register(void *state, int index, void *pointer, size_t bytes);
tdm_status cuda_host_unregister(void *state, int index, void *pointer);

/* scratch.c */
tdm_status cuda_scratch_open(const struct tdm_op *op, void *memory, void **scratch);
void cuda_scratch_close(const struct tdm_op *op, void *scratch);

/* streams.c */
extern const struct stream_calls cuda_streams;

/* vendor.c */
extern const struct vendor_calls cuda_vendor;

#endif
