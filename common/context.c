#define _GNU_SOURCE /* sched_getaffinity */
#include "context.h"

#include "error.h"
#include "sized.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_THREADS = 1024, ALIGNMENT = 64 };

static void *libc_alloc(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    size_t step = alignment < sizeof(void *) ? sizeof(void *) : alignment;
    return bytes > SIZE_MAX - step ? NULL : aligned_alloc(step, (bytes + step - 1) / step * step);
}

static void libc_free(void *user, void *pointer)
{
    (void)user;
    free(pointer);
}

void *ctx_alloc(const tdm_ctx *ctx, size_t bytes)
{
    return ctx->allocator.alloc(ctx->allocator.user, bytes, ALIGNMENT);
}

void ctx_free(const tdm_ctx *ctx, void *pointer)
{
    if (pointer)
        ctx->allocator.free(ctx->allocator.user, pointer);
}

tdm_status ctx_check_owner(const tdm_ctx *ctx)
{
    if (getpid() != ctx->owner)
        return fail(TDM_BAD_ARG, "ctx: opened before fork(), want a context of this process");
    return TDM_OK;
}

static void service_parallel_for(void *ctx, int64_t n, tdm_task task, void *arg)
{
    pool_for(&((tdm_ctx *)ctx)->pool, n, task, arg);
}

static void *service_alloc(void *ctx, size_t bytes)
{
    return ctx_alloc(ctx, bytes);
}

static void service_free(void *ctx, void *pointer)
{
    ctx_free(ctx, pointer);
}

static void service_log(void *ctx, tdm_log_level level, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    log_message(&((tdm_ctx *)ctx)->log, level, format, values);
    va_end(values);
}

static bool service_left_out(void *ctx, const char *row, bool approximate, char *reason)
{
    const struct environment *environment = &((tdm_ctx *)ctx)->environment;
    const char *by = environment_switch(environment, row, LEAVES_OUT);
    if (list_holds(environment->value[VAR_SKIP], row))
        by = variable_rows[VAR_SKIP].name;
    if (by)
        snprintf(reason, REASON_SIZE, "left out by %s", by);
    else if (approximate && !list_holds(environment->value[VAR_ALLOW], row) &&
             !environment_switch(environment, row, LETS_IN))
        snprintf(reason, REASON_SIZE, "approximate, and %s does not name it", variable_rows[VAR_ALLOW].name);
    else
        return false;
    return true;
}

static void warn_odd(tdm_ctx *ctx, enum variable index)
{
    service_log(ctx, TDM_LOG_WARN, "%s: got '%.64s', which is ignored, want %s", variable_rows[index].name,
                ctx->environment.value[index], variable_rows[index].meaning);
}

static int service_demoted(void *opaque, const char *const *rows, char *reason)
{
    tdm_ctx *ctx = opaque;
    int count = environment_demoted(&ctx->environment, rows);
    snprintf(reason, REASON_SIZE, "left out by %s", variable_rows[VAR_CPU_ISA].name);
    if (count >= 0)
        return count;
    warn_odd(ctx, VAR_CPU_ISA);
    return 0;
}

static int usable_cores(void)
{
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    return cores < 1 ? 1 : cores > MOST_THREADS ? MOST_THREADS : cores;
}

static tdm_status check_options(const tdm_options *options)
{
    if (options->threads < 0 || options->threads > MOST_THREADS)
        return fail(TDM_BAD_ARG, "options.threads: got %d, want 0 to %d", options->threads, MOST_THREADS);
    const tdm_threads *host = options->host;
    if (host && (host->threads < 1 || host->threads > MOST_THREADS))
        return fail(TDM_BAD_ARG, "options.host.threads: got %d, want 1 to %d", host->threads, MOST_THREADS);
    if (host && !host->parallel_for)
        return fail(TDM_BAD_ARG, "options.host.parallel_for: got NULL, want a function");
    if (host && options->threads)
        return fail(TDM_BAD_ARG, "options.threads: got %d beside options.host, want 0", options->threads);
    const tdm_allocator *allocator = options->allocator;
    if (allocator && (!allocator->alloc || !allocator->free))
        return fail(TDM_BAD_ARG, "options.allocator: got a NULL function, want alloc and free");
    return TDM_OK;
}

static tdm_status open_parts(tdm_ctx *ctx, const tdm_options *options)
{
    tdm_status status = environment_read(&ctx->environment, &ctx->allocator, options->env);
    if (status || (status = log_open(&ctx->log, options, &ctx->environment)))
        return status;
    int threads;
    status = environment_number(&ctx->environment, VAR_THREADS, 1, MOST_THREADS, usable_cores(), &threads);
    if (status || (status = pool_open(&ctx->pool, options->threads ? options->threads : threads, options->host)))
        return status;
    ctx->services = (struct services){.ctx = ctx,
                                      .threads = ctx->pool.threads,
                                      .parallel_for = service_parallel_for,
                                      .alloc = service_alloc,
                                      .free = service_free,
                                      .log = service_log,
                                      .fail = fail,
                                      .left_out = service_left_out,
                                      .demoted = service_demoted};
    for (int i = 0; i < VARIABLES; i++)
        if (environment_is_odd(&ctx->environment, (enum variable)i))
            warn_odd(ctx, (enum variable)i);
    if ((status = backends_open(ctx)))
        return status;
    return backends_check_rows(ctx);
}

tdm_status tdm_open(uint32_t version, const tdm_options *options, tdm_ctx **out)
{
    if (!out)
        return fail(TDM_BAD_ARG, "ctx: got NULL, want a place for the context");
    *out = NULL;
    if (version >> 16 != TDM_VERSION_MAJOR || version > TDM_VERSION)
        return fail(TDM_BAD_ARG, "version: got %u.%u.%u, want %d.0.0 to %d.%d.%d", version >> 16, version >> 8 & 255,
                    version & 255, TDM_VERSION_MAJOR, TDM_VERSION_MAJOR, TDM_VERSION_MINOR, TDM_VERSION_PATCH);
    tdm_options known = TDM_INIT(tdm_options);
    tdm_status status = options ? sized_read("options", &known, sizeof known, sizeof known, options) : TDM_OK;
    if (status || (status = check_options(&known)))
        return status;

    tdm_allocator allocator = known.allocator ? *known.allocator : (tdm_allocator){libc_alloc, libc_free, NULL};
    tdm_ctx *ctx = allocator.alloc(allocator.user, sizeof *ctx, ALIGNMENT);
    if (!ctx)
        return fail(TDM_NO_MEMORY, "ctx: no memory for %zu bytes", sizeof *ctx);
    memset(ctx, 0, sizeof *ctx);
    ctx->allocator = allocator;
    ctx->owner = getpid();
    status = open_parts(ctx, &known);
    if (status)
        tdm_close(ctx);
    else
        *out = ctx;
    return status;
}

void tdm_close(tdm_ctx *ctx)
{
    if (!ctx)
        return;
    if (ctx->owner == getpid()) /* else there are no threads to join and no devices of ours */
        pool_close(&ctx->pool);
    backends_close(ctx);
    log_close(&ctx->log);
    environment_free(&ctx->environment, &ctx->allocator);
    ctx_free(ctx, ctx);
}
