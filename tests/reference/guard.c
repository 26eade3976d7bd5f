#include "guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CANARY = 0xC5 };

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
    mprotect(guard->map, guard->map_bytes - (size_t)sysconf(_SC_PAGESIZE), PROT_READ);
}

void guard_free(struct guard *guard)
{
    munmap(guard->map, guard->map_bytes);
    *guard = (struct guard){0};
}
