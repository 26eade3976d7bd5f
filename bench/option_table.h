/* What options `tandem bench` has. */
#ifndef BENCH_OPTION_TABLE_H
#define BENCH_OPTION_TABLE_H

#include "options.h"

enum option_kind { FLAG, INTEGER, INTEGERS, NAME, NAMES, NAMES_OR_FLAG, BLOCKS };

struct name {
    const char *text;
    int64_t value;
};

struct option {
    const char *name;
    enum option_kind kind;
    unsigned ops; /* that it is for */
    bool shape;   /* not together with --suite */
    int64_t initial, min, max;
    const struct name *names;
    const char *help;
};

/* By option_id. */
extern const struct option option_table[OPTION_COUNT];

/* Of ops, as bits; ends with NULL. */
extern const struct name op_names[];

#endif
