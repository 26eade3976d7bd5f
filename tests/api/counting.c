#include "counting.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *count_alloc(void *user, size_t bytes, size_t alignment)
{
    struct counting *counting = user;
    if (++counting->calls >= counting->fail_at && counting->fail_at)
        return NULL;
    counting->misaligned += alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > 4096;
    /* Aligned as asked for and no more, so that a wrong request shows; the block's start stands before it. */
    char *block = malloc(bytes + 3 * alignment + sizeof(void *));
    char *data = block + sizeof(void *);
    data += (alignment - (uintptr_t)data % alignment) % alignment;
    if ((uintptr_t)data % (2 * alignment) == 0)
        data += alignment;
    memcpy(data - sizeof(void *), &block, sizeof block);
    memset(data, 0xDB, bytes);
    counting->live++;
    return data;
}

static void count_free(void *user, void *pointer)
{
    struct counting *counting = user;
    if (!pointer) {
        counting->null_frees++;
        return;
    }
    void *block;
    memcpy(&block, (char *)pointer - sizeof(void *), sizeof block);
    counting->live--;
    free(block);
}

tdm_allocator counting_allocator(struct counting *counting)
{
    return (tdm_allocator){count_alloc, count_free, counting};
}
