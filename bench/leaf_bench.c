/* How fast each leaf of each table is that this machine can run: one thread, all data in the caches save the weights
 * of fp8_dot.
 *
 *   leaf_bench [NAME]    only leaves whose name begins with NAME */
#include "clock.h"
#include "cpu/isa.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 256, CHANNELS = 128, DEPTH = 4096, BLOCK = 128, COLUMNS = 16384, WEIGHTS = COLUMNS * DEPTH };

static const struct {
    const char *name;
    int bits;
} types[LEAF_TYPES] = {{"f32", 32}, {"f16", 16}, {"bf16", 16}, {"i8", 8}, {"i4", 4}, {"f8e4m3", 8}};

/* A leaf at work. The stored rows are zeros: no leaf takes longer for other numbers. */
struct job {
    const struct leaf_table *leaf;
    enum leaf_type type;
    int rows;
    struct leaf_rows stored, weights;
    float *left, *out;
};

static void run_qk(const struct job *j)
{
    j->leaf->qk[j->type](j->left, CHANNELS, j->stored, j->out, KEYS, j->rows, KEYS, CHANNELS, false);
}

static void run_sv(const struct job *j)
{
    j->leaf->sv[j->type](j->left, KEYS, j->stored, j->out, CHANNELS, j->rows, KEYS, CHANNELS, false);
}

static void run_widen(const struct job *j)
{
    j->leaf->widen[j->type](j->stored, j->out, CHANNELS, KEYS, CHANNELS);
}

static void run_transpose(const struct job *j)
{
    j->leaf->transpose[j->type](j->stored, j->out, KEYS, KEYS, CHANNELS);
}

static void run_softmax(const struct job *j)
{
    float m = -INFINITY, l = 0.0f;
    j->leaf->softmax(j->out, KEYS, NULL, NULL, &m, &l);
}

static void run_fp8_dot(const struct job *j)
{
    j->leaf->fp8_dot(j->left, DEPTH, j->weights, j->left, 0, BLOCK, j->out, COLUMNS, j->rows, COLUMNS, DEPTH);
}

/* Each leaf, for how many rows, and the work of one call per row and in all: operations, and bytes of stored rows. */
static const struct {
    const char *name;
    void (*run)(const struct job *);
    int rows[8];
    bool per_type;
    double flop_per_row, elements;
} cases[] = {
    {"qk", run_qk, {1, 2, 4, 8, 96}, true, 2.0 * KEYS *CHANNELS, KEYS *CHANNELS},
    {"sv", run_sv, {1, 2, 4, 8, 96}, true, 2.0 * KEYS *CHANNELS, KEYS *CHANNELS},
    {"widen", run_widen, {1}, true, 0, KEYS *CHANNELS},
    {"transpose", run_transpose, {1}, true, 0, KEYS *CHANNELS},
    {"softmax", run_softmax, {1}, false, 0, KEYS},
    {"fp8_dot", run_fp8_dot, {1, 2, 4, 8}, false, 2.0 * WEIGHTS, WEIGHTS},
};

/* Seconds of one call: the best of some turns of at least two milliseconds. */
static double best_seconds(void (*run)(const struct job *), const struct job *job)
{
    double best = INFINITY;
    for (int turn = 0; turn < 15; turn++) {
        int calls = 0;
        double start = clock_seconds(), spent = 0;
        for (; spent < 2e-3; spent = clock_seconds() - start, calls++)
            run(job);
        best = fmin(best, spent / calls);
    }
    return best;
}

static void bench_table(struct job *job, const char *only)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int type = 0; type < (cases[i].per_type ? LEAF_TYPES : 1); type++)
            for (int r = 0; r < 8 && cases[i].rows[r] > 0; r++) {
                if (only && strncmp(cases[i].name, only, strlen(only)) != 0)
                    continue;
                int bits = cases[i].per_type ? types[type].bits : cases[i].run == run_softmax ? 32 : 8;
                job->type = (enum leaf_type)type;
                job->rows = cases[i].rows[r];
                job->stored.stride = CHANNELS * bits / 8;
                double seconds = best_seconds(cases[i].run, job);
                printf("%-8s %-10s %-7s %3d rows %8.1f GFLOP/s %8.1f GB/s\n", job->leaf->name, cases[i].name,
                       cases[i].per_type ? types[type].name : "", job->rows,
                       cases[i].flop_per_row * job->rows / seconds * 1e-9,
                       cases[i].elements * bits / 8 / seconds * 1e-9);
            }
}

int main(int argc, char **argv)
{
    struct cpu_machine machine;
    cpu_detect(&machine);
    struct job job = {0};
    void *stored = calloc(KEYS * CHANNELS, sizeof(float)), *weights = malloc(WEIGHTS);
    job.left = calloc(96 * DEPTH, sizeof(float));
    job.out = calloc(96 * COLUMNS, sizeof(float));
    if (!stored || !weights || !job.left || !job.out) {
        puts("out of memory");
        return 1;
    }
    memset(weights, 0, WEIGHTS);
    job.stored.data = stored;
    job.weights = (struct leaf_rows){weights, DEPTH, NULL};
    for (int i = 0; cpu_leaves[i]; i++) {
        struct leaf_table full = cpu_leaf_resolve(cpu_leaves[i]);
        job.leaf = &full;
        if (!(full.needs & ~machine.features))
            bench_table(&job, argc > 1 ? argv[1] : NULL);
    }
    free(stored);
    free(weights);
    free(job.left);
    free(job.out);
    return 0;
}
