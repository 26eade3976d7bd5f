/* report.h - speeds, sizes and times, on stderr. */
#ifndef REPORT_H
#define REPORT_H

#include "model.h"

/* A clock that only rises. */
double seconds(void);

void report_speed(const char *what, int64_t tokens, double time);

/* `scheme` as the user named it. */
void report_cache(const model *m, const char *scheme);

/* What lies on the GPU, and which part of the whole time went where; nothing when there is no GPU in use. */
void report_device(const model *m, double whole);

#endif
