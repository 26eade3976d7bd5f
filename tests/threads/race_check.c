/* Threads of a host that share a context and its ops: the same bits as one thread gives, and no race. */
#include "load.h"
#include "tests/reference/host_pool.h"

#include <pthread.h>
#include <stdio.h>

enum { HOSTS = 4, ROUNDS = 8 };

static struct load_job want;
static struct load_ops shared;

static void *run_shared(void *unused)
{
    struct load_job job;
    load_expect(!load_job_start(&shared, &job), tdm_last_error());
    for (int i = 0; i < ROUNDS; i++) {
        load_expect(!load_job_run(&shared, &job), tdm_last_error());
        load_expect(load_job_same(&job, &want), "a shared op gave other bits than one thread");
    }
    load_job_end(&job);
    return unused;
}

static void *run_own(void *arg)
{
    for (int i = 0; i < ROUNDS / 2; i++) {
        struct load_ops ops;
        struct load_job job;
        tdm_ctx *ctx = load_open(*(const int *)arg, NULL);
        load_expect(!load_create(ctx, &ops), tdm_last_error());
        load_expect(!load_job_start(&ops, &job), tdm_last_error());
        load_expect(!load_job_run(&ops, &job), tdm_last_error());
        load_expect(load_job_same(&job, &want), "a context of its own gave other bits than one thread");
        load_job_end(&job);
        load_destroy(&ops);
        tdm_close(ctx);
    }
    return NULL;
}

static void on_threads(void *(*work)(void *), void *arg)
{
    pthread_t threads[HOSTS];
    for (int i = 0; i < HOSTS; i++)
        load_expect(!pthread_create(&threads[i], NULL, work, arg), "pthread_create");
    for (int i = 0; i < HOSTS; i++)
        pthread_join(threads[i], NULL);
}

static void task(void *arg, int64_t i, int worker)
{
    (void)i, (void)worker;
    run_shared(arg);
}

/* One context for several threads of the host. */
static void share(int threads, const tdm_threads *host)
{
    tdm_ctx *ctx = load_open(threads, host);
    load_expect(!load_create(ctx, &shared), tdm_last_error());
    on_threads(run_shared, NULL);
    load_destroy(&shared);
    tdm_close(ctx);
}

/* Runs inside the tasks of the very pool that the context was given. */
static void nest(struct host_pool *pool)
{
    tdm_ctx *ctx = load_open(0, &pool->threads);
    load_expect(!load_create(ctx, &shared), tdm_last_error());
    pool->threads.parallel_for(pool->threads.user, HOSTS, task, NULL);
    load_destroy(&shared);
    tdm_close(ctx);
}

/* A plugin that is not there is looked for once, by whoever comes first. */
static void *look_for_gpu(void *ctx)
{
    tdm_device_info info = TDM_INIT(tdm_device_info);
    load_expect(!tdm_device_get(ctx, (tdm_device){TDM_CUDA, 0}, &info) && !info.present && info.reason[0],
                "the device that is absent has no reason");
    return NULL;
}

int main(void)
{
    struct host_pool pool;
    int threads = 3;
    want = load_serial();
    host_pool_start(&pool, 4, 4);
    share(4, NULL);
    share(0, &pool.threads);
    nest(&pool);
    on_threads(run_own, &threads);
    tdm_ctx *ctx = load_open(2, NULL);
    on_threads(look_for_gpu, ctx);
    tdm_close(ctx);
    host_pool_stop(&pool);
    load_job_end(&want);
    puts("race_check: shared ops, nested runs and concurrent contexts give the same bits");
    return 0;
}
