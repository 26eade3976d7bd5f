/* FP8 matrix products: shapes, types and data. */
#ifndef TESTS_OPS_FP8_PROBLEM_H
#define TESTS_OPS_FP8_PROBLEM_H

#include "bench/shapes.h"
#include "problem.h"
#include "tests/reference/reference.h"

#include <stdbool.h>

struct fp8_setup {
    const struct fp8_shape *shape;
    tdm_dtype dtype, scale_dtype;
    bool bias, a_scale;
    bool dynamic;      /* with the scales of each row's own instead of a_scale           */
    bool strided;      /* rows of a, b and out lie further apart than they are long */
    int64_t m;         /* rows of the run; 0: all                                   */
    double magnitude;  /* of a; 0: 2                                                */
    double scale_size; /* of the block scales; 0: 0.01                              */
    uint64_t seed;
};

struct fp8_problem {
    struct problem base;
    tdm_fp8_matmul_desc desc;
    tdm_fp8_matmul_args args;
    struct guard a, b, b_scale, bias, a_scale;
    struct expected expected;
    struct expected widened; /* of the row that multiplies weights which were widened before; empty on the CPU */
};

/* Weights are any code but NaN. The data may be changed until fp8_problem_expect. */
struct fp8_problem *fp8_problem_new(const struct fp8_setup *setup);
void fp8_problem_expect(struct fp8_problem *problem);
void fp8_problem_free(struct fp8_problem *problem);

/* new, expect, all variants, free. NULL, or what was wrong. */
const char *fp8_problem_check(const struct fp8_setup *setup);
const char *fp8_problem_label(const struct fp8_setup *setup);

#endif
