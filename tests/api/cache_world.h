/* A cache object of one of several schemes, and tokens to feed it: which token stands where is a function of its
 * sequence, its position and a salt, so that the same can be fed again. */
#ifndef TESTS_API_CACHE_WORLD_H
#define TESTS_API_CACHE_WORLD_H

#include "tandem.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    TWO = 2, /* sequences */
    QUERY_HEADS = 4,
    PAIRS = 2, /* key and value heads */
    MOST_NEW = 4,
    ROWS_KEPT = 40,
    RING_ROWS = 20,
    RING_SINKS = 3,
    WINDOW = 8,
    KEY_SIZE = 32,
    VALUE_SIZE = 24
};

struct cache_scheme {
    const char *name;
    tdm_dtype k, v;
    tdm_scaling k_scaling, v_scaling;
    bool rotated, offset, rotary, norm, ring, sink;
};
extern const struct cache_scheme cache_schemes[];
extern const int cache_scheme_count;

struct cache_world {
    tdm_device device;
    tdm_ctx *ctx;
    tdm_kv_append_desc append;
    tdm_gqa_desc attention;
    tdm_cache_desc desc;
    tdm_cache *cache;
    float k_scale[PAIRS * KEY_SIZE], v_scale[PAIRS * VALUE_SIZE], offset[PAIRS * KEY_SIZE], norm[KEY_SIZE];
    float cos[64 * KEY_SIZE / 2], sin[64 * KEY_SIZE / 2], sink[QUERY_HEADS];
    float k[TWO * PAIRS * MOST_NEW * KEY_SIZE], v[TWO * PAIRS * MOST_NEW * VALUE_SIZE];
    float q[TWO * QUERY_HEADS * MOST_NEW * KEY_SIZE], out[TWO * QUERY_HEADS * MOST_NEW * VALUE_SIZE];
    float lse[TWO * QUERY_HEADS * MOST_NEW];
};

/* The descs and data of a scheme, without a context. */
void cache_world_init(struct cache_world *world, const struct cache_scheme *scheme);

/* ... with a context that takes its memory from `allocator` (NULL: its own), and the cache. */
tdm_status cache_world_open(struct cache_world *world, const struct cache_scheme *scheme,
                            const tdm_allocator *allocator);

/* Destroy the cache and close the context. */
void cache_world_close(struct cache_world *world);

/* Put the new_len[b] tokens from position pos[b] on of each sequence into world->k and v. */
void cache_world_fill(struct cache_world *world, const int32_t *pos, const int32_t *new_len, int salt);

/* Fill and append behind what is there. */
tdm_status cache_world_append(struct cache_world *world, int32_t first, int32_t second, int salt);

/* Attend with so many queries of each sequence; out and lse are NaN before. */
tdm_status cache_world_attend(struct cache_world *world, int32_t queries);

#endif
