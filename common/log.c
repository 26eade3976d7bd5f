#include "log.h"

#include "error.h"

#include <errno.h>
#include <string.h>

tdm_status log_open(struct log *log, const tdm_options *options, const struct environment *environment)
{
    static const char *const levels[] = {"off", "error", "warn", "info", NULL};
    log->message = options->log;
    log->trace = options->trace;
    log->user = options->user;
    tdm_status status = environment_choice(environment, VAR_LOG, levels, TDM_LOG_INFO, &log->level);
    if (status)
        return status;
    log->to_stderr = environment->value[VAR_LOG] && !log->message;

    const char *path = environment->value[VAR_TRACE];
    if (!path)
        return TDM_OK;
    log->trace_file = fopen(path, "ae");
    if (!log->trace_file)
        return fail(TDM_BAD_ARG, "%s: got '%.200s' (%s), want a file that can be written",
                    variable_rows[VAR_TRACE].name, path, strerror(errno));
    setvbuf(log->trace_file, log->trace_buffer, _IOLBF, sizeof log->trace_buffer);
    fprintf(log->trace_file, "op,impl,leaf,ns,bytes,flops\n");
    return TDM_OK;
}

void log_close(struct log *log)
{
    if (log->trace_file)
        fclose(log->trace_file);
    log->trace_file = NULL;
}

void log_message(struct log *log, tdm_log_level level, const char *format, va_list values)
{
    if ((int)level > log->level || (!log->message && !log->to_stderr))
        return;
    char text[1024];
    vsnprintf(text, sizeof text, format, values);
    if (log->message)
        log->message(log->user, level, text);
    else
        fprintf(stderr, "tandem: %s\n", text);
}

void log_event(struct log *log, const tdm_event *event)
{
    if (log->trace)
        log->trace(log->user, event);
    if (log->trace_file)
        fprintf(log->trace_file, "%s,%s,%s,%llu,%llu,%llu\n", event->op, event->impl, event->leaf,
                (unsigned long long)event->ns, (unsigned long long)event->bytes, (unsigned long long)event->flops);
}
