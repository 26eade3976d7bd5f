/* A cache object: memory, lengths and the ops that use them. */
#ifndef COMMON_CACHE_OBJECT_H
#define COMMON_CACHE_OBJECT_H

#include "tandem.h"

#include <stdbool.h>

enum cache_part { CACHE_APPEND, CACHE_ATTEND, CACHE_READ_K, CACHE_READ_V, CACHE_PARTS };

struct tdm_cache {
    tdm_ctx *ctx;
    tdm_device device;
    tdm_kv_cache desc; /* settled */
    tdm_kv_data data;
    int32_t window_left, max_q;
    struct {
        tdm_op *op; /* those that read back are there on the CPU only */
        tdm_workspace *workspace;
    } part[CACHE_PARTS];
    tdm_kv_append_args append; /* all but the tokens  */
    tdm_gqa_args attend;       /* all but the queries */
    int32_t *length;           /* [batch]             */
    int32_t *newest; /* [batch] the longest that the rows in use have been: what lies a ring behind it is gone */
};

#endif
