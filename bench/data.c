#include "data.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 4096 /* buffers start on one, so that runs do not depend on what lies beside them */

void data_reserve(struct data *data, int buffer, size_t bytes)
{
    data->offset[buffer] = data->copy_bytes;
    data->copy_bytes += (bytes + PAGE - 1) / PAGE * PAGE;
}

bool data_allocate(struct data *data, int copies)
{
    if (data->copy_bytes == 0)
        data->copy_bytes = PAGE;
    if ((size_t)copies > SIZE_MAX / data->copy_bytes)
        return false;
    data->copies = copies;
    data->memory = data->host = aligned_alloc(PAGE, data->copy_bytes * (size_t)copies);
    if (data->host)
        memset(data->host, 0, data->copy_bytes * (size_t)copies);
    return data->host;
}

int data_copies_beyond(const struct data *data, int64_t bytes)
{
    return 2 + (int)(bytes / (int64_t)(data->copy_bytes ? data->copy_bytes : PAGE));
}

void *data_at(const struct data *data, int buffer, int copy)
{
    return data->memory + data->copy_bytes * (size_t)copy + data->offset[buffer];
}

void *host_at(const struct data *data, int buffer)
{
    return data->host + data->offset[buffer];
}

void data_replicate(struct data *data)
{
    for (int copy = 1; copy < data->copies; copy++)
        memcpy(data->host + data->copy_bytes * (size_t)copy, data->host, data->copy_bytes);
}

void data_free(struct data *data)
{
    free(data->host);
    *data = (struct data){0};
}
