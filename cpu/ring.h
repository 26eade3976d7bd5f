/* Where a position of a sequence lies in its cache. */
#ifndef CPU_RING_H
#define CPU_RING_H

#include "cpu.h"

/* The row of a position; the rows of the positions behind it follow, up to the last row of the cache. */
static inline int64_t ring_row(const tdm_kv_cache *cache, int64_t position)
{
    if (!cache->ring || position < cache->ring_sinks)
        return position;
    return cache->ring_sinks + (position - cache->ring_sinks) % (cache->k.dim[2] - cache->ring_sinks);
}

#endif
