/* Attention problems: shapes, types, layouts, features and data. */
#ifndef TESTS_OPS_GQA_PROBLEM_H
#define TESTS_OPS_GQA_PROBLEM_H

#include "bench/shapes.h"
#include "problem.h"
#include "tests/reference/reference.h"

#include <stdbool.h>

/* How a cache is stored. */
struct cache_type {
    tdm_dtype k;
    tdm_scaling k_scaling;
    tdm_dtype v;
    tdm_scaling v_scaling;
};

/* A bias or a mask: none when dtype is 0. */
struct plane_type {
    tdm_dtype dtype;
    bool one_batch, one_head, one_query; /* dimensions of 1 */
};

/* What attention can do besides; all zero: nothing. */
struct gqa_features {
    bool rotate_k, rotate_v, offset;
    tdm_dtype q_norm;  /* of the weight; 0: none                           */
    tdm_rotary rotary; /* its positions follow from the lengths            */
    bool positions;    /* rotary positions are given, and differ from the own ones */
    struct plane_type bias, mask;
    bool alibi;
    float softcap;
    bool smooth_softmax, head_sink;
    int32_t sink_tokens;
    bool ring; /* with a window: as small as it may be, and so turned over */
    bool tree;
    tdm_capture capture;
    tdm_dtype scores;
    bool no_lse;
};

struct gqa_setup {
    const struct gqa_shape *shape;
    struct cache_type cache;
    int64_t k_group, v_group; /* channels of a group of PER_GROUP                                    */
    struct gqa_features with;
    tdm_dtype dtype;               /* of q and out                                                        */
    const int32_t *q_len, *kv_len; /* of each sequence, at most the shape's; NULL: as the shape says     */
    bool interleaved;              /* [batch, rows, heads, channels] in memory, with gaps, as packed projections */
    double magnitude;              /* of q, k and v; 0: 2                                                 */
    float scale;
    uint64_t seed;
};

enum { MAX_INPUTS = 12 };

struct gqa_problem {
    struct problem base;
    tdm_gqa_desc desc;
    tdm_gqa_args args;
    struct guard q, k, v, k_scale, v_scale;
    struct guard input[MAX_INPUTS]; /* of the features */
    int inputs;
    int32_t *q_len, *kv_len;
    struct gqa_expected expected;
};

/* Build the problem: cache slots that no sequence has reached or no query sees, and biases of pairs that are not
 * visible, are filled with 0xff bytes, NaN in every float format. The data may be changed until
 * gqa_problem_expect. */
struct gqa_problem *gqa_problem_new(const struct gqa_setup *setup);

/* Compute what must come out of the data as it is now, and make the inputs read-only. */
void gqa_problem_expect(struct gqa_problem *problem);

void gqa_problem_free(struct gqa_problem *problem);

/* new, expect, all variants, free. NULL, or what was wrong. */
const char *gqa_problem_check(const struct gqa_setup *setup);

/* "window-left, f16, cache i8 token/i4 channel" */
const char *gqa_problem_label(const struct gqa_setup *setup);

#endif
