#include "pairs.h"

#include "tests/reference/random.h"

#include <string.h>

enum { CANDIDATES = 20, ATTEMPTS = 500, OPEN = -1 };

struct cover {
    const struct factor *factors;
    int n;
    pair_excluded *excluded;
    bool done[MAX_FACTORS][MAX_LEVELS][MAX_FACTORS][MAX_LEVELS]; /* first factor < second */
    struct random random;
};

static bool is_excluded(pair_excluded *excluded, int f, int a, int g, int b)
{
    return f < g ? excluded(f, a, g, b) : excluded(g, b, f, a);
}

static bool *done(struct cover *cover, int f, int a, int g, int b)
{
    return f < g ? &cover->done[f][a][g][b] : &cover->done[g][b][f][a];
}

/* New pairs that level a of factor f makes with what the configuration has; -1 when it cannot go there. */
static int gain(struct cover *cover, const struct config *config, int f, int a)
{
    int pairs = 0;
    for (int g = 0; g < cover->n; g++) {
        int b = config->level[g];
        if (g == f || b == OPEN)
            continue;
        if (is_excluded(cover->excluded, f, a, g, b))
            return -1;
        pairs += !*done(cover, f, a, g, b);
    }
    return pairs;
}

/* The best level of a factor, one of the best at random; OPEN when none can go there. */
static int best_level(struct cover *cover, const struct config *config, int f, int *pairs)
{
    int best = OPEN, most = -1, ties = 0;
    for (int a = 0; a < cover->factors[f].levels; a++) {
        int here = gain(cover, config, f, a);
        if (here < 0 || here < most)
            continue;
        ties = here > most ? 1 : ties + 1;
        most = here;
        if (random_below(&cover->random, ties) == 0)
            best = a;
    }
    *pairs += most;
    return best;
}

/* Fill the open factors in random order. Returns the new pairs, or -1 for a dead end. */
static int complete(struct cover *cover, struct config *config)
{
    int order[MAX_FACTORS], pairs = 0;
    for (int f = 0; f < cover->n; f++) {
        int at = (int)random_below(&cover->random, f + 1);
        order[f] = order[at];
        order[at] = f;
    }
    for (int i = 0; i < cover->n; i++) {
        if (config->level[order[i]] != OPEN)
            continue;
        int level = best_level(cover, config, order[i], &pairs);
        if (level == OPEN)
            return -1;
        config->level[order[i]] = level;
    }
    return pairs;
}

/* The best of some candidates that hold the pair. */
static bool choose(struct cover *cover, int f, int a, int g, int b, struct config *chosen)
{
    int most = -1;
    for (int made = 0, tried = 0; made < CANDIDATES && tried < ATTEMPTS; tried++) {
        struct config candidate;
        for (int i = 0; i < cover->n; i++)
            candidate.level[i] = OPEN;
        candidate.level[f] = a;
        candidate.level[g] = b;
        int pairs = complete(cover, &candidate);
        made += pairs >= 0;
        if (pairs > most) {
            most = pairs;
            *chosen = candidate;
        }
    }
    return most >= 0;
}

static void mark(struct cover *cover, const struct config *config)
{
    for (int f = 0; f < cover->n; f++)
        for (int g = f + 1; g < cover->n; g++)
            cover->done[f][config->level[f]][g][config->level[g]] = true;
}

/* The next pair to cover from *pair on, where pairs are numbered; false when there is none. */
static bool next_pair(struct cover *cover, int *pair, int *f, int *a, int *g, int *b)
{
    for (; *pair < MAX_FACTORS * MAX_LEVELS * MAX_FACTORS * MAX_LEVELS; ++*pair) {
        *b = *pair % MAX_LEVELS;
        *g = *pair / MAX_LEVELS % MAX_FACTORS;
        *a = *pair / MAX_LEVELS / MAX_FACTORS % MAX_LEVELS;
        *f = *pair / MAX_LEVELS / MAX_FACTORS / MAX_LEVELS;
        if (*f < *g && *g < cover->n && *a < cover->factors[*f].levels && *b < cover->factors[*g].levels &&
            !cover->done[*f][*a][*g][*b] && !cover->excluded(*f, *a, *g, *b))
            return true;
    }
    return false;
}

int pairs_cover(const struct factor *factors, int n, pair_excluded *excluded, struct config *configs)
{
    static struct cover cover;
    memset(&cover, 0, sizeof cover);
    cover.factors = factors;
    cover.n = n;
    cover.excluded = excluded;
    int count = 0, pair = 0, f, a, g, b;
    while (next_pair(&cover, &pair, &f, &a, &g, &b)) {
        if (count == MAX_CONFIGS || !choose(&cover, f, a, g, b, &configs[count]))
            return -1;
        mark(&cover, &configs[count++]);
    }
    return count;
}

int pairs_wanted(const struct factor *factors, int n, pair_excluded *excluded)
{
    return pairs_missing(factors, n, excluded, 0, 0);
}

int pairs_missing(const struct factor *factors, int n, pair_excluded *excluded, const struct config *configs, int count)
{
    int missing = 0;
    for (int f = 0; f < n; f++)
        for (int g = f + 1; g < n; g++)
            for (int a = 0; a < factors[f].levels; a++)
                for (int b = 0; b < factors[g].levels; b++) {
                    bool found = excluded(f, a, g, b);
                    for (int i = 0; i < count && !found; i++)
                        found = configs[i].level[f] == a && configs[i].level[g] == b;
                    missing += !found;
                }
    return missing;
}
