#ifndef BENCH_INFO_H
#define BENCH_INFO_H

/* `tandem info`: returns the exit status. */
int info_command(int argc, char **argv);

#endif
