/* A caller that flushes denormals and rounds upward gets the same bits as anybody, and its own state back. */
#include "load.h"
#include "tests/reference/host_pool.h"

#include <fenv.h>
#include <stdio.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
enum { FLUSH = 0x8040 }; /* FTZ and DAZ */
#define GET_CONTROL(word) ((word) = _mm_getcsr())
#define SET_CONTROL(word) _mm_setcsr(word)
#elif defined(__aarch64__)
#include <fpu_control.h>
enum { FLUSH = 1 << 24 }; /* FZ */
#define GET_CONTROL(word) _FPU_GETCW(word)
#define SET_CONTROL(word) _FPU_SETCW(word)
#else
enum { FLUSH = 0 };
#define GET_CONTROL(word) ((word) = 0)
#define SET_CONTROL(word) (void)(word)
#endif

/* What the caller set, as far as it can be read back. */
struct state {
    int rounding;
    unsigned flush;
};

static struct state state_read(void)
{
    unsigned word;
    GET_CONTROL(word);
    return (struct state){fegetround(), word & FLUSH};
}

static void state_disturb(void)
{
    unsigned word;
    fesetround(FE_UPWARD);
    GET_CONTROL(word);
    SET_CONTROL(word | FLUSH);
}

/* Open, create and run in a disturbed state, on threads that inherited it. */
static void check(int threads, const tdm_threads *host, const struct load_job *want)
{
    struct load_ops ops;
    struct load_job job;
    fenv_t before;
    fegetenv(&before);
    state_disturb();
    struct state disturbed = state_read();
    tdm_ctx *ctx = load_open(threads, host);
    tdm_status created = load_create(ctx, &ops);
    fesetenv(&before);
    load_expect(!created, tdm_last_error());
    load_expect(!load_job_start(&ops, &job), tdm_last_error()); /* its data in the state of all others */
    state_disturb();
    tdm_status ran = load_job_run(&ops, &job);
    struct state after = state_read();
    fesetenv(&before);
    load_expect(!ran, tdm_last_error());
    load_expect(after.rounding == disturbed.rounding && after.flush == disturbed.flush, "the caller's state changed");
    load_expect(load_job_same(&job, want), "the caller's floating-point state changed the results");
    load_job_end(&job);
    load_destroy(&ops);
    tdm_close(ctx);
}

int main(void)
{
    struct load_job want = load_serial();
    struct host_pool pool;
    fenv_t before;
    fegetenv(&before);
    state_disturb();
    host_pool_start(&pool, 3, 3);
    fesetenv(&before);
    check(1, NULL, &want);
    check(3, NULL, &want);
    check(0, &pool.threads, &want);
    host_pool_stop(&pool);
    load_job_end(&want);
    puts("fpstate_check: same bits, same state");
    return 0;
}
