#include "report.h"

#include <stdio.h>
#include <time.h>

double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void report_speed(const char *what, int64_t tokens, double time)
{
    fprintf(stderr, "%-11s%6lld tokens %9.1f tokens/s\n", what, (long long)tokens, (double)tokens / time);
}

void report_cache(const model *m, const char *scheme)
{
    fprintf(stderr, "%-11s%6lld tokens %9.3f MB (%s)\n", "KV cache", (long long)m->context,
            (double)m->cache.bytes * 1e-6, scheme);
}

static void report_part(const char *what, const char *where, double time, double whole)
{
    fprintf(stderr, "%-11s%-6s        %9.3f s %5.1f %%\n", what, where, time, 100 * time / whole);
}

void report_device(const model *m, double whole)
{
    static const struct {
        const char *name;
        part part;
    } parts[] = {{"matmuls", MATMULS}, {"attention", ATTENTION}, {"copies in", COPIES_IN}, {"copies out", COPIES_OUT}};
    if (m->gpu.ctx == NULL) {
        return;
    }
    fprintf(stderr, "%-11s%-6s        %9.3f MB\n", "weights", "cuda", (double)m->uploaded * 1e-6);
    fprintf(stderr, "%-11s%-6s        %9.3f MB (%s)\n", "in all", "cuda", (double)m->gpu.bytes * 1e-6, m->gpu.name);
    double rest = whole;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const double there = m->gpu.seconds[parts[i].part], here = m->cpu.seconds[parts[i].part];
        report_part(parts[i].name, here > there ? "cpu" : "cuda", there + here, whole);
        rest -= there + here;
    }
    report_part("the rest", "cpu", rest, whole);
}
