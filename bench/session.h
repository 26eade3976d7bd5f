/* An op of a context of its own with the job's data, ready to run on the job's device. */
#ifndef BENCH_SESSION_H
#define BENCH_SESSION_H

#include "job.h"

struct session {
    tdm_ctx *ctx;
    tdm_device device;
    tdm_op *op;
    tdm_workspace *workspace;
    void *stream; /* NULL on the CPU             */
    void *memory; /* the device's; NULL: none yet */
};

tdm_status session_open(struct session *session, const struct job *job, tdm_options options);
void session_close(struct session *session, struct job *job);

/* Put `copies` of the host's first copy where the device reads them. On the CPU they are there already. */
tdm_status session_upload(struct session *session, struct job *job, int copies);

/* Bring the first copy back; from here on the job's buffers are those of the host. */
tdm_status session_download(struct session *session, struct job *job);

/* Enqueue a run. */
tdm_status session_run(const struct session *session, const struct job *job, int copy);

#endif
