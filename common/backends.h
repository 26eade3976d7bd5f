/* The backends of a context: the CPU linked in, the others loaded when first asked for. */
#ifndef COMMON_BACKENDS_H
#define COMMON_BACKENDS_H

#include "backend.h"

#include <pthread.h>

enum { BACKENDS = 2 }; /* one for each tdm_device_kind */

struct loaded {
    pthread_mutex_t lock; /* held while it is being loaded       */
    bool tried;
    const struct backend *backend; /* NULL when it is absent              */
    void *state;
    void *library;            /* of dlopen                           */
    char reason[REASON_SIZE]; /* why it is absent                    */
};

/* Open the CPU backend. */
tdm_status backends_open(tdm_ctx *ctx);
void backends_close(tdm_ctx *ctx);

/* BAD_ARG when TANDEM_SKIP or TANDEM_ALLOW names a row that no backend has. */
tdm_status backends_check_rows(tdm_ctx *ctx);

/* The backend of a kind, loaded now if need be; NULL when it is absent, see its reason. */
struct loaded *backends_get(tdm_ctx *ctx, tdm_device_kind kind);

/* BAD_ARG for a kind or index that cannot be, NO_DEVICE with the reason for one that is absent. */
tdm_status backends_find(tdm_ctx *ctx, tdm_device device, struct loaded **found);

/* Leaf row `index`; false past the end, and always of a backend without leaves. */
static inline bool backend_leaf(const struct backend *backend, void *state, int index, tdm_kernel *row)
{
    return backend->leaf && backend->leaf(state, index, row);
}

#endif
