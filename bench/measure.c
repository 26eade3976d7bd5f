#include "measure.h"

#include "clock.h"
#include "peak.h"
#include "stats.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* When --repeat leaves it to us: */
#define MIN_REPEATS 5
#define MAX_SECONDS 0.5

#define UNKNOWN_L3 (INT64_C(32) << 20)

static bool failed(const struct job *job, const char *message)
{
    char shape[LABEL_SIZE], dtypes[LABEL_SIZE];
    job->op->label(job, shape, dtypes);
    fflush(stdout);
    fprintf(stderr, "tandem bench: %s %s %s: %s\n", job->op->name, shape, dtypes, message);
    return false;
}

/* An op of a context of its own, ready to run. */
struct session {
    tdm_ctx *ctx;
    tdm_op *op;
    tdm_workspace *workspace;
};

static void session_close(struct session *session)
{
    tdm_workspace_destroy(session->workspace);
    tdm_op_destroy(session->op);
    tdm_close(session->ctx);
}

static tdm_status session_open(struct session *session, const struct job *job, tdm_options options)
{
    *session = (struct session){0};
    options.struct_size = sizeof options;
    options.threads = (int32_t)job->value[OPTION_THREADS];
    tdm_status status = tdm_open(TDM_VERSION, &options, &session->ctx);
    if (status == TDM_OK)
        status = job->op->create(session->ctx, job, &session->op);
    if (status == TDM_OK)
        status = tdm_workspace_create(session->op, NULL, 0, &session->workspace);
    return status;
}

static tdm_status session_run(const struct session *session, const struct job *job, int copy)
{
    return job->op->run(job, session->op, session->workspace, copy);
}

static void keep_event(void *user, const tdm_event *event)
{
    *(tdm_event *)user = *event;
}

/* With --cold, copies that exceed twice the L3 cache, so that none is left in it when its turn comes again. */
static int copies_of(const struct job *job, const tdm_device_info *cpu)
{
    if (job->value[OPTION_COPIES])
        return (int)job->value[OPTION_COPIES];
    if (!job->value[OPTION_COLD])
        return 1;
    int64_t cache = cpu->cache[2] ? cpu->cache[2] : UNKNOWN_L3;
    return 2 + (int)(2 * cache / (int64_t)job->data.copy_bytes);
}

/* Make the data of a valid desc: `copies` to run on, then one for the reference. */
static bool prepare(struct job *job, const tdm_device_info *cpu, int *copies)
{
    job->op->reserve(job);
    *copies = copies_of(job, cpu);
    int all = *copies + (job->value[OPTION_CHECK] ? 1 : 0);
    if (cpu->memory && (double)job->data.copy_bytes * all > (double)cpu->memory)
        return failed(job, "its data would not fit into this machine's memory");
    if (!data_allocate(&job->data, all))
        return failed(job, "out of memory");
    struct random random = {(uint64_t)job->value[OPTION_SEED]};
    job->op->fill(job, &random);
    data_replicate(&job->data);
    return true;
}

/* Run once, traced: what ran, how much there was to do, and whether it came out right. */
static bool rehearse(const struct session *session, const struct job *job, int copies, struct result *result)
{
    if (session_run(session, job, 0) != TDM_OK)
        return failed(job, tdm_last_error());
    if (!job->value[OPTION_CHECK])
        return true;
    const char *wrong = job->op->check(job, copies, &result->error);
    return wrong ? failed(job, wrong) : true;
}

/* Time repeated runs; returns how many. */
static int time_runs(const struct session *session, const struct job *job, int copies, double *seconds)
{
    int64_t warmup = job->value[OPTION_WARMUP], repeat = job->value[OPTION_REPEAT];
    for (int64_t i = 0; i < warmup; i++)
        session_run(session, job, (int)(i % copies));
    int n = 0, limit = repeat ? (int)repeat : MAX_REPEATS;
    double begin = clock_seconds(), end = begin;
    while (n < limit && (repeat || n < MIN_REPEATS || end - begin < MAX_SECONDS)) {
        double start = clock_seconds();
        session_run(session, job, (int)((warmup + n) % copies));
        end = clock_seconds();
        seconds[n++] = end - start;
    }
    return n;
}

static void rate(struct result *result, const tdm_event *event, double *seconds, int n)
{
    struct stats stats = stats_of(seconds, n);
    result->repeats = n;
    result->median_us = stats.median * 1e6;
    result->p10_us = stats.p10 * 1e6;
    result->p90_us = stats.p90 * 1e6;
    result->min_us = stats.min * 1e6;
    result->gb_per_s = (double)event->bytes / stats.median * 1e-9;
    result->gflop_per_s = (double)event->flops / stats.median * 1e-9;
}

static void compare_with_peak(struct result *result, const struct job *job, int copies)
{
    int threads = (int)result->threads;
    result->peak_gb_per_s = peak_gb_per_s(threads, job->data.copy_bytes * (size_t)copies);
    result->peak_gflop_per_s = peak_gflop_per_s(threads);
    result->share = fmax(result->gb_per_s / result->peak_gb_per_s, result->gflop_per_s / result->peak_gflop_per_s);
}

static bool measure_timed(struct job *job, int copies, const tdm_event *event, struct result *result)
{
    static double seconds[MAX_REPEATS];
    struct session session;
    if (session_open(&session, job, (tdm_options){0}) != TDM_OK) {
        session_close(&session);
        return failed(job, tdm_last_error());
    }
    rate(result, event, seconds, time_runs(&session, job, copies, seconds));
    session_close(&session);
    if (job->value[OPTION_PEAK])
        compare_with_peak(result, job, copies);
    return true;
}

bool measure(struct job *job, struct result *result)
{
    *result = (struct result){.op = job->op->name};
    job->op->label(job, result->shape, result->dtypes);
    job->op->describe(job);
    tdm_event event = {0};
    tdm_device_info cpu = TDM_INIT(tdm_device_info);
    struct session session;
    int copies = 1;
    bool good = session_open(&session, job, (tdm_options){.trace = keep_event, .user = &event}) == TDM_OK &&
                tdm_device_get(session.ctx, CPU, &cpu) == TDM_OK;
    if (!good)
        failed(job, tdm_last_error());
    good = good && prepare(job, &cpu, &copies) && rehearse(&session, job, copies, result);
    session_close(&session);
    result->threads = cpu.threads;
    result->copies = copies;
    result->impl = event.impl;
    result->leaf = event.leaf;
    good = good && measure_timed(job, copies, &event, result);
    data_free(&job->data);
    return good;
}
