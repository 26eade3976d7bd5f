/* Problems of kv_append: types, layouts, features and data, and the bytes that must come out. */
#ifndef TESTS_OPS_APPEND_PROBLEM_H
#define TESTS_OPS_APPEND_PROBLEM_H

#include "problem.h"
#include "types.h"

#include <stdbool.h>

enum { BATCH = 4, HEADS = 3, MAX_NEW = 9, CAPACITY = 20, MAX_APPEND_INPUTS = 12 };

struct append_setup {
    tdm_dtype dtype;
    int k, v; /* rows of `stored_types` */
    int64_t head_dim, v_head_dim;
    bool interleaved;
    uint64_t seed;
    const int32_t *new_len,
        *pos;          /* NULL: rows that touch both ends, one sequence that gets nothing, one that fills up */
    tdm_dtype norm;    /* of the weight; 0: none                */
    tdm_rotary rotary; /* its positions follow from the lengths */
    bool positions;    /* rotary positions are given            */
    bool offset, rotate_k, rotate_v;
    bool ring;
    int32_t ring_sinks;
    bool past; /* another cache, in the other layout and larger, holds the first rows */
};

struct append_problem {
    struct problem base;
    tdm_kv_append_desc desc;
    tdm_kv_append_args args, wanted; /* wanted.cache: memory of what the cache must hold */
    struct guard k, v;
    struct guard input[MAX_APPEND_INPUTS];
    int inputs;
    void *want[MAX_OUTPUTS];
};

/* The data may be changed until append_check. */
struct append_problem *append_new(const struct append_setup *setup);

/* Run all variants: NULL when the cache then holds, byte for byte, what it should, else what it does not. */
const char *append_check(struct append_problem *p);

void append_free(struct append_problem *p);

/* "f32 to i8 token / f16 unscaled, 64 and 40 channels" */
const char *append_label(const struct append_problem *p);

#endif
