/* One deliberate fault per sanitizer: a run that reports nothing here would report nothing anywhere. */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int shared;

static void *increment(void *unused)
{
    shared++;
    return unused;
}

static void leak(void)
{
    /* Several, for a stale register or stack slot may still point to the last. */
    for (int i = 0; i < 8; i++) {
        volatile char *lost = malloc(64);
        lost[0] = 1;
    }
}

static void overflow(void)
{
    volatile char *volatile small = malloc(8); /* UBSan cannot tell its size, AddressSanitizer must */
    volatile int past = 8;
    small[past] = 1;
    free((void *)small);
}

static void signed_overflow(void)
{
    volatile int most = INT_MAX;
    most = most + 1;
}

static void race(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, increment, NULL))
        return;
    shared++;
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*commit)(void);
    } faults[] = {{"leak", leak}, {"overflow", overflow}, {"signed", signed_overflow}, {"race", race}};
    for (size_t i = 0; argc == 2 && i < sizeof faults / sizeof *faults; i++)
        if (!strcmp(argv[1], faults[i].name)) {
            faults[i].commit();
            return 0;
        }
    fprintf(stderr, "usage: sanitizer_bites leak|overflow|signed|race\n");
    return 2;
}
