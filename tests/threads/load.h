/* Work for the thread checks: four ops that may be shared, and jobs that run them on memory of their own. */
#ifndef TESTS_THREADS_LOAD_H
#define TESTS_THREADS_LOAD_H

#include "tandem.h"

#include <stdbool.h>

enum { LOAD_APPEND, LOAD_GQA, LOAD_FEW_ROWS, LOAD_MANY_ROWS, LOAD_OPS };

struct load_ops {
    tdm_op *op[LOAD_OPS];
};

struct load_memory;

struct load_job {
    struct load_memory *memory;
    tdm_workspace *workspace[LOAD_OPS];
};

/* A context that reads no environment and has no GPU. Exits when it cannot be opened. */
tdm_ctx *load_open(int threads, const tdm_threads *host);

/* Create the ops; on failure those that were created are in ops all the same. */
tdm_status load_create(tdm_ctx *ctx, struct load_ops *ops);
void load_destroy(struct load_ops *ops);

/* A job starts with the same memory every time. */
tdm_status load_job_start(const struct load_ops *ops, struct load_job *job);
void load_job_end(struct load_job *job);

/* Append to the cache, attend over it, multiply: all four ops. */
tdm_status load_job_run(const struct load_ops *ops, struct load_job *job);

/* Whether two jobs left the same bits. */
bool load_job_same(const struct load_job *a, const struct load_job *b);

/* What a job leaves on a context of one thread. Exits when that fails. */
struct load_job load_serial(void);

/* Print what went wrong and exit when `good` is not so. */
void load_expect(bool good, const char *what);

#endif
