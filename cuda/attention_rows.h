/* The attention ops' rows, and how they say what their kernels cannot do. */
#ifndef CUDA_ATTENTION_ROWS_H
#define CUDA_ATTENTION_ROWS_H

#include "common/backend.h"

enum { MAX_RUN = 1 << 30 }; /* rows of a run: its blocks fit a grid */

extern const struct impl cuda_append, cuda_flash;

/* A field of a desc, and whether it asks for what is not there. */
struct wish {
    const char *field;
    bool wanted;
};

/* False, with the first wanted field as the reason. */
bool fits_wishes(const struct wish *wishes, size_t count, char *reason);

#endif
