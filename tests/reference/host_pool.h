/* Threads of a host: real ones, as a tdm_threads. A call that finds them taken runs on its own thread. */
#ifndef TESTS_REFERENCE_HOST_POOL_H
#define TESTS_REFERENCE_HOST_POOL_H

#include "tandem.h"

#include <pthread.h>
#include <stdbool.h>

enum { HOST_THREADS = 16 };

struct host_pool {
    tdm_threads threads; /* what tdm_options.host takes */
    int workers;         /* threads that there are: the caller's and workers - 1 others */
    int64_t calls;       /* of parallel_for */
    pthread_t others[HOST_THREADS];
    int started;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    int64_t round; /* counts calls, so that a worker knows a new one */
    bool stop, taken;
    int working;
    int64_t n, next;
    tdm_task task;
    void *arg;
};

/* Promise `promised` workers and have `workers` of them. Exits when threads cannot be started. */
void host_pool_start(struct host_pool *pool, int promised, int workers);
void host_pool_stop(struct host_pool *pool);

#endif
