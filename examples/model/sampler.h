/* sampler.h - choose the next token from logits. */
#ifndef SAMPLER_H
#define SAMPLER_H

#include <stdint.h>

#include "error.h"

typedef struct sampler {
    int32_t vocab;
    float temperature; /* 0: always the largest logit */
    float top_p;       /* draw from the fewest tokens whose probabilities reach this together */
    uint64_t state;
    struct choice *choices; /* [vocab] */
} sampler;

bool sampler_create(sampler *s, int32_t vocab, float temperature, float top_p, uint64_t seed, error *err);
void sampler_destroy(sampler *s);

int32_t sampler_next(sampler *s, const float *logits);

#endif
