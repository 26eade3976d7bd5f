/* A context with one small, valid problem of every op. A test changes one thing and looks what happens. */
#ifndef TESTS_API_WORLD_H
#define TESTS_API_WORLD_H

#include "tests/reference/each_op.h"

#include <stdint.h>

enum {
    BATCH = 2,
    Q_HEADS = 4,
    KV_HEADS = 2,
    MAX_Q = 3,
    CAPACITY = 8,
    K_DIM = 6,
    V_DIM = 5, /* odd, so that an i4 row ends in half a byte */
    ROWS = 3,
    N = 10,
    K = 20,
    BLOCKS = 3, /* of 8 along K */
    PARTS = 2,
    POSITIONS = 16, /* rows of the rotary tables          */
    KEYS = 12       /* columns of the planes of attention */
};

/* All that ops read and write: one block, to be compared as a whole. */
struct memory {
    float q[BATCH * Q_HEADS * MAX_Q * K_DIM], out[BATCH * Q_HEADS * MAX_Q * V_DIM], lse[BATCH * Q_HEADS * MAX_Q];
    float new_k[BATCH * KV_HEADS * MAX_Q * K_DIM], new_v[BATCH * KV_HEADS * MAX_Q * V_DIM];
    int8_t k[BATCH * KV_HEADS * CAPACITY * K_DIM];
    uint8_t v[BATCH * KV_HEADS * CAPACITY * ((V_DIM + 1) / 2)];
    float k_scale[BATCH * KV_HEADS * CAPACITY], v_scale[KV_HEADS * V_DIM];
    int32_t q_len[BATCH], kv_len[BATCH], new_len[BATCH], pos[BATCH], len[BATCH], drop[BATCH];
    float a[ROWS * K], product[ROWS * N], b_scale[N * BLOCKS], bias[N], a_scale;
    uint8_t b[N * K];
    float plain[4 * 6], back[4 * 6], scale[4];
    int8_t packed[4 * 6];
    float part[PARTS][BATCH * Q_HEADS * MAX_Q * V_DIM], part_lse[PARTS][BATCH * Q_HEADS * MAX_Q];
    float norm[K_DIM], cos[POSITIONS * K_DIM / 2], sin[POSITIONS * K_DIM / 2], k_offset[KV_HEADS * K_DIM];
    int32_t append_positions[BATCH * MAX_Q], gqa_positions[BATCH * MAX_Q];
    float bias_plane[Q_HEADS * MAX_Q * KEYS], scores[BATCH * Q_HEADS * MAX_Q * KEYS], head_sink[Q_HEADS],
        alibi[Q_HEADS];
    uint8_t mask_plane[BATCH * (KEYS + 7) / 8];
    uint64_t tree[BATCH * MAX_Q];
    float shares[BATCH * Q_HEADS * MAX_Q * CAPACITY], dots[BATCH * Q_HEADS * MAX_Q * CAPACITY];
    float mixed[BATCH * Q_HEADS * MAX_Q * V_DIM];
    float merged[BATCH * Q_HEADS * MAX_Q * V_DIM], merged_lse[BATCH * Q_HEADS * MAX_Q];
};

struct world {
    tdm_ctx *ctx;
    tdm_device device;
    tdm_kv_append_desc append; /* to a cache of K i8 PER_TOKEN, V i4 PER_CHANNEL */
    tdm_kv_shift_desc shift;   /* of that cache, with rotary */
    tdm_gqa_desc gqa;
    tdm_merge_states_desc merge;
    tdm_product_desc qk, sv; /* of that cache */
    tdm_fp8_matmul_desc fp8; /* with bias and a_scale */
    tdm_convert_desc quantize, dequantize;
    tdm_kv_append_args append_args;
    tdm_kv_shift_args shift_args;
    tdm_gqa_args gqa_args;
    tdm_merge_states_args merge_args;
    tdm_product_args qk_args, sv_args;
    tdm_fp8_matmul_args fp8_args;
    tdm_convert_args quantize_args, dequantize_args;
    struct memory memory;
    const void *parts[PARTS]; /* of merge_args */
    const float *part_lses[PARTS];

    /* Of the op under test, once it is made. */
    tdm_op *op;
    tdm_workspace *workspace;
    const void *args;
};

/* A valid world on the CPU without a context. */
void world_init(struct world *world);

/* ... with a context of `threads` threads that has no GPU; stops the test when that fails. */
void world_open(struct world *world, int threads);

/* Destroy what world->op and world->workspace hold, and close the context. */
void world_close(struct world *world);

/* Give append and gqa every feature at once: norms, rotary, rotation, offset, a ring, all that is added to scores. */
void world_enrich(struct world *world);

/* Make world->op, and world->workspace when it needs one. */
tdm_status world_create(struct world *world, enum each_op op);
tdm_status world_make(struct world *world, enum each_op op);
tdm_status world_run(struct world *world, enum each_op op);

/* Run all ops once, in the order of enum each_op. */
tdm_status world_run_all(struct world *world);

#endif
