/* The host's threads: fewer than promised, none but the caller's, real ones, and what a nested call gets. */
#include "tests/ops/indices.h"
#include "tests/reference/host_pool.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

static const char *const no_environment[] = {NULL};

static void open_on(struct world *world, const tdm_threads *host, int threads)
{
    world_init(world);
    tdm_options options = TDM_INIT(tdm_options);
    options.threads = threads;
    options.host = host;
    options.env = no_environment;
    cr_assert(!tdm_open(TDM_VERSION, &options, &world->ctx), "%s", tdm_last_error());
}

/* The memory after all ops. */
static struct memory *results(struct world *world)
{
    cr_assert(!world_run_all(world), "%s", tdm_last_error());
    return memcpy(malloc(sizeof world->memory), &world->memory, sizeof world->memory);
}

static void expect_same(const tdm_threads *host, const char *what)
{
    struct world one, many;
    open_on(&one, NULL, 1);
    open_on(&many, host, 0);
    struct memory *want = results(&one), *got = results(&many);
    cr_expect(!memcmp(want, got, sizeof *want), "%s: other bits than one thread", what);
    free(want);
    free(got);
    world_close(&one);
    world_close(&many);
}

struct serial {
    int calls, worker;
};

static void serial_for(void *user, int64_t n, tdm_task task, void *arg)
{
    struct serial *serial = user;
    serial->calls++;
    for (int64_t i = 0; i < n; i++)
        task(arg, i, serial->worker);
}

static void backward_for(void *user, int64_t n, tdm_task task, void *arg)
{
    struct serial *serial = user;
    serial->calls++;
    for (int64_t i = n - 1; i >= 0; i--)
        task(arg, i, serial->worker);
}

/* A pool of eight that uses one, which may be the last; the order of items is its own. */
Test(pool, serial)
{
    struct serial serial = {0, 0}, last = {0, 7};
    tdm_threads forward = {8, serial_for, &serial}, backward = {8, backward_for, &last};
    expect_same(&forward, "one worker");
    expect_same(&backward, "the last worker, backward");
    cr_expect(serial.calls > 0 && last.calls > 0, "the host's pool was not used");
}

TEST_EACH(pool, real_threads, 5)
{
    static const struct {
        int promised, workers;
    } pools[] = {{1, 1}, {2, 2}, {7, 7}, {16, 3}, {1024, 2}};
    struct host_pool pool;
    host_pool_start(&pool, pools[*at].promised, pools[*at].workers);
    expect_same(&pool.threads, "a host pool");
    cr_expect(pools[*at].promised == 1 || pool.calls > 0, "the host's pool was not used");
    host_pool_stop(&pool);
}

Test(pool, own_threads)
{
    static const int counts[] = {1, 2, 7, 64};
    struct world one;
    open_on(&one, NULL, 1);
    struct memory *want = results(&one);
    for (int i = 0; i < 4; i++) {
        struct world many;
        open_on(&many, NULL, counts[i]);
        struct memory *got = results(&many);
        cr_expect(!memcmp(want, got, sizeof *want), "%d threads give other bits", counts[i]);
        free(got);
        world_close(&many);
    }
    free(want);
    world_close(&one);
}

/* ---- a run inside a task of the host ------------------------------------------------------ */

struct nested {
    struct world *worlds; /* one for each task, on one context and one set of ops */
    tdm_status status[4];
};

static void nested_task(void *arg, int64_t i, int worker)
{
    (void)worker;
    struct nested *nested = arg;
    nested->status[i] = world_run(&nested->worlds[i], GQA);
}

/* The pool is taken by the host itself: each run inside one of its tasks goes on serially and gives the same. */
Test(pool, inside_a_task_of_the_host)
{
    struct host_pool pool;
    host_pool_start(&pool, 4, 4);
    struct world world, *worlds = calloc(4, sizeof *worlds);
    open_on(&world, NULL, 4);
    cr_assert(!world_make(&world, GQA));
    cr_assert(!world_run(&world, GQA));
    for (int i = 0; i < 4; i++) {
        world_init(&worlds[i]);
        worlds[i].op = world.op;
        worlds[i].args = &worlds[i].gqa_args;
        cr_assert(!tdm_workspace_create(world.op, NULL, 0, &worlds[i].workspace));
    }
    struct nested nested = {worlds, {TDM_NO_DEVICE, TDM_NO_DEVICE, TDM_NO_DEVICE, TDM_NO_DEVICE}};
    pool.threads.parallel_for(pool.threads.user, 4, nested_task, &nested);
    for (int i = 0; i < 4; i++) {
        cr_expect_eq(nested.status[i], TDM_OK, "task %d", i);
        cr_expect(!memcmp(&worlds[i].memory, &world.memory, sizeof world.memory), "task %d has other bits", i);
        tdm_workspace_destroy(worlds[i].workspace);
    }
    free(worlds);
    world_close(&world);
    host_pool_stop(&pool);
}
