/* Timing on a device that works on while its caller goes on: by marks around many turns of one thing. */
#ifndef BENCH_TURNS_H
#define BENCH_TURNS_H

#include "tandem.h"

/* When --repeat leaves it to us: */
#define MIN_REPEATS 5
#define MAX_SECONDS 0.5

/* Something that a stream does again and again, on `copies` of its memory in turn. */
struct turns {
    tdm_ctx *ctx;
    tdm_device device;
    void *stream;
    int copies;
    tdm_status (*enqueue)(const void *arg, void *stream, int copy);
    const void *arg;
    int64_t warmup, repeat; /* as the options of these names: repeat 0 is MAX_SECONDS, at least MIN_REPEATS */
};

/* Fill `seconds`, of MAX_REPEATS or more, with the mean times of a turn, each over a batch of neighbouring turns;
 * returns how many, or 0 after a failure. A batch is about a millisecond long and ends with the last copy. *how says
 * how it was enqueued: as a "graph", or by "runs" where none can be made. */
int turns_time(const struct turns *turns, double *seconds, const char **how);

#endif
