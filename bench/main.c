/* The command-line tool `tandem`. */
#include "bench.h"
#include "info.h"
#include "tandem.h"

#include <stdio.h>
#include <string.h>

static int help_command(int argc, char **argv)
{
    (void)argc, (void)argv;
    printf("usage: tandem info [--json]\n"
           "         devices, kernels (used, or why not), environment variables and their values\n"
           "       tandem bench OP... [options]\n"
           "         measure ops on shapes; tandem bench --help lists ops and options\n");
    return 0;
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {{"info", info_command}, {"bench", bench_command}, {"help", help_command}, {"--help", help_command}};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 2, argv + 2);
    fprintf(stderr, "tandem: command: got \"%s\", want info, bench or help\n", argc > 1 ? argv[1] : "");
    return 2;
}
