/* Where keys lie and who sees them, one query and key at a time. */
#ifndef TESTS_REFERENCE_VISIBLE_H
#define TESTS_REFERENCE_VISIBLE_H

#include "tandem.h"

#include <stdbool.h>

/* The row of the cache that holds a position. */
int64_t cache_row(const tdm_kv_cache *cache, int64_t position);

/* The position of query i of sequence b, and of key j: for windows, slopes and rotary tables. */
int64_t position_of_query(const tdm_gqa_desc *desc, const tdm_gqa_args *args, int64_t b, int64_t i);
int64_t position_of_key(const tdm_gqa_desc *desc, const tdm_gqa_args *args, int64_t b, int64_t j);

/* Element [b, h, i, j] of the bias or the mask, whose outer dimensions may be 1. */
double plane_value(const tdm_tensor *plane, const void *data, int64_t b, int64_t h, int64_t i, int64_t j);

/* Whether query i of head h sees key j, 0 <= j < kv_len. */
bool key_visible(const tdm_gqa_desc *desc, const tdm_gqa_args *args, int64_t b, int64_t h, int64_t i, int64_t j);

#endif
