#include "data.h"

#include <stdint.h>
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
    data->memory = aligned_alloc(PAGE, data->copy_bytes * (size_t)copies);
    if (data->memory)
        memset(data->memory, 0, data->copy_bytes * (size_t)copies);
    return data->memory;
}

void *data_at(const struct data *data, int buffer, int copy)
{
    return data->memory + data->copy_bytes * (size_t)copy + data->offset[buffer];
}

void data_replicate(struct data *data)
{
    for (int copy = 1; copy < data->copies; copy++)
        memcpy(data->memory + data->copy_bytes * (size_t)copy, data->memory, data->copy_bytes);
}

void data_free(struct data *data)
{
    free(data->memory);
    *data = (struct data){0};
}
