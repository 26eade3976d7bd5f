#include "measure.h"

#include "clock.h"
#include "device.h"
#include "peak.h"
#include "session.h"
#include "stats.h"
#include "turns.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool failed(const struct job *job, const char *message)
{
    char shape[LABEL_SIZE], dtypes[LABEL_SIZE];
    job->op->label(job, shape, dtypes);
    fflush(stdout);
    fprintf(stderr, "tandem bench: %s %s %s: %s\n", job->op->name, shape, dtypes, message);
    return false;
}

static void keep_event(void *user, const tdm_event *event)
{
    *(tdm_event *)user = *event;
}

/* With --cold, copies that exceed twice the largest cache, so that none is left in it when its turn comes again. */
static int copies_of(const struct job *job, const tdm_device_info *info)
{
    if (job->value[OPTION_COPIES])
        return (int)job->value[OPTION_COPIES];
    return job->value[OPTION_COLD] ? data_copies_beyond(&job->data, 2 * device_cache(info)) : 1;
}

/* Make the data of a valid desc on the host: `copies` to run on, of which a device needs the first alone, then one for
 * the reference. */
static bool prepare(struct job *job, const tdm_device_info *info, int *copies, int *spare)
{
    job->op->reserve(job);
    *copies = copies_of(job, info);
    *spare = job->device.kind == TDM_CPU ? *copies : 1;
    int reference = job->value[OPTION_CHECK] ? 1 : 0;
    if (info->memory && (double)job->data.copy_bytes * (*copies + reference) > (double)info->memory)
        return failed(job, "its data would not fit into this device's memory");
    if (!data_allocate(&job->data, *spare + reference))
        return failed(job, "out of memory");
    struct random random = {(uint64_t)job->value[OPTION_SEED]};
    job->op->fill(job, &random);
    data_replicate(&job->data);
    return true;
}

/* Run once, traced: what ran, how much there was to do, and whether it came out right. */
static bool rehearse(struct session *session, struct job *job, int spare, struct result *result)
{
    if (session_upload(session, job, 1) || session_run(session, job, 0) || session_download(session, job))
        return failed(job, tdm_last_error());
    if (!job->value[OPTION_CHECK])
        return true;
    const char *wrong = job->op->check(job, spare, &result->error);
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

/* What turns_time repeats. */
struct runs {
    const struct session *session;
    const struct job *job;
};

static tdm_status enqueue(const void *arg, void *stream, int copy)
{
    const struct runs *runs = arg;
    (void)stream; /* the session's */
    return session_run(runs->session, runs->job, copy);
}

static int time_turns(const struct session *session, const struct job *job, int copies, double *seconds,
                      const char **how)
{
    struct runs runs = {session, job};
    struct turns turns = {.ctx = session->ctx,
                          .device = session->device,
                          .stream = session->stream,
                          .copies = copies,
                          .enqueue = enqueue,
                          .arg = &runs,
                          .warmup = job->value[OPTION_WARMUP],
                          .repeat = job->value[OPTION_REPEAT]};
    return turns_time(&turns, seconds, how);
}

static void compare_with_device(const struct session *session, const struct job *job, const tdm_device_info *info,
                                struct result *result)
{
    snprintf(result->device, sizeof result->device, "%s", info->name);
    result->copy_gb_per_s = device_copy_gb_per_s(session, info);
    result->copy_share = result->gb_per_s / result->copy_gb_per_s;
    result->vendor_us = job->op->bit == OP_BIT_FP8_MATMUL ? device_vendor_us(session, job, info) : NAN;
}

static bool measure_timed(struct job *job, int copies, const tdm_device_info *info, struct result *result)
{
    static double seconds[MAX_REPEATS];
    struct session session;
    int n = 0;
    bool cpu = job->device.kind == TDM_CPU;
    if (!session_open(&session, job, (tdm_options){0}) && !session_upload(&session, job, copies))
        n = cpu ? time_runs(&session, job, copies, seconds)
                : time_turns(&session, job, copies, seconds, &result->timing);
    if (n == 0)
        failed(job, tdm_last_error());
    else
        rate(result, &job->event, seconds, n);
    if (n && !cpu)
        compare_with_device(&session, job, info, result);
    session_close(&session, job);
    if (n && job->value[OPTION_PEAK])
        compare_with_peak(result, job, copies);
    return n;
}

bool measure(struct job *job, struct result *result)
{
    *result = (struct result){.op = job->op->name};
    job->op->label(job, result->shape, result->dtypes);
    job->op->describe(job);
    job->event = (tdm_event){0};
    tdm_device_info info = TDM_INIT(tdm_device_info);
    struct session session;
    int copies = 1, spare = 0;
    bool good = !session_open(&session, job, (tdm_options){.trace = keep_event, .user = &job->event}) &&
                !tdm_device_get(session.ctx, job->device, &info);
    if (!good)
        failed(job, tdm_last_error());
    good = good && prepare(job, &info, &copies, &spare) && rehearse(&session, job, spare, result);
    session_close(&session, job);
    result->threads = info.threads;
    result->copies = copies;
    result->impl = job->event.impl;
    result->leaf = job->event.leaf;
    good = good && measure_timed(job, copies, &info, result);
    data_free(&job->data);
    return good;
}
