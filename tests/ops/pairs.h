/* Covering arrays of strength two: few configurations in which every pair of values of two factors that may go
 * together does (Cohen et al., The AETG System, 1997). */
#ifndef TESTS_OPS_PAIRS_H
#define TESTS_OPS_PAIRS_H

#include <stdbool.h>

enum { MAX_FACTORS = 32, MAX_LEVELS = 20, MAX_CONFIGS = 1000 };

struct factor {
    const char *name;
    int levels;
};

struct config {
    int level[MAX_FACTORS];
};

/* Whether level a of factor f cannot go with level b of factor g; f < g. */
typedef bool pair_excluded(int f, int a, int g, int b);

/* Find configurations that cover all pairs that are not excluded, the same ones in each call; none holds an excluded
 * pair. Returns their number, or -1 when a pair finds no company. */
int pairs_cover(const struct factor *factors, int n, pair_excluded *excluded, struct config *configs);

/* How many pairs must be covered, and how many of them the configurations leave out. */
int pairs_wanted(const struct factor *factors, int n, pair_excluded *excluded);
int pairs_missing(const struct factor *factors, int n, pair_excluded *excluded, const struct config *configs,
                  int count);

#endif
