/* options.h - the command line of tandem-run. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdio.h>

#include "scheme.h"

typedef struct options {
    const char *model;
    const char *prompt; /* what to do: exactly one of prompt, perplexity and calibrate */
    const char *perplexity;
    const char *calibrate;
    const char *calibration; /* NULL: the model's path and ".calibration" */
    const char *logits;      /* write the prompt's logits there instead of generating */
    bool raw, tokenize, help;
    int64_t max_tokens, tokens, chunk, context, threads, seed; /* chunk, context: 0 is automatic */
    double temperature, top_p;
    const char *cache; /* as it was given */
    cache_scheme k, v;
    tdm_dtype activations;
    tdm_device_kind device, attention; /* of matrix products and the weights; of attention and the cache */
} options;

bool options_parse(options *o, int argc, char **argv, error *err);
void options_usage(FILE *out);

#endif
