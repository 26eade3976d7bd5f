#include "guard.h"

#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CANARY = 0xC5, MOST_GUARDS = 256 };

static struct guard living[MOST_GUARDS]; /* map is NULL where there is none */

static struct guard *place_of(const void *map)
{
    for (int i = 0; i < MOST_GUARDS; i++)
        if (living[i].map == map)
            return &living[i];
    fprintf(stderr, "guard: more than %d at once\n", MOST_GUARDS);
    exit(EXIT_FAILURE);
}

struct guard guard_new(size_t bytes, int fill)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = bytes / page + 1;
    struct guard guard = {.bytes = bytes, .map_bytes = (pages + 1) * page};
    guard.map = mmap(NULL, guard.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (guard.map == MAP_FAILED || mprotect((char *)guard.map + pages * page, page, PROT_NONE)) {
        perror("guard_new");
        exit(EXIT_FAILURE);
    }
    guard.data = (char *)guard.map + pages * page - bytes;
    memset(guard.map, CANARY, pages * page - bytes);
    memset(guard.data, fill, bytes);
    *place_of(NULL) = guard;
    return guard;
}

bool guard_intact(const struct guard *guard)
{
    for (const unsigned char *p = guard->map; p < (const unsigned char *)guard->data; p++)
        if (*p != CANARY)
            return false;
    return true;
}

void guard_read_only(const struct guard *guard)
{
    if (test_shares_memory())
        mprotect(guard->map, guard_open_bytes(guard), PROT_READ);
}

void guard_free(struct guard *guard)
{
    if (!guard->map)
        return;
    place_of(guard->map)->map = NULL;
    munmap(guard->map, guard->map_bytes);
    *guard = (struct guard){0};
}

size_t guard_open_bytes(const struct guard *guard)
{
    return guard->map_bytes - (size_t)sysconf(_SC_PAGESIZE);
}

void guard_each(void (*visit)(const struct guard *guard, void *arg), void *arg)
{
    for (int i = 0; i < MOST_GUARDS; i++)
        if (living[i].map)
            visit(&living[i], arg);
}
