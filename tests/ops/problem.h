/* One op with its data and what it must give: run in every variant and with several thread counts. */
#ifndef TESTS_OPS_PROBLEM_H
#define TESTS_OPS_PROBLEM_H

#include "tandem.h"
#include "tests/reference/each_op.h"
#include "tests/reference/guard.h"

#include <stdbool.h>

enum { MAX_OUTPUTS = 4, OUTPUT_FILL = 0xA5 };

/* Memory that the op writes, and what it held before. */
struct output {
    struct guard memory;
    void *initial;
};

struct problem {
    enum each_op op;
    const void *desc, *args; /* its public structs                                        */
    struct output output[MAX_OUTPUTS];
    int outputs;
    bool approximate; /* run the approximate variants, and those alone */
    const char *impl; /* the row that ran                              */
    /* NULL when the outputs are right, else what is wrong with them. */
    const char *(*check)(const struct problem *problem);
};

/* Give the problem one more output, filled with OUTPUT_FILL; NULL for 0 bytes. */
void *problem_output(struct problem *problem, int64_t bytes);

/* What the outputs hold now is what they hold before a run. */
void problem_keep(struct problem *problem);

void problem_free_outputs(struct problem *problem);

/* Create the op, run it once on fresh outputs with a guarded workspace, destroy it. */
tdm_status problem_run(struct problem *problem, tdm_ctx *ctx);

/* Run all variants of the op: each must pass check() on one thread and give the same bytes on 2 and 7.
 * Returns NULL, or a text that names the variant and what was wrong. */
const char *problem_all_variants(struct problem *problem);

/* The same for one variant, called once for each of the variants that take the problem. */
typedef const char *problem_body(struct problem *problem, tdm_ctx *ctx, void *arg);
const char *problem_each_variant(struct problem *problem, int threads, problem_body *body, void *arg);

#endif
