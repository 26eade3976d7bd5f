/* All state of the library hangs off a context. */
#ifndef COMMON_CONTEXT_H
#define COMMON_CONTEXT_H

#include "backend.h"
#include "backends.h"
#include "environment.h"
#include "log.h"
#include "pool.h"

#include <sys/types.h>

struct tdm_ctx {
    tdm_allocator allocator;
    struct environment environment;
    struct log log;
    struct pool pool;
    struct services services;
    struct loaded backends[BACKENDS];
    pid_t owner; /* the process that opened it: after fork() the threads are gone */
};

/* Memory of the host's allocator: `alignment` 64 unless the object needs none. NULL when there is none. */
void *ctx_alloc(const tdm_ctx *ctx, size_t bytes);
void ctx_free(const tdm_ctx *ctx, void *pointer);

/* BAD_ARG in a forked child, whose context has no threads. */
tdm_status ctx_check_owner(const tdm_ctx *ctx);

#endif
