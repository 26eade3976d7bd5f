#include "shapes.h"

#define TESTS SUITE_TESTS
#define SMOKE SUITE_SMOKE
#define DECODE SUITE_DECODE
#define PREFILL SUITE_PREFILL
#define CLIFFS SUITE_CLIFFS
#define GPU SUITE_GPU
#define CAUSAL -1, 0

/* clang-format off */
const struct gqa_shape gqa_shapes[] = {
    /* name                suites           batch heads dims      q_len kv_len  windows ragged */
    {"decode-1",           TESTS,           1, 1, 1, 16, 16,      1, 1,         CAUSAL, EQUAL},
    {"decode-33",          TESTS | SMOKE,   1, 4, 2, 64, 64,      1, 33,        CAUSAL, EQUAL},
    {"decode-300",         TESTS,           1, 8, 2, 128, 128,    1, 300,       CAUSAL, EQUAL},
    {"decode-split",       TESTS,           1, 2, 1, 64, 64,      1, 2500,      CAUSAL, EQUAL},
    {"decode-batch",       TESTS,           5, 6, 3, 32, 32,      1, 70,        CAUSAL, RAGGED},
    {"decode-batch-257",   TESTS,           257, 2, 1, 8, 8,      1, 9,         CAUSAL, RAGGED},
    {"decode-model",       TESTS | DECODE,  1, 9, 3, 64, 64,      1, 512,       CAUSAL, EQUAL},
    {"speculate-4",        TESTS,           2, 4, 2, 64, 64,      4, 100,       CAUSAL, EQUAL},
    {"prefill-17",         TESTS,           1, 4, 2, 64, 64,      17, 17,       CAUSAL, EQUAL},
    {"prefill-130",        TESTS | SMOKE,   1, 6, 2, 64, 64,      130, 130,     CAUSAL, EQUAL},
    {"prefill-batch",      TESTS,           4, 2, 1, 32, 32,      40, 40,       CAUSAL, RAGGED},
    {"chunk-65",           TESTS,           1, 4, 1, 64, 64,      65, 200,      CAUSAL, EQUAL},
    {"chunk-ragged",       TESTS,           5, 4, 2, 40, 40,      33, 150,      CAUSAL, RAGGED},
    {"bidirectional",      TESTS,           2, 4, 2, 64, 64,      50, 80,       -1, -1, EQUAL},
    {"window-left",        TESTS,           1, 4, 2, 64, 64,      90, 300,      16, 0,  EQUAL},
    {"window-own-token",   TESTS,           2, 2, 1, 32, 32,      20, 30,       0, 0,   EQUAL},
    {"window-both",        TESTS,           3, 4, 2, 32, 32,      70, 140,      33, 5,  RAGGED},
    {"window-decode",      TESTS,           1, 4, 2, 64, 64,      1, 1500,      127, 0, EQUAL},

    {"group-1",            TESTS,           1, 5, 5, 24, 24,      3, 20,        CAUSAL, EQUAL},
    {"group-2",            TESTS,           1, 4, 2, 24, 24,      3, 20,        CAUSAL, EQUAL},
    {"group-3",            TESTS,           1, 6, 2, 24, 24,      3, 20,        CAUSAL, EQUAL},
    {"group-4",            TESTS,           1, 8, 2, 24, 24,      3, 20,        CAUSAL, EQUAL},
    {"group-5",            TESTS,           1, 10, 2, 24, 24,     3, 20,        CAUSAL, EQUAL},
    {"group-6",            TESTS,           1, 12, 2, 24, 24,     3, 20,        CAUSAL, EQUAL},
    {"group-7",            TESTS,           1, 14, 2, 24, 24,     3, 20,        CAUSAL, EQUAL},
    {"group-8",            TESTS,           1, 16, 2, 24, 24,     3, 20,        CAUSAL, EQUAL},
    {"group-12",           TESTS,           1, 24, 2, 24, 24,     3, 20,        CAUSAL, EQUAL},
    {"group-16",           TESTS,           1, 32, 2, 24, 24,     3, 20,        CAUSAL, EQUAL},
    {"one-kv-head",        TESTS,           2, 12, 1, 64, 64,     2, 40,        CAUSAL, EQUAL},

    {"dim-1",              TESTS,           1, 2, 1, 1, 1,        2, 20,        CAUSAL, EQUAL},
    {"dim-7",              TESTS,           2, 2, 1, 7, 7,        3, 35,        CAUSAL, EQUAL},
    {"dim-8",              TESTS,           1, 2, 1, 8, 8,        3, 35,        CAUSAL, EQUAL},
    {"dim-33",             TESTS,           1, 2, 2, 33, 33,      9, 35,        CAUSAL, EQUAL},
    {"dim-72",             TESTS,           1, 2, 1, 72, 72,      3, 35,        CAUSAL, EQUAL},
    {"dim-80",             TESTS,           1, 2, 1, 80, 80,      3, 35,        CAUSAL, EQUAL},
    {"dim-96",             TESTS,           1, 2, 1, 96, 96,      3, 35,        CAUSAL, EQUAL},
    {"dim-112",            TESTS,           1, 2, 1, 112, 112,    3, 35,        CAUSAL, EQUAL},
    {"dim-192",            TESTS,           1, 2, 1, 192, 192,    3, 35,        CAUSAL, EQUAL},
    {"dim-256",            TESTS,           1, 2, 1, 256, 256,    18, 35,       CAUSAL, EQUAL},
    {"dim-512",            TESTS,           1, 2, 1, 512, 512,    3, 35,        CAUSAL, EQUAL},
    {"dims-192-128",       TESTS,           1, 4, 2, 192, 128,    6, 35,        CAUSAL, EQUAL},
    {"dims-9-30",          TESTS,           1, 4, 2, 9, 30,       6, 35,        CAUSAL, EQUAL},

    {"decode-16/8-512",    DECODE,          1, 16, 8, 128, 128,   1, 512,       CAUSAL, EQUAL},
    {"decode-16/8-2048",   DECODE,          1, 16, 8, 128, 128,   1, 2048,      CAUSAL, EQUAL},
    {"decode-16/8-8192",   DECODE,          1, 16, 8, 128, 128,   1, 8192,      CAUSAL, EQUAL},
    {"decode-16/8-32768",  DECODE,          1, 16, 8, 128, 128,   1, 32768,     CAUSAL, EQUAL},
    {"decode-32/8-2048",   DECODE,          1, 32, 8, 128, 128,   1, 2048,      CAUSAL, EQUAL},
    {"decode-32/4-2048",   DECODE,          1, 32, 4, 128, 128,   1, 2048,      CAUSAL, EQUAL},
    {"decode-8/8-2048",    DECODE,          1, 8, 8, 128, 128,    1, 2048,      CAUSAL, EQUAL},
    {"decode-8-ragged",    DECODE,          8, 16, 8, 128, 128,   1, 2048,      CAUSAL, RAGGED},
    {"speculate-16/8",     DECODE,          1, 16, 8, 128, 128,   4, 2048,      CAUSAL, EQUAL},
    {"prefill-model",      PREFILL,         1, 9, 3, 64, 64,      512, 512,     CAUSAL, EQUAL},
    {"prefill-16/8-512",   PREFILL,         1, 16, 8, 128, 128,   512, 512,     CAUSAL, EQUAL},
    {"prefill-16/8-1024",  PREFILL,         1, 16, 8, 128, 128,   1024, 1024,   CAUSAL, EQUAL},
    {"prefill-16/8-2048",  PREFILL,         1, 16, 8, 128, 128,   2048, 2048,   CAUSAL, EQUAL},
    {"prefill-32/8-1024",  PREFILL,         1, 32, 8, 128, 128,   1024, 1024,   CAUSAL, EQUAL},
    {"chunk-16/8",         PREFILL,         1, 16, 8, 128, 128,   256, 2048,    CAUSAL, EQUAL},

    {"cliff-dim-64",       CLIFFS,          1, 16, 8, 64, 64,     1, 2048,     CAUSAL, EQUAL},
    {"cliff-dim-72",       CLIFFS,          1, 16, 8, 72, 72,     1, 2048,     CAUSAL, EQUAL},
    {"cliff-dim-80",       CLIFFS,          1, 16, 8, 80, 80,     1, 2048,     CAUSAL, EQUAL},
    {"cliff-dim-96",       CLIFFS,          1, 16, 8, 96, 96,     1, 2048,     CAUSAL, EQUAL},
    {"cliff-dim-128",      CLIFFS,          1, 16, 8, 128, 128,   1, 2048,     CAUSAL, EQUAL},
    {"cliff-dim-256",      CLIFFS,          1, 16, 8, 256, 256,   1, 2048,     CAUSAL, EQUAL},
    {"cliff-keys-2047",    CLIFFS,          1, 16, 8, 128, 128,   1, 2047,     CAUSAL, EQUAL},
    {"cliff-keys-2049",    CLIFFS,          1, 16, 8, 128, 128,   1, 2049,     CAUSAL, EQUAL},
    {"cliff-new-2",        CLIFFS,          1, 16, 8, 128, 128,   2, 2048,     CAUSAL, EQUAL},
    {"cliff-new-3",        CLIFFS,          1, 16, 8, 128, 128,   3, 2048,     CAUSAL, EQUAL},
    {"cliff-new-4",        CLIFFS,          1, 16, 8, 128, 128,   4, 2048,     CAUSAL, EQUAL},
    {"cliff-new-8",        CLIFFS,          1, 16, 8, 128, 128,   8, 2048,     CAUSAL, EQUAL},
    {"cliff-new-9",        CLIFFS,          1, 16, 8, 128, 128,   9, 2048,     CAUSAL, EQUAL},
    {"one-long",           CLIFFS,          64, 4, 2, 64, 64,     1, 32768,    CAUSAL, ONE_LONG},
};
const int gqa_shape_count = sizeof gqa_shapes / sizeof gqa_shapes[0];

/* The matrices of the example model: q and out, k and v, gate and up, down, and the head. */
#define MODEL(suites, m)                                   \
    {"model-attention-" #m, suites, m, 576, 576, 1, 128},  \
    {"model-kv-" #m,        suites, m, 192, 576, 1, 128},  \
    {"model-up-" #m,        suites, m, 1536, 576, 1, 128}, \
    {"model-down-" #m,      suites, m, 576, 1536, 1, 128}

/* The matrices of larger models. */
#define FEW_ROWS(n, k)                                             \
    {#n "x" #k "-1",  DECODE | GPU, 1, n, k, 1, 128},  \
    {#n "x" #k "-2",  DECODE | GPU, 2, n, k, 1, 128},  \
    {#n "x" #k "-4",  DECODE | GPU, 4, n, k, 1, 128},  \
    {#n "x" #k "-8",  DECODE | GPU, 8, n, k, 1, 128},  \
    {#n "x" #k "-9",  DECODE | GPU, 9, n, k, 1, 128},  \
    {#n "x" #k "-16", DECODE | GPU, 16, n, k, 1, 128}
#define MANY_ROWS(n, k)                                            \
    {#n "x" #k "-64",  PREFILL | GPU, 64, n, k, 1, 128},  \
    {#n "x" #k "-128", PREFILL | GPU, 128, n, k, 1, 128}, \
    {#n "x" #k "-512", PREFILL | GPU, 512, n, k, 1, 128}

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
    {"m-33",               TESTS | SMOKE,   33, 70, 200,  64, 64},
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
    {"4096-16",            DECODE | PREFILL, 16, 4096, 4096, 1, 128},
    FEW_ROWS(8192, 8192),
    FEW_ROWS(8192, 2048),
    FEW_ROWS(2048, 4096),
    FEW_ROWS(512, 2048),
    FEW_ROWS(11008, 4096),
    MODEL(PREFILL, 512),
    {"4096-33",            PREFILL,         33, 4096, 4096,  1, 128},
    {"4096-64",            PREFILL,         64, 4096, 4096,  1, 128},
    {"4096-65",            PREFILL | GPU,   65, 4096, 4096,  1, 128},
    {"4096-128",           PREFILL | GPU,   128, 4096, 4096, 1, 128},
    {"4096-256",           PREFILL | GPU,   256, 4096, 4096, 1, 128},
    {"4096-512",           PREFILL,         512, 4096, 4096, 1, 128},
    MANY_ROWS(8192, 8192),
    MANY_ROWS(11008, 4096),
    {"cliff-8",            CLIFFS,          8, 4096, 4096,   1, 128},
    {"cliff-9",            CLIFFS,          9, 4096, 4096,   1, 128},
    {"cliff-16",           CLIFFS,          16, 4096, 4096,  1, 128},
    {"cliff-17",           CLIFFS,          17, 4096, 4096,  1, 128},
    {"cliff-32",           CLIFFS,          32, 4096, 4096,  1, 128},
    {"cliff-33",           CLIFFS,          33, 4096, 4096,  1, 128},
};
/* clang-format on */
const int fp8_shape_count = sizeof fp8_shapes / sizeof fp8_shapes[0];

void gqa_shape_lengths(const struct gqa_shape *shape, int64_t b, int32_t *q_len, int32_t *kv_len)
{
    int64_t tokens = shape->kv_len;
    if (shape->lengths == ONE_LONG && b > 0)
        tokens = 2 * b + 1;
    if (shape->lengths == RAGGED)
        tokens = b == 1 ? 1 : b == 2 ? 0 : shape->kv_len - b * shape->kv_len / (shape->batch + 1);
    *kv_len = (int32_t)tokens;
    *q_len = (int32_t)(shape->q_len < tokens ? shape->q_len : tokens);
}
