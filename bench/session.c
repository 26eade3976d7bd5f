#include "session.h"

#define HOST ((tdm_device){TDM_CPU, 0})

tdm_status session_open(struct session *session, const struct job *job, tdm_options options)
{
    *session = (struct session){.device = job->device};
    options.struct_size = sizeof options;
    options.threads = (int32_t)job->value[OPTION_THREADS];
    tdm_status status = tdm_open(TDM_VERSION, &options, &session->ctx);
    if (!status)
        status = job->op->create(session->ctx, job, &session->op);
    if (!status)
        status = tdm_workspace_create(session->op, NULL, 0, &session->workspace);
    if (!status)
        status = tdm_stream_create(session->ctx, session->device, &session->stream);
    return status;
}

void session_close(struct session *session, struct job *job)
{
    job->data.memory = job->data.host;
    if (session->stream)
        tdm_stream_sync(session->ctx, session->device, session->stream);
    if (session->memory)
        tdm_free(session->ctx, session->device, TDM_DEVICE_MEMORY, session->memory);
    tdm_stream_destroy(session->ctx, session->device, session->stream);
    tdm_workspace_destroy(session->workspace);
    tdm_op_destroy(session->op);
    tdm_close(session->ctx);
}

tdm_status session_upload(struct session *session, struct job *job, int copies)
{
    struct data *data = &job->data;
    if (session->device.kind == TDM_CPU)
        return TDM_OK;
    tdm_status status = tdm_alloc(session->ctx, session->device, TDM_DEVICE_MEMORY, data->copy_bytes * (size_t)copies,
                                  &session->memory);
    for (int copy = 0; copy < copies && !status; copy++)
        status = tdm_copy(session->ctx, session->device, (char *)session->memory + data->copy_bytes * (size_t)copy,
                          HOST, data->host, data->copy_bytes, session->stream);
    if (!status)
        status = tdm_stream_sync(session->ctx, session->device, session->stream);
    if (!status)
        data->memory = session->memory;
    return status;
}

tdm_status session_download(struct session *session, struct job *job)
{
    struct data *data = &job->data;
    if (session->device.kind == TDM_CPU)
        return TDM_OK;
    tdm_status status =
        tdm_copy(session->ctx, HOST, data->host, session->device, session->memory, data->copy_bytes, session->stream);
    data->memory = data->host;
    return status ? status : tdm_stream_sync(session->ctx, session->device, session->stream);
}

tdm_status session_run(const struct session *session, const struct job *job, int copy)
{
    return job->op->run(job, session->op, session->workspace, session->stream, copy);
}
