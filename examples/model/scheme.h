/* scheme.h - the names of the ways in which a cache can store keys and values. */
#ifndef SCHEME_H
#define SCHEME_H

#include <stdio.h>

#include "error.h"

typedef struct cache_scheme {
    tdm_dtype dtype;
    tdm_scaling scaling;
    int32_t group; /* channels that share a scale, PER_GROUP only */
    bool rotate;
    bool offset; /* keys only */
} cache_scheme;

/* Read "SCHEME" for both, or "SCHEME/SCHEME" for keys and values. */
bool cache_scheme_parse(const char *text, cache_scheme *k, cache_scheme *v, error *err);

/* Explain what may be given. */
void cache_scheme_usage(FILE *out);

/* True when something has to be measured on another text first: static scales, or an offset. */
bool cache_scheme_is_calibrated(const cache_scheme *scheme);

#endif
