/* What the library tells its host: log messages and one event for every run. */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include "environment.h"

#include <stdarg.h>
#include <stdio.h>

struct log {
    void (*message)(void *user, tdm_log_level level, const char *text);
    void (*trace)(void *user, const tdm_event *event);
    void *user;
    int level;        /* messages above it are dropped */
    bool to_stderr;   /* TANDEM_LOG was set and the host has no callback */
    FILE *trace_file; /* TANDEM_TRACE */
    char trace_buffer[4096];
};

/* BAD_ARG when TANDEM_LOG or TANDEM_TRACE is not understood or cannot be opened. */
tdm_status log_open(struct log *log, const tdm_options *options, const struct environment *environment);
void log_close(struct log *log);

void log_message(struct log *log, tdm_log_level level, const char *format, va_list values);

static inline bool log_traces(const struct log *log)
{
    return log->trace || log->trace_file;
}
void log_event(struct log *log, const tdm_event *event);

#endif
