/* The memory of one case: named buffers, in one or several identical copies. */
#ifndef BENCH_DATA_H
#define BENCH_DATA_H

#include <stdbool.h>
#include <stddef.h>

#define MAX_BUFFERS 16

struct data {
    size_t offset[MAX_BUFFERS]; /* of each buffer within a copy */
    size_t copy_bytes;
    int copies;
    char *memory;
};

/* Make room for a buffer, before data_allocate. */
void data_reserve(struct data *data, int buffer, size_t bytes);

/* Allocate `copies` zeroed copies. False when there is no memory. */
bool data_allocate(struct data *data, int copies);

void *data_at(const struct data *data, int buffer, int copy);

/* Make every copy equal to the first. */
void data_replicate(struct data *data);

void data_free(struct data *data);

#endif
