/* device.h - one device: its memory, its stream, how values cross to it and back, and where its time goes.
 *
 * Work is enqueued on the one stream and waited for in device_sync alone. On the CPU host memory is device memory: the
 * stream is NULL, a buffer is one piece of memory, and nothing is copied. */
#ifndef DEVICE_H
#define DEVICE_H

#include "error.h"

/* What the time of a device goes into. */
typedef enum part { MATMULS, ATTENTION, COPIES_IN, COPIES_OUT, PARTS } part;

enum { MAX_LAPS = 8 };

/* Half of a pinned buffer through which the host's memory goes to a GPU: one is filled while the other is copied. */
typedef struct stage {
    void *bytes;
    tdm_mark *copied;
} stage;

typedef struct device {
    tdm_ctx *ctx;
    tdm_device id;
    char name[128];
    void *stream;
    size_t bytes; /* of device memory in use */
    struct piece *pieces;
    size_t piece_count;
    stage stages[2];
    int stage; /* the one filled last */
    tdm_mark *marks[MAX_LAPS + 1];
    part laps[MAX_LAPS]; /* what lies between a mark and the next */
    int lap_count;
    double seconds[PARTS];
} device;

/* Fails with the device's own reason when it is absent. */
bool device_open(device *d, tdm_ctx *ctx, tdm_device_kind kind, error *err);

/* Wait, and free all memory of the device. Ops and workspaces that use it must be gone. */
void device_close(device *d);

/* Memory that lives until the device is closed; `what` it is for begins the message of a failure. */
bool device_alloc(device *d, size_t bytes, const char *what, void **pointer, error *err);

/* A copy of the host's values in such memory, there for what is enqueued from here on; the host's own may go. */
bool device_place(device *d, const void *values, size_t bytes, const char *what, void **pointer, error *err);

/* Workspaces for ops that run one after another on the stream: they share memory. NULL where an op wants none. */
bool device_workspaces(device *d, tdm_op *const *ops, int count, tdm_workspace **workspaces, error *err);

/* Values that cross: the host knows them at `host`, which is pinned, and the device at `there`. */
typedef struct buffer {
    void *host, *there;
} buffer;

bool device_buffer(device *d, size_t bytes, buffer *b, error *err);

/* Begin to take the time of what is enqueued from here on. */
bool device_start(device *d, error *err);

/* Say what has been enqueued since the start or the last lap. */
bool device_lap(device *d, part what, error *err);

/* Enqueue a copy of the buffer's first bytes to the device, or back; a lap each. */
bool device_send(device *d, const buffer *b, size_t bytes, error *err);
bool device_fetch(device *d, const buffer *b, size_t bytes, error *err);

/* Wait until everything is done, and add up the laps. */
bool device_sync(device *d, error *err);

#endif
