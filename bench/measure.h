/* One case, from its description to its result. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "job.h"
#include "report.h"

#include <stdbool.h>

/* False after a message on stderr. Results that --check finds wrong are a failure too. */
bool measure(struct job *job, struct result *result);

#endif
