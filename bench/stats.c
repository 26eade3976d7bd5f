#include "stats.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const double *sorted, int n, double share)
{
    double place = share * (n - 1);
    int below = (int)place;
    int above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

struct stats stats_of(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, ascending);
    return (struct stats){.median = quantile(values, n, 0.5),
                          .p10 = quantile(values, n, 0.1),
                          .p90 = quantile(values, n, 0.9),
                          .min = values[0]};
}
