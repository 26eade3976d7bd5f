/* The memory of one case: named buffers, in one or several identical copies. */
#ifndef BENCH_DATA_H
#define BENCH_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_BUFFERS 16

struct data {
    size_t offset[MAX_BUFFERS]; /* of each buffer within a copy                           */
    size_t copy_bytes;
    int copies; /* on the host                                            */
    char *host;
    char *memory; /* where ops read and write: the host's, or the device's */
};

/* Make room for a buffer, before data_allocate. */
void data_reserve(struct data *data, int buffer, size_t bytes);

/* Allocate `copies` zeroed copies. False when there is no memory. */
bool data_allocate(struct data *data, int copies);

/* As many copies as together exceed `bytes` when one more is in use. */
int data_copies_beyond(const struct data *data, int64_t bytes);

/* A buffer where ops read and write it. */
void *data_at(const struct data *data, int buffer, int copy);

/* The first copy on the host: where it is filled, and where ops read lengths and positions. */
void *host_at(const struct data *data, int buffer);

/* Make every copy on the host equal to the first. */
void data_replicate(struct data *data);

/* Free what is on the host. */
void data_free(struct data *data);

#endif
