/* Threads: the host's, or our own by pthreadpool. One parallel_for runs at a time; whoever comes while it is
 * taken, a nested call or another thread, runs serially on its own thread at once. */
#ifndef COMMON_POOL_H
#define COMMON_POOL_H

#include "tandem.h"

#include <stdatomic.h>

struct pool {
    int threads;
    tdm_threads host;              /* parallel_for is NULL when the pool is our own */
    void *own;                     /* pthreadpool_t; NULL with one thread            */
    _Atomic(struct share *) share; /* the run that the workers of our own pool are in */
    atomic_flag busy;
};

/* NO_MEMORY when the threads cannot be started. */
tdm_status pool_open(struct pool *pool, int threads, const tdm_threads *host);
void pool_close(struct pool *pool);

/* task(arg, i, worker) for each i in [0, n), 0 <= worker < pool->threads, under the default floating-point
 * state (nearest, denormals kept); the caller's state is restored. */
void pool_for(struct pool *pool, int64_t n, tdm_task task, void *arg);

#endif
