/* The variables the library reads: one row each, read once when a context opens. */
#ifndef COMMON_ENVIRONMENT_H
#define COMMON_ENVIRONMENT_H

#include "tandem.h"

#include <stdbool.h>

enum variable {
    VAR_THREADS,
    VAR_SKIP,
    VAR_ALLOW,
    VAR_LOG,
    VAR_TRACE,
    VAR_CUDA_PLUGIN,
    VAR_ORT_DISABLE_FLASH, /* from here on other libraries' names, with their meaning */
    VAR_ORT_APPROX_VNNI,
    VAR_ORT_FP8_MMA,
    VAR_CPU_ISA,
    VARIABLES
};

struct variable_row {
    const char *name, *meaning;
};
extern const struct variable_row variable_rows[VARIABLES];

/* What each variable held at open; NULL where it was not set. Owned by the context. */
struct environment {
    char *value[VARIABLES];
};

/* Read the variables from env ("NAME=value" up to a NULL), or from the process when it is NULL. BAD_ARG for a
 * TANDEM_ variable that is no row, NO_MEMORY; what was read is the caller's to free either way. */
tdm_status environment_read(struct environment *environment, const tdm_allocator *allocator, const char *const *env);
void environment_free(struct environment *environment, const tdm_allocator *allocator);

/* The number in variable `index`, between least and most; `otherwise` when it is not set. */
tdm_status environment_number(const struct environment *environment, enum variable index, int least, int most,
                              int otherwise, int *number);

/* The position of variable `index`'s value among `words` (NULL-ended); `otherwise` when it is not set. */
tdm_status environment_choice(const struct environment *environment, enum variable index, const char *const *words,
                              int otherwise, int *choice);

/* Other libraries' variables never fail: a value that means nothing is ignored. A switch acts on one impl row. */
enum effect { LEAVES_OUT, LETS_IN };

/* The name of the switch whose value leaves out, or lets in, this row; NULL when there is none. */
const char *environment_switch(const struct environment *environment, const char *row, enum effect effect);

/* Whether variable `index` is a switch with a value that means nothing. */
bool environment_is_odd(const struct environment *environment, enum variable index);

/* How many of the leaf rows, best first and ended by NULL, are better than CA_CPU_ISA allows; -1 when its value is
 * neither a tier nor one of them. */
int environment_demoted(const struct environment *environment, const char *const *rows);

/* Whether the comma-separated list holds name. list may be NULL. */
bool list_holds(const char *list, const char *name);

#endif
