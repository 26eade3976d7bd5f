/* The data of the features of an attention problem. */
#ifndef TESTS_OPS_GQA_INPUTS_H
#define TESTS_OPS_GQA_INPUTS_H

#include "gqa_problem.h"
#include "tests/reference/random.h"

/* Fill in the desc and the args that the features need; q, the cache and the lengths are there. */
void gqa_describe_features(struct gqa_problem *p, const struct gqa_setup *setup);
void gqa_fill_features(struct gqa_problem *p, const struct gqa_setup *setup, struct random *random);

/* Put NaN wherever no query looks: rows of the cache with their scales, and biases. */
void gqa_hide(struct gqa_problem *p);

#endif
