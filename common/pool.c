#include "pool.h"

#include "error.h"

#include <fenv.h>
#include <pthreadpool.h>

/* Items are claimed one by one, so that a slow core does not hold up the others. */
struct share {
    int64_t n;
    atomic_llong next;
    tdm_task task;
    void *arg;
    atomic_int done; /* lanes */
};

static void work(struct share *share, int worker)
{
    fenv_t caller;
    fegetenv(&caller);
    fesetenv(FE_DFL_ENV);
    int64_t i;
    while ((i = atomic_fetch_add_explicit(&share->next, 1, memory_order_relaxed)) < share->n)
        share->task(share->arg, i, worker);
    fesetenv(&caller);
}

/* The pool's own synchronisation orders memory; ours beside it is what ThreadSanitizer, which does not see into
 * pthreadpool, can follow. */
static void own_lane(void *arg, size_t lane)
{
    struct pool *pool = arg;
    struct share *share = atomic_load_explicit(&pool->share, memory_order_acquire);
    work(share, (int)lane);
    atomic_fetch_add_explicit(&share->done, 1, memory_order_release);
}

static void host_lane(void *arg, int64_t lane, int worker)
{
    (void)worker; /* lanes are numbered by themselves: right even if the host's workers are not */
    work(arg, (int)lane);
}

static void rest(void *arg, size_t lane)
{
    (void)arg, (void)lane;
}

tdm_status pool_open(struct pool *pool, int threads, const tdm_threads *host)
{
    pool->threads = host ? host->threads : threads;
    pool->host = host ? *host : (tdm_threads){0};
    pool->own = NULL;
    atomic_flag_clear(&pool->busy);
    if (host || threads == 1)
        return TDM_OK;
    pool->own = pthreadpool_create((size_t)threads);
    if (!pool->own)
        return fail(TDM_NO_MEMORY, "threads: could not start %d threads", threads);
    /* New workers spin until their first command: give them one that sends them to sleep. */
    pthreadpool_parallelize_1d(pool->own, rest, NULL, (size_t)threads, PTHREADPOOL_FLAG_YIELD_WORKERS);
    return TDM_OK;
}

void pool_close(struct pool *pool)
{
    if (pool->own)
        pthreadpool_destroy(pool->own);
    pool->own = NULL;
}

void pool_for(struct pool *pool, int64_t n, tdm_task task, void *arg)
{
    struct share share = {.n = n, .task = task, .arg = arg};
    int64_t lanes = n < pool->threads ? n : pool->threads;
    if (lanes <= 1 || atomic_flag_test_and_set_explicit(&pool->busy, memory_order_acquire)) {
        work(&share, 0);
        return;
    }
    if (pool->own) {
        atomic_store_explicit(&pool->share, &share, memory_order_release);
        /* The flag sends workers to sleep as soon as they are done: they never spin after a run. */
        pthreadpool_parallelize_1d(pool->own, own_lane, pool, (size_t)lanes, PTHREADPOOL_FLAG_YIELD_WORKERS);
        atomic_load_explicit(&share.done, memory_order_acquire);
    } else {
        pool->host.parallel_for(pool->host.user, lanes, host_lane, &share);
    }
    atomic_flag_clear_explicit(&pool->busy, memory_order_release);
}
