#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

/* `tandem bench`: returns the exit status. */
int bench_command(int argc, char **argv);

#endif
