/* The results of `tandem bench`, as a table for people, as comma-separated values or as JSON. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "job.h"

#include <stdbool.h>

struct result {
    const char *op;
    char shape[LABEL_SIZE], dtypes[LABEL_SIZE];
    const char *impl, *leaf;
    double threads, copies, repeats; /* copies of the data that the runs rotate over: 1 is warm */
    double median_us, p10_us, p90_us, min_us;
    double gb_per_s, gflop_per_s;           /* ideal traffic and work over the median      */
    double error;                           /* with --check                                */
    double peak_gb_per_s, peak_gflop_per_s; /* with --peak: what the machine can do        */
    double share;                           /* the larger of the two fractions of the peak */
    /* Not on the CPU: */
    char device[128];
    const char *timing;               /* "graph" or "runs"                                    */
    double copy_gb_per_s, copy_share; /* of a copy on the device, and gb_per_s over it        */
    double vendor_us;                 /* the vendor's f16 product of this shape; NAN: none    */
};

struct report {
    enum { REPORT_TABLE, REPORT_CSV, REPORT_JSON } format;
    bool check, peak, device; /* whether their columns are there */
    int rows;
};

void report_row(struct report *report, const struct result *result);

#endif
