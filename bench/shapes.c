#include "shapes.h"

#define TESTS SUITE_TESTS
#define SMOKE SUITE_SMOKE
#define DECODE SUITE_DECODE
#define PREFILL SUITE_PREFILL
#define CAUSAL -1, 0

/* clang-format off */
const struct gqa_shape gqa_shapes[] = {
    /* name                suites           batch heads dims      q_len kv_len  windows ragged */
    {"decode-1",           TESTS,           1, 1, 1, 16, 16,      1, 1,         CAUSAL, false},
    {"decode-33",          TESTS | SMOKE,   1, 4, 2, 64, 64,      1, 33,        CAUSAL, false},
    {"decode-300",         TESTS,           1, 8, 2, 128, 128,    1, 300,       CAUSAL, false},
    {"decode-split",       TESTS,           1, 2, 1, 64, 64,      1, 2500,      CAUSAL, false},
    {"decode-batch",       TESTS,           5, 6, 3, 32, 32,      1, 70,        CAUSAL, true},
    {"decode-batch-257",   TESTS,           257, 2, 1, 8, 8,      1, 9,         CAUSAL, true},
    {"decode-model",       TESTS | DECODE,  1, 9, 3, 64, 64,      1, 512,       CAUSAL, false},
    {"speculate-4",        TESTS,           2, 4, 2, 64, 64,      4, 100,       CAUSAL, false},
    {"prefill-17",         TESTS,           1, 4, 2, 64, 64,      17, 17,       CAUSAL, false},
    {"prefill-130",        TESTS | SMOKE,   1, 6, 2, 64, 64,      130, 130,     CAUSAL, false},
    {"prefill-batch",      TESTS,           4, 2, 1, 32, 32,      40, 40,       CAUSAL, true},
    {"chunk-65",           TESTS,           1, 4, 1, 64, 64,      65, 200,      CAUSAL, false},
    {"chunk-ragged",       TESTS,           5, 4, 2, 40, 40,      33, 150,      CAUSAL, true},
    {"bidirectional",      TESTS,           2, 4, 2, 64, 64,      50, 80,       -1, -1, false},
    {"window-left",        TESTS,           1, 4, 2, 64, 64,      90, 300,      16, 0,  false},
    {"window-own-token",   TESTS,           2, 2, 1, 32, 32,      20, 30,       0, 0,   false},
    {"window-both",        TESTS,           3, 4, 2, 32, 32,      70, 140,      33, 5,  true},
    {"window-decode",      TESTS,           1, 4, 2, 64, 64,      1, 1500,      127, 0, false},

    {"group-1",            TESTS,           1, 5, 5, 24, 24,      3, 20,        CAUSAL, false},
    {"group-2",            TESTS,           1, 4, 2, 24, 24,      3, 20,        CAUSAL, false},
    {"group-3",            TESTS,           1, 6, 2, 24, 24,      3, 20,        CAUSAL, false},
    {"group-4",            TESTS,           1, 8, 2, 24, 24,      3, 20,        CAUSAL, false},
    {"group-5",            TESTS,           1, 10, 2, 24, 24,     3, 20,        CAUSAL, false},
    {"group-6",            TESTS,           1, 12, 2, 24, 24,     3, 20,        CAUSAL, false},
    {"group-7",            TESTS,           1, 14, 2, 24, 24,     3, 20,        CAUSAL, false},
    {"group-8",            TESTS,           1, 16, 2, 24, 24,     3, 20,        CAUSAL, false},
    {"group-12",           TESTS,           1, 24, 2, 24, 24,     3, 20,        CAUSAL, false},
    {"group-16",           TESTS,           1, 32, 2, 24, 24,     3, 20,        CAUSAL, false},
    {"one-kv-head",        TESTS,           2, 12, 1, 64, 64,     2, 40,        CAUSAL, false},

    {"dim-1",              TESTS,           1, 2, 1, 1, 1,        2, 20,        CAUSAL, false},
    {"dim-7",              TESTS,           2, 2, 1, 7, 7,        3, 35,        CAUSAL, false},
    {"dim-8",              TESTS,           1, 2, 1, 8, 8,        3, 35,        CAUSAL, false},
    {"dim-33",             TESTS,           1, 2, 2, 33, 33,      9, 35,        CAUSAL, false},
    {"dim-72",             TESTS,           1, 2, 1, 72, 72,      3, 35,        CAUSAL, false},
    {"dim-80",             TESTS,           1, 2, 1, 80, 80,      3, 35,        CAUSAL, false},
    {"dim-96",             TESTS,           1, 2, 1, 96, 96,      3, 35,        CAUSAL, false},
    {"dim-112",            TESTS,           1, 2, 1, 112, 112,    3, 35,        CAUSAL, false},
    {"dim-192",            TESTS,           1, 2, 1, 192, 192,    3, 35,        CAUSAL, false},
    {"dim-256",            TESTS,           1, 2, 1, 256, 256,    18, 35,       CAUSAL, false},
    {"dim-512",            TESTS,           1, 2, 1, 512, 512,    3, 35,        CAUSAL, false},
    {"dims-192-128",       TESTS,           1, 4, 2, 192, 128,    6, 35,        CAUSAL, false},
    {"dims-9-30",          TESTS,           1, 4, 2, 9, 30,       6, 35,        CAUSAL, false},

    {"decode-16/8-512",    DECODE,          1, 16, 8, 128, 128,   1, 512,       CAUSAL, false},
    {"decode-16/8-2048",   DECODE,          1, 16, 8, 128, 128,   1, 2048,      CAUSAL, false},
    {"decode-16/8-8192",   DECODE,          1, 16, 8, 128, 128,   1, 8192,      CAUSAL, false},
    {"decode-32/8-2048",   DECODE,          1, 32, 8, 128, 128,   1, 2048,      CAUSAL, false},
    {"decode-32/4-2048",   DECODE,          1, 32, 4, 128, 128,   1, 2048,      CAUSAL, false},
    {"decode-8/8-2048",    DECODE,          1, 8, 8, 128, 128,    1, 2048,      CAUSAL, false},
    {"decode-8-ragged",    DECODE,          8, 16, 8, 128, 128,   1, 2048,      CAUSAL, true},
    {"speculate-16/8",     DECODE,          1, 16, 8, 128, 128,   4, 2048,      CAUSAL, false},
    {"prefill-model",      PREFILL,         1, 9, 3, 64, 64,      512, 512,     CAUSAL, false},
    {"prefill-16/8-512",   PREFILL,         1, 16, 8, 128, 128,   512, 512,     CAUSAL, false},
    {"prefill-16/8-1024",  PREFILL,         1, 16, 8, 128, 128,   1024, 1024,   CAUSAL, false},
    {"prefill-16/8-2048",  PREFILL,         1, 16, 8, 128, 128,   2048, 2048,   CAUSAL, false},
    {"prefill-32/8-1024",  PREFILL,         1, 32, 8, 128, 128,   1024, 1024,   CAUSAL, false},
    {"chunk-16/8",         PREFILL,         1, 16, 8, 128, 128,   256, 2048,    CAUSAL, false},
};
const int gqa_shape_count = sizeof gqa_shapes / sizeof gqa_shapes[0];

/* The matrices of the example model: q and out, k and v, gate and up, down, and the head. */
#define MODEL(suites, m)                                   \
    {"model-attention-" #m, suites, m, 576, 576, 1, 128},  \
    {"model-kv-" #m,        suites, m, 192, 576, 1, 128},  \
    {"model-up-" #m,        suites, m, 1536, 576, 1, 128}, \
    {"model-down-" #m,      suites, m, 576, 1536, 1, 128}

const struct fp8_shape fp8_shapes[] = {
    /* name                suites           m  n  k       block */
    {"m-0",                TESTS,           0, 24, 64,    1, 32},
    {"k-0",                TESTS,           3, 24, 0,     1, 32},
    {"1x1x1",              TESTS,           1, 1, 1,      1, 1},
    {"m-1",                TESTS | SMOKE,   1, 64, 256,   1, 128},
    {"m-2",                TESTS,           2, 127, 192,  1, 128},
    {"m-3",                TESTS,           3, 33, 320,   1, 128},
    {"m-4",                TESTS,           4, 24, 640,   1, 256},
    {"m-5",                TESTS,           5, 16, 896,   1, 256},
    {"m-6",                TESTS,           6, 8, 1152,   1, 256},
    {"m-7",                TESTS,           7, 40, 256,   1, 16},
    {"m-8",                TESTS,           8, 40, 256,   1, 64},
    {"m-9",                TESTS | SMOKE,   9, 40, 256,   1, 64},
    {"m-16",               TESTS,           16, 72, 128,  1, 32},
    {"m-17",               TESTS,           17, 72, 128,  16, 32},
    {"m-33",               TESTS,           33, 70, 200,  64, 64},
    {"m-64",               TESTS,           64, 65, 129,  128, 128},
    {"m-512",              TESTS,           512, 48, 96,  128, 128},
    {"n-1",                TESTS,           2, 1, 500,    1, 128},
    {"n-1000",             TESTS,           2, 1000, 65,  128, 128},
    {"n-2112",             TESTS,           1, 2112, 31,  7, 5},
    {"k-1",                TESTS,           2, 17, 1,     1, 128},
    {"k-7",                TESTS,           2, 17, 7,     1, 128},
    {"k-15",               TESTS,           3, 17, 15,    1, 4},
    {"k-24",               TESTS,           3, 17, 24,    1, 8},
    {"k-4100",             TESTS,           2, 12, 4100,  1, 128},
    {"block-128x128",      TESTS,           5, 300, 576,  128, 128},
    {"block-odd",          TESTS,           11, 29, 301,  3, 37},
    {"block-whole",        TESTS,           4, 29, 301,   64, 1024},
    {"model-kv-tests",     TESTS,           2, 192, 576,  1, 128},

    MODEL(DECODE, 1),
    {"model-head-1",       DECODE,          1, 49152, 576,  1, 128},
    {"4096-1",             DECODE,          1, 4096, 4096,  1, 128},
    {"4096-2",             DECODE,          2, 4096, 4096,  1, 128},
    {"4096-4",             DECODE,          4, 4096, 4096,  1, 128},
    {"4096-8",             DECODE,          8, 4096, 4096,  1, 128},
    {"4096-9",             DECODE,          9, 4096, 4096,  1, 128},
    {"4096-1-square",      DECODE,          1, 4096, 4096,  128, 128},
    MODEL(PREFILL, 512),
    {"4096-16",            PREFILL,         16, 4096, 4096,  1, 128},
    {"4096-33",            PREFILL,         33, 4096, 4096,  1, 128},
    {"4096-64",            PREFILL,         64, 4096, 4096,  1, 128},
    {"4096-512",           PREFILL,         512, 4096, 4096, 1, 128},
};
/* clang-format on */
const int fp8_shape_count = sizeof fp8_shapes / sizeof fp8_shapes[0];

void gqa_shape_lengths(const struct gqa_shape *shape, int64_t b, int32_t *q_len, int32_t *kv_len)
{
    int64_t tokens = shape->kv_len;
    if (shape->ragged && b == 1)
        tokens = 1;
    else if (shape->ragged && b == 2)
        tokens = 0;
    else if (shape->ragged)
        tokens = shape->kv_len - b * shape->kv_len / (shape->batch + 1);
    *kv_len = (int32_t)tokens;
    *q_len = (int32_t)(shape->q_len < tokens ? shape->q_len : tokens);
}
