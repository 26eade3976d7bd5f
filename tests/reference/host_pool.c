#include "host_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Called with the lock held. */
static void work(struct host_pool *pool, int worker)
{
    while (pool->next < pool->n) {
        int64_t i = pool->next++;
        pthread_mutex_unlock(&pool->lock);
        pool->task(pool->arg, i, worker);
        pthread_mutex_lock(&pool->lock);
    }
}

static void *other(void *arg)
{
    struct host_pool *pool = arg;
    pthread_mutex_lock(&pool->lock);
    int worker = ++pool->started;
    pthread_cond_signal(&pool->done);
    for (int64_t seen = 0;; seen = pool->round) {
        while (pool->round == seen && !pool->stop)
            pthread_cond_wait(&pool->wake, &pool->lock);
        if (pool->stop)
            break;
        work(pool, worker);
        if (--pool->working == 0)
            pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static void parallel_for(void *user, int64_t n, tdm_task task, void *arg)
{
    struct host_pool *pool = user;
    pthread_mutex_lock(&pool->lock);
    if (pool->taken) { /* by another thread, or by the task that calls */
        pthread_mutex_unlock(&pool->lock);
        for (int64_t i = 0; i < n; i++)
            task(arg, i, 0);
        return;
    }
    pool->taken = true;
    pool->n = n;
    pool->next = 0;
    pool->task = task;
    pool->arg = arg;
    pool->calls++;
    pool->round++;
    pool->working = pool->workers - 1;
    pthread_cond_broadcast(&pool->wake);
    work(pool, 0);
    while (pool->working > 0)
        pthread_cond_wait(&pool->done, &pool->lock);
    pool->taken = false;
    pthread_mutex_unlock(&pool->lock);
}

void host_pool_start(struct host_pool *pool, int promised, int workers)
{
    memset(pool, 0, sizeof *pool);
    pool->threads = (tdm_threads){promised, parallel_for, pool};
    pool->workers = workers;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    for (int i = 0; i < workers - 1; i++)
        if (pthread_create(&pool->others[i], NULL, other, pool)) {
            perror("host_pool_start");
            exit(EXIT_FAILURE);
        }
    pthread_mutex_lock(&pool->lock);
    while (pool->started < workers - 1)
        pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

void host_pool_stop(struct host_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->workers - 1; i++)
        pthread_join(pool->others[i], NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_cond_destroy(&pool->done);
    pthread_mutex_destroy(&pool->lock);
}
