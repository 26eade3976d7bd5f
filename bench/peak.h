/* What this machine can do at best, measured. */
#ifndef BENCH_PEAK_H
#define BENCH_PEAK_H

#include <stddef.h>

/* Fused multiply-adds of f32 on the widest vectors of the processor, in GFLOP/s. */
double peak_gflop_per_s(int threads);

/* Reading `bytes` over and over, split among the threads, in GB/s. */
double peak_gb_per_s(int threads, size_t bytes);

#endif
