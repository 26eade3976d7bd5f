#include "peak.h"

#include "clock.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 16
#define TARGET
#define NAME(x) x##_128
#include "peak_body.inc"

#ifdef __x86_64__
#define WIDTH 32
#define TARGET __attribute__((target("avx2,fma")))
#define NAME(x) x##_256
#include "peak_body.inc"

#define WIDTH 64
#define TARGET __attribute__((target("avx512f")))
#define NAME(x) x##_512
#include "peak_body.inc"
#endif

/* One vector width of this processor. */
struct probe {
    int lanes; /* f32 */
    double (*multiply_add)(int64_t steps);
    uint64_t (*read)(const void *memory, size_t bytes);
};

static struct probe widest(void)
{
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return (struct probe){16, multiply_add_512, read_512};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return (struct probe){8, multiply_add_256, read_256};
#endif
    return (struct probe){4, multiply_add_128, read_128};
}

#define TURN_SECONDS 0.03
#define MAX_THREADS 1024
#define STEPS 100000        /* of multiply-adds between two looks at the clock */
#define READ_BYTES 0x100000 /* at least, between two looks at the clock        */

/* One thread of a turn: reads its memory, or multiplies and adds where it has none. */
struct worker {
    pthread_t thread;
    struct probe probe;
    const char *memory;
    size_t bytes;
    double per_second; /* bytes read, or steps of multiply-adds */
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    volatile double sink = 0;
    double start = clock_seconds(), seconds = 0, done = 0;
    for (; seconds < TURN_SECONDS; seconds = clock_seconds() - start) {
        double before = done;
        for (; worker->memory && done < before + READ_BYTES; done += (double)worker->bytes)
            sink = (double)worker->probe.read(worker->memory, worker->bytes);
        if (!worker->memory)
            sink = worker->probe.multiply_add(STEPS), done += STEPS;
    }
    (void)sink;
    worker->per_second = done / seconds;
    return NULL;
}

/* What all workers get done per second. */
static double turn(int threads, const char *memory, size_t share)
{
    static struct worker workers[MAX_THREADS];
    int started = 0;
    for (; started < threads && started < MAX_THREADS; started++) {
        struct worker *worker = &workers[started];
        *worker = (struct worker){.probe = widest(), .memory = memory, .bytes = share};
        if (memory)
            worker->memory += share * (size_t)started;
        if (pthread_create(&worker->thread, NULL, work, worker) != 0)
            break;
    }
    double sum = 0;
    for (int i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        sum += workers[i].per_second;
    }
    return sum;
}

/* The best of a few turns: others may use the machine too. */
static double best(int threads, const char *memory, size_t share)
{
    double rate = 0;
    for (int i = 0; i < 3; i++) {
        double now = turn(threads, memory, share);
        rate = now > rate ? now : rate;
    }
    return rate;
}

double peak_gflop_per_s(int threads)
{
    return best(threads, NULL, 0) * 12 * widest().lanes * 2 * 1e-9;
}

double peak_gb_per_s(int threads, size_t bytes)
{
    size_t line = 1024, share = bytes / (size_t)threads / line * line;
    if (share == 0)
        share = line;
    char *memory = aligned_alloc(line, share * (size_t)threads);
    if (!memory)
        return 0;
    memset(memory, 1, share * (size_t)threads);
    double rate = best(threads, memory, share) * 1e-9;
    free(memory);
    return rate;
}
