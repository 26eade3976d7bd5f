/* kv_append on CUDA: what its row (C) and its kernel share. */
#ifndef CUDA_KV_APPEND_H
#define CUDA_KV_APPEND_H

#include "prepare.h"
#include "stored.h"
#include "token_runs.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* New keys, or new values. */
struct append_half {
    struct stored from, to;
    struct prepare prepare;
};

struct append_params {
    struct append_half half[2];
    struct token_runs runs;
};

cudaError_t append_launch(const struct append_params *params, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
