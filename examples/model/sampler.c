#include "sampler.h"

#include <math.h>
#include <stdlib.h>

typedef struct choice {
    float probability;
    int32_t token;
} choice;

bool sampler_create(sampler *s, int32_t vocab, float temperature, float top_p, uint64_t seed, error *err)
{
    *s = (sampler){.vocab = vocab, .temperature = temperature, .top_p = top_p, .state = seed};
    s->choices = malloc((size_t)vocab * sizeof *s->choices);
    return s->choices != NULL || fail(err, "sampler: no memory");
}

void sampler_destroy(sampler *s)
{
    free(s->choices);
    *s = (sampler){0};
}

/* A number in [0, 1) from the generator SplitMix64 (Steele, Lea and Flood, 2014). */
static double draw(sampler *s)
{
    uint64_t z = s->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53;
}

static int32_t largest(const float *logits, int32_t count)
{
    int32_t best = 0;
    for (int32_t i = 1; i < count; i++) {
        if (logits[i] > logits[best]) {
            best = i;
        }
    }
    return best;
}

static int likelier_first(const void *a, const void *b)
{
    const choice *x = a, *y = b;
    if (x->probability != y->probability) {
        return x->probability > y->probability ? -1 : 1;
    }
    return x->token - y->token;
}

/* Fill in the tokens that can be among the chosen ones; returns how many. What is less likely than an equal
 * share of 1 - top_p cannot be, and leaving it out spares most of the sorting. */
static int32_t collect(sampler *s, const float *logits, float peak)
{
    const float cutoff = (1 - s->top_p) / (float)s->vocab;
    double total = 0;
    int32_t count = 0;
    for (int32_t i = 0; i < s->vocab; i++) {
        total += exp((double)(logits[i] - peak) / s->temperature);
    }
    for (int32_t i = 0; i < s->vocab; i++) {
        float probability = (float)(exp((double)(logits[i] - peak) / s->temperature) / total);
        if (probability >= cutoff) {
            s->choices[count++] = (choice){probability, i};
        }
    }
    return count;
}

int32_t sampler_next(sampler *s, const float *logits)
{
    const int32_t best = largest(logits, s->vocab);
    if (s->temperature == 0) {
        return best;
    }
    int32_t count = collect(s, logits, logits[best]), kept = 0;
    double sum = 0;
    qsort(s->choices, (size_t)count, sizeof *s->choices, likelier_first);
    while (kept < count && sum < s->top_p) {
        sum += s->choices[kept++].probability;
    }
    double target = draw(s) * sum;
    for (int32_t i = 0; i < kept; i++) {
        target -= s->choices[i].probability;
        if (target < 0) {
            return s->choices[i].token;
        }
    }
    return best;
}
