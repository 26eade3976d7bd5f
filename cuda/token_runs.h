/* The tokens of one launch. Lengths and positions are host memory and reach the kernels as parameters, which are
 * limited to 4 KB: so many sequences at a time, and so many tokens where the caller gives each its position. */
#ifndef CUDA_TOKEN_RUNS_H
#define CUDA_TOKEN_RUNS_H

#include <stdbool.h>
#include <stdint.h>

enum { MAX_RUNS = 32, MAX_POSITIONS = 512 };

/* Neighbouring tokens of one sequence. */
struct token_run {
    int32_t sequence, first, count;
    int32_t position; /* of the first                             */
    int32_t given;    /* index of the first in `positions`, or -1 */
};

struct token_runs {
    int32_t count, positions; /* in use */
    struct token_run run[MAX_RUNS];
    int32_t position[MAX_POSITIONS];
};

/* The most tokens of a run. */
static inline int32_t token_runs_longest(const struct token_runs *runs)
{
    int32_t longest = 0;
    for (int32_t i = 0; i < runs->count; i++)
        longest = runs->run[i].count > longest ? runs->run[i].count : longest;
    return longest;
}

/* All tokens of a batch, and how far they are already in launches. */
struct tokens {
    const int32_t *length;    /* [batch] */
    const int32_t *positions; /* [batch, stride], or NULL: token i of a sequence is at its start + i */
    int64_t batch, stride;
    int32_t most;  /* tokens of a run, at least 1 */
    int32_t token; /* the next one                */
    int64_t sequence;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Take the next runs out of `tokens`; false when there are none. Their `position` is left 0. */
bool token_runs_next(struct tokens *tokens, struct token_runs *runs);

#ifdef __cplusplus
}
#endif
#endif
