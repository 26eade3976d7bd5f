/* Attention problems: shapes, types, layouts and data. */
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

struct gqa_setup {
    const struct gqa_shape *shape;
    struct cache_type cache;
    tdm_dtype dtype;               /* of q and out                                                        */
    const int32_t *q_len, *kv_len; /* of each sequence, at most the shape's; NULL: as the shape says     */
    bool interleaved;              /* [batch, rows, heads, channels] in memory, with gaps, as packed projections */
    double magnitude;              /* of q, k and v; 0: 2                                                 */
    float scale;
    uint64_t seed;
};

struct gqa_problem {
    struct problem base;
    tdm_gqa_desc desc;
    tdm_gqa_args args;
    struct guard q, k, v, k_scale, v_scale;
    int32_t *q_len, *kv_len;
    struct gqa_expected expected;
};

/* Build the problem: cache slots that no sequence has reached are filled with 0xff bytes, NaN in every float
 * format. The data may be changed until gqa_problem_expect. */
struct gqa_problem *gqa_problem_new(const struct gqa_setup *setup);

/* Compute what must come out of the data as it is now, and make the inputs read-only. */
void gqa_problem_expect(struct gqa_problem *problem);

void gqa_problem_free(struct gqa_problem *problem);

/* new, expect, all variants, free. NULL, or what was wrong. */
const char *gqa_problem_check(const struct gqa_setup *setup);

/* "window-left, f16, cache i8 token/i4 channel" */
const char *gqa_problem_label(const struct gqa_setup *setup);

#endif
