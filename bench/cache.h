/* What the ops on key/value caches have in common. */
#ifndef BENCH_CACHE_H
#define BENCH_CACHE_H

#include "job.h"

/* A tensor [batch, heads, rows, channels] of a cache type (see CACHE_TYPE). */
tdm_tensor cache_tensor(const struct job *job, int64_t type, int64_t heads, int64_t rows, int64_t channels);

tdm_kv_cache cache_of(const struct job *job);

/* The buffers of a cache; the ops number their own from CACHE_BUFFERS on. */
enum { CACHE_K, CACHE_V, CACHE_K_SCALE, CACHE_V_SCALE, CACHE_K_OFFSET, COSINES, SINES, CACHE_BUFFERS };
void cache_reserve(struct job *job, const tdm_kv_cache *cache);
tdm_kv_data cache_data(const struct job *job, const tdm_kv_cache *cache, int copy);

/* The rotary tables that --rotary asks for, for every position of the shape. */
tdm_rotary rotary_of(const struct job *job);
void rotary_reserve(struct job *job, const tdm_rotary *rotary);
void rotary_fill(struct job *job, const tdm_rotary *rotary);
/* NULL without rotary. */
const void *rotary_at(const struct job *job, int buffer, int copy);

/* Compare the first copy's stored bytes and scales with `want`, as check_stored does. */
const char *cache_compare(const struct job *job, const tdm_kv_cache *cache, const tdm_kv_data *want, double *error);

/* Fill the scales and the offset of a cache. */
void cache_fill(struct job *job, const tdm_kv_cache *cache, struct random *random);

/* Scales that map the range of a dtype to about [-1, 1]. */
void fill_scales(const tdm_tensor *tensor, float *scale, struct random *random);

/* Room for one int32 per sequence. */
void reserve_lengths(struct job *job, int buffer);

void reserve_tensor(struct job *job, int buffer, const tdm_tensor *tensor);

/* "b1 h16/8 d128 q1 kv2048" and "f32+int8-tensor". */
void label_attention(const struct job *job, char *shape, char *dtypes);

#endif
