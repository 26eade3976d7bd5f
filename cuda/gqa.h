/* gqa on CUDA: what its row (C) and its kernels share. A row is one query head of the group at one query token. */
#ifndef CUDA_GQA_H
#define CUDA_GQA_H

#include "prepare.h"
#include "stored.h"
#include "token_runs.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KEY_BLOCK = 128, /* keys of a block; blocks lie at multiples of it              */
    PART_KEYS = 512, /* keys of a part, at least                                    */
    MAX_PARTS = 32,  /* one for each lane of the warp that merges them              */
    SPLIT_ROWS = 32, /* sequences of more rows are not split: they fill the device */
    ROW_STATE = 3,   /* m, l and the shift of a row in the workspace, before its o  */
};

/* The keys of a run's sequence. Of its blocks those are visited that some query of the sequence may see: the first
 * sink_blocks, and those from first_block on. They are cut into parts of part_blocks. */
struct gqa_keys {
    int32_t kv_len, start; /* start: the position of query 0 */
    int32_t blocks, sink_blocks, first_block;
    int32_t parts, part_blocks;
};

struct gqa_params {
    struct stored q, k, v, out;
    struct prepare prepare;
    const float *head_sink; /* NULL: none, or sink for all where has_sink is set */
    float *lse;             /* NULL: not wanted */
    float *partials;        /* [batch, kv_heads, max_parts, split_rows, ROW_STATE + channels of v] */
    float scale, softcap, rotate_v;
    int32_t has_sink;
    int32_t window_left, window_right, sink_tokens;
    int32_t group, max_parts, split_rows;
    struct token_runs runs;
    struct gqa_keys keys[MAX_RUNS];
};

cudaError_t gqa_launch(const struct gqa_params *params, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
