/* Buffers that notice a stray access: the last byte is followed by a page that cannot be touched, the first is
 * preceded by a canary. */
#ifndef TESTS_REFERENCE_GUARD_H
#define TESTS_REFERENCE_GUARD_H

#include <stdbool.h>
#include <stddef.h>

struct guard {
    void *data; /* `bytes` bytes, aligned to what divides bytes */
    size_t bytes;
    void *map;
    size_t map_bytes;
};

/* A buffer filled with `fill`; data is never NULL, even for 0 bytes. Exits when there is no memory. */
struct guard guard_new(size_t bytes, int fill);

/* Whether nothing was written before the buffer. */
bool guard_intact(const struct guard *guard);

/* From here on a write to the buffer is a fault. */
void guard_read_only(const struct guard *guard);

void guard_free(struct guard *guard);

/* The bytes from guard->map on that are not behind the closed page. */
size_t guard_open_bytes(const struct guard *guard);

/* Call visit for every guard that is not freed. */
void guard_each(void (*visit)(const struct guard *guard, void *arg), void *arg);

#endif
