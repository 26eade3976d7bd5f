/* The options of `tandem bench`: a table from which parsing, the usage text and the grid of cases follow. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "tandem.h"

#include <stdbool.h>
#include <stdio.h>

enum option_id {
    OPTION_BATCH,
    OPTION_Q_HEADS,
    OPTION_KV_HEADS,
    OPTION_HEAD_DIM,
    OPTION_Q_LEN,
    OPTION_KV_LEN,
    OPTION_CACHE_K,
    OPTION_CACHE_V,
    OPTION_ROTATE,
    OPTION_OFFSET,
    OPTION_ROTARY,
    OPTION_SOFTCAP,
    OPTION_BIAS_PLANE,
    OPTION_ALIBI,
    OPTION_PARTS,
    OPTION_M,
    OPTION_N,
    OPTION_K,
    OPTION_BLOCK,
    OPTION_SCALE_DTYPE,
    OPTION_BIAS,
    OPTION_W8A8,
    OPTION_DTYPE,
    OPTION_DEVICE,
    OPTION_THREADS,
    OPTION_SUITE,
    OPTION_WARMUP,
    OPTION_REPEAT,
    OPTION_COLD,
    OPTION_COPIES,
    OPTION_SEED,
    OPTION_CHECK,
    OPTION_PEAK,
    OPTION_CSV,
    OPTION_JSON,
    OPTION_COUNT
};

#define MAX_VALUES 32     /* in one list    */
#define MAX_REPEATS 10000 /* measured runs  */
#define MAX_COPIES 10000

/* What an option was set to, or its default. Names stand for numbers, a flag is 0 or 1. */
struct option_values {
    bool given;
    int count;
    int64_t value[MAX_VALUES];
};

/* Ops as bits: what an option is for, what the command line asks for. */
enum op_bit {
    OP_BIT_GQA = 1 << 0,
    OP_BIT_KV_APPEND = 1 << 1,
    OP_BIT_FP8_MATMUL = 1 << 2,
    OP_BIT_QUANTIZE = 1 << 3,
    OP_BIT_DEQUANTIZE = 1 << 4,
    OP_BIT_QK = 1 << 5,
    OP_BIT_SV = 1 << 6,
    OP_BIT_MERGE_STATES = 1 << 7,
    OP_BIT_KV_SHIFT = 1 << 8
};

struct options {
    unsigned ops;
    struct option_values list[OPTION_COUNT];
};

/* Read the arguments that follow `tandem bench`. False after a message on stderr. */
bool options_parse(struct options *options, int argc, char **argv);

void options_usage(FILE *out);

/* A cache type is a dtype with a scaling, and the channels of a group where it has some, in one number. */
#define GROUPED(dtype, group) ((int64_t)(group) << 16 | (int64_t)(dtype) << 8 | TDM_PER_GROUP)
#define CACHE_TYPE(dtype, scaling) ((int64_t)(dtype) << 8 | (scaling))
static inline int64_t cache_group(int64_t type)
{
    return type >> 16;
}
static inline tdm_dtype cache_dtype(int64_t type)
{
    return (tdm_dtype)(type >> 8 & 0xff);
}
static inline tdm_scaling cache_scaling(int64_t type)
{
    return (tdm_scaling)(type & 0xff);
}

/* A block of a weight is rows x channels, in one number. */
#define BLOCK(rows, channels) ((int64_t)(rows) << 32 | (channels))
static inline int64_t block_rows(int64_t block)
{
    return block >> 32;
}
static inline int64_t block_channels(int64_t block)
{
    return block & 0xffffffff;
}

/* A device in one number. */
#define DEVICE(kind, index) ((int64_t)(kind) << 8 | (index))
static inline tdm_device device_of(int64_t value)
{
    return (tdm_device){(tdm_device_kind)(value >> 8), (int32_t)(value & 0xff)};
}

/* What --w8a8 says of the activations' scales. */
enum { W8A8_NONE, W8A8_STATIC, W8A8_DYNAMIC };

/* The name of a number among an option's accepted names. */
const char *option_name(enum option_id id, int64_t value);

#endif
