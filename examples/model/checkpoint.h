/* checkpoint.h - a model file, opened and checked: configuration, vocabulary and weights. */
#ifndef CHECKPOINT_H
#define CHECKPOINT_H

#include "vocabulary.h"
#include "weights.h"

typedef struct checkpoint {
    safetensors file;
    config cfg;
    vocabulary vocab;
    weights weights;
} checkpoint;

bool checkpoint_open(checkpoint *c, const char *path, error *err);

/* The same for bytes in memory, by the rules of st_open_memory. */
bool checkpoint_open_memory(checkpoint *c, const void *bytes, size_t size, error *err);

void checkpoint_close(checkpoint *c);

#endif
