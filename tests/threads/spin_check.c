/* The library's threads sleep when there is nothing to do: right after open, and right after a run. */
#include "load.h"

#include <stdio.h>
#include <time.h>

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The processor time that all threads of the process take while this one sleeps, in percent of that time. */
static double idle_percent(void)
{
    double wall = seconds(CLOCK_MONOTONIC), busy = seconds(CLOCK_PROCESS_CPUTIME_ID);
    nanosleep(&(struct timespec){0, 200000000}, NULL);
    return 100 * (seconds(CLOCK_PROCESS_CPUTIME_ID) - busy) / (seconds(CLOCK_MONOTONIC) - wall);
}

int main(void)
{
    struct load_ops ops;
    struct load_job job;
    tdm_ctx *ctx = load_open(4, NULL);
    double after_open = idle_percent(), after_run = 0;
    load_expect(!load_create(ctx, &ops), tdm_last_error());
    load_expect(!load_job_start(&ops, &job), tdm_last_error());
    for (int i = 0; i < 3; i++) {
        load_expect(!load_job_run(&ops, &job), tdm_last_error());
        double percent = idle_percent();
        after_run = percent > after_run ? percent : after_run;
    }
    load_job_end(&job);
    load_destroy(&ops);
    tdm_close(ctx);
    printf("spin_check: idle threads take %.2f %% after open and %.2f %% after a run\n", after_open, after_run);
    load_expect(after_open < 5 && after_run < 5, "idle threads take 5 % of a processor or more");
    return 0;
}
