/* What many timings of one thing say. */
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

struct stats {
    double median, p10, p90, min;
};

/* Of n >= 1 values, which get sorted. Quantiles lie between neighbours in proportion. */
struct stats stats_of(double *values, int n);

#endif
