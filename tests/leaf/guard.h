/* Memory whose neighbour bytes cannot be touched: it ends right before a page without access, or begins right behind
 * one. */
#ifndef GUARD_H
#define GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct guard {
    char *begin;
    size_t size; /* of the pages in between */
};

/* Room for `size` bytes of this guard, filled with 0xa5; the guard's earlier bytes are gone. */
static inline void *guarded(struct guard *guard, size_t size, bool at_end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (size > guard->size) {
        if (guard->begin)
            munmap(guard->begin - page, guard->size + 2 * page);
        guard->size = (size + page - 1) / page * page;
        char *map = mmap(NULL, guard->size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED || mprotect(map + page, guard->size, PROT_READ | PROT_WRITE) != 0) {
            puts("no memory for guard pages");
            exit(1);
        }
        guard->begin = map + page;
    }
    char *memory = at_end ? guard->begin + guard->size - size : guard->begin;
    return memset(memory, 0xa5, size);
}

/* Whether the bytes [from, to) of an output still hold what guarded() put there. */
static inline bool untouched(const void *memory, size_t from, size_t to)
{
    const unsigned char *byte = memory;
    for (size_t i = from; i < to; i++)
        if (byte[i] != 0xa5)
            return false;
    return true;
}

/* Whether the gaps between the rows of an f32 output are untouched. */
static inline bool gaps_untouched(const float *out, ptrdiff_t stride, int rows, int columns)
{
    for (int r = 0; r + 1 < rows; r++)
        if (!untouched(out + r * stride, (size_t)columns * sizeof *out, (size_t)stride * sizeof *out))
            return false;
    return true;
}

#endif
