/* Every way in which this machine can run an op: each impl row with each leaf row, one at a time, chosen by
 * leaving all others out. A new row is tested as soon as it stands in its table. */
#ifndef TESTS_OPS_VARIANTS_H
#define TESTS_OPS_VARIANTS_H

#include "tandem.h"

#include <stdbool.h>

struct variant {
    char impl[32], leaf[32];
    char skip[512];  /* "TANDEM_SKIP=..."                    */
    char allow[128]; /* "TANDEM_ALLOW=..." where it needs it */
    char label[80];  /* "flash on avx2"                      */
};

/* The usable variants of an op on the device of the test, on leaves that keep the numeric contract: of impls that keep it too, or of
 * those that give it up. */
int variants_of(const char *op, bool approximate, const struct variant **variants);

/* A context whose runs of the op can only use this variant, and a count of what its runs used. */
struct forced {
    tdm_ctx *ctx;
    const struct variant *variant;
    const char *op;
    int threads;
    int runs, strays; /* strays: runs that used another row */
};

/* The context with so many threads: of the library's own pool up to FEW_THREADS, else of a host pool, whose
 * threads are cheaper to start. Opened once in a process, with the counts at 0 each time; NULL when that fails. */
enum { FEW_THREADS = 2 };
struct forced *forced_get(const char *op, const struct variant *variant, int threads);

/* NULL when all runs so far used the variant, and there was one; else a text. */
const char *forced_check(const struct forced *forced);

#endif
