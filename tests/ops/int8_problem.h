/* Problems of the approximate row int8_decode. Its contract is a formula of its own (docs/numerics.md): attention
 * of the query rounded to integers, which are determined. */
#ifndef TESTS_OPS_INT8_PROBLEM_H
#define TESTS_OPS_INT8_PROBLEM_H

#include "gqa_problem.h"

/* gqa_problem_new, for the approximate variants: INT8 keys and values without groups. */
struct gqa_problem *int8_problem_new(const struct gqa_setup *setup);

/* Compute what must come out by the contract: the reference of attention on the rounded queries, and the bound that it
 * has for them. For queries without norm, rotary, rotation and offset. */
void int8_problem_expect(struct gqa_problem *problem);

#endif
