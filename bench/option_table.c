#include "option_table.h"

#include "shapes.h"

const struct name op_names[] = {
    {"gqa", OP_BIT_GQA},
    {"kv_append", OP_BIT_KV_APPEND},
    {"fp8_matmul", OP_BIT_FP8_MATMUL},
    {"quantize", OP_BIT_QUANTIZE},
    {"dequantize", OP_BIT_DEQUANTIZE},
    {"qk", OP_BIT_QK},
    {"sv", OP_BIT_SV},
    {"merge_states", OP_BIT_MERGE_STATES},
    {"kv_shift", OP_BIT_KV_SHIFT},
    {NULL, 0},
};

static const struct name cache_names[] = {
    {"f32", CACHE_TYPE(TDM_F32, TDM_UNSCALED)},
    {"f16", CACHE_TYPE(TDM_F16, TDM_UNSCALED)},
    {"bf16", CACHE_TYPE(TDM_BF16, TDM_UNSCALED)},
    {"fp8", CACHE_TYPE(TDM_F8E4M3, TDM_UNSCALED)},
    {"fp8-token", CACHE_TYPE(TDM_F8E4M3, TDM_PER_TOKEN)},
    {"int8-tensor", CACHE_TYPE(TDM_I8, TDM_PER_TENSOR)},
    {"int8-channel", CACHE_TYPE(TDM_I8, TDM_PER_CHANNEL)},
    {"int8-token", CACHE_TYPE(TDM_I8, TDM_PER_TOKEN)},
    {"int8-group32", GROUPED(TDM_I8, 32)},
    {"int8-group64", GROUPED(TDM_I8, 64)},
    {"int4-tensor", CACHE_TYPE(TDM_I4, TDM_PER_TENSOR)},
    {"int4-channel", CACHE_TYPE(TDM_I4, TDM_PER_CHANNEL)},
    {"int4-token", CACHE_TYPE(TDM_I4, TDM_PER_TOKEN)},
    {"int4-group16", GROUPED(TDM_I4, 16)},
    {"int4-group32", GROUPED(TDM_I4, 32)},
    {"int4-group64", GROUPED(TDM_I4, 64)},
    {"int4-group128", GROUPED(TDM_I4, 128)},
    {NULL, 0},
};

static const struct name dtype_names[] = {{"f32", TDM_F32}, {"f16", TDM_F16}, {"bf16", TDM_BF16}, {NULL, 0}};
static const struct name scale_names[] = {{"f32", TDM_F32}, {"bf16", TDM_BF16}, {"e8m0", TDM_E8M0}, {NULL, 0}};
static const struct name w8a8_names[] = {
    {"none", W8A8_NONE}, {"static", W8A8_STATIC}, {"dynamic", W8A8_DYNAMIC}, {NULL, 0}};
static const struct name device_names[] = {
    {"cpu", DEVICE(TDM_CPU, 0)},     {"cuda", DEVICE(TDM_CUDA, 0)},
    {"cuda:1", DEVICE(TDM_CUDA, 1)}, {"cuda:2", DEVICE(TDM_CUDA, 2)},
    {"cuda:3", DEVICE(TDM_CUDA, 3)}, {"cuda:4", DEVICE(TDM_CUDA, 4)},
    {"cuda:5", DEVICE(TDM_CUDA, 5)}, {"cuda:6", DEVICE(TDM_CUDA, 6)},
    {"cuda:7", DEVICE(TDM_CUDA, 7)}, {NULL, 0},
};
static const struct name suite_names[] = {
    {"smoke", SUITE_SMOKE}, {"decode", SUITE_DECODE}, {"prefill", SUITE_PREFILL}, {"cliffs", SUITE_CLIFFS}, {NULL, 0}};

#define ANY (~0u)
#define ATTENTION (OP_BIT_GQA | OP_BIT_KV_APPEND | OP_BIT_KV_SHIFT)
#define PRODUCTS (OP_BIT_QK | OP_BIT_SV)
#define CACHES (ATTENTION | PRODUCTS | OP_BIT_QUANTIZE | OP_BIT_DEQUANTIZE)
#define QUERIES (OP_BIT_GQA | PRODUCTS | OP_BIT_MERGE_STATES)
#define ANY_HEADS (CACHES | OP_BIT_MERGE_STATES)
#define DIM_MAX INT32_MAX

const struct option option_table[OPTION_COUNT] = {
    [OPTION_BATCH] = {"--batch", INTEGERS, ANY_HEADS, true, 1, 1, DIM_MAX, NULL, "sequences"},
    [OPTION_Q_HEADS] = {"--q-heads", INTEGERS, QUERIES, true, 16, 1, DIM_MAX, NULL, "query heads"},
    [OPTION_KV_HEADS] = {"--kv-heads", INTEGERS, CACHES, true, 8, 1, DIM_MAX, NULL, "key and value heads"},
    [OPTION_HEAD_DIM] = {"--head-dim", INTEGERS, ANY_HEADS, true, 128, 1, DIM_MAX, NULL, "channels of a head"},
    [OPTION_Q_LEN] = {"--q-len", INTEGERS, QUERIES | OP_BIT_KV_APPEND, true, 1, 1, INT32_MAX, NULL,
                      "new tokens of each sequence"},
    [OPTION_KV_LEN] = {"--kv-len", INTEGERS, CACHES, true, 2048, 1, INT32_MAX, NULL, "tokens with the new ones"},
    [OPTION_CACHE_K] = {"--cache-k", NAMES, CACHES, false, CACHE_TYPE(TDM_I8, TDM_PER_TENSOR), 0, 0, cache_names,
                        "type and scaling of the key cache"},
    [OPTION_CACHE_V] = {"--cache-v", NAMES, ATTENTION, false, 0, 0, 0, cache_names,
                        "of the value cache; that of the keys when not given"},
    [OPTION_ROTATE] = {"--rotate", FLAG, ATTENTION, false, 0, 0, 0, NULL, "keys and values are stored rotated"},
    [OPTION_OFFSET] = {"--offset", FLAG, ATTENTION, false, 0, 0, 0, NULL, "keys are stored less an offset"},
    [OPTION_ROTARY] = {"--rotary", FLAG, ATTENTION, false, 0, 0, 0, NULL,
                       "rotary embedding of all channels (even dims)"},
    [OPTION_SOFTCAP] = {"--softcap", FLAG, OP_BIT_GQA, false, 0, 0, 0, NULL, "cap the scores at 30"},
    [OPTION_BIAS_PLANE] = {"--attention-bias", FLAG, OP_BIT_GQA, false, 0, 0, 0, NULL, "add an f32 bias for each key"},
    [OPTION_ALIBI] = {"--alibi", FLAG, OP_BIT_GQA, false, 0, 0, 0, NULL, "add ALiBi slopes"},
    [OPTION_PARTS] = {"--parts", INTEGERS, OP_BIT_MERGE_STATES, false, 4, 1, 1024, NULL, "ranges of keys to merge"},
    [OPTION_M] = {"--m", INTEGERS, OP_BIT_FP8_MATMUL, true, 1, 1, DIM_MAX, NULL, "rows of the activation"},
    [OPTION_N] = {"--n", INTEGERS, OP_BIT_FP8_MATMUL, true, 4096, 1, DIM_MAX, NULL, "rows of the weight"},
    [OPTION_K] = {"--k", INTEGERS, OP_BIT_FP8_MATMUL, true, 4096, 1, DIM_MAX, NULL, "channels of the weight"},
    [OPTION_BLOCK] = {"--block", BLOCKS, OP_BIT_FP8_MATMUL, true, BLOCK(1, 128), 1, DIM_MAX, NULL,
                      "rows and channels that share a scale; 64 is 1x64"},
    [OPTION_SCALE_DTYPE] = {"--scale-dtype", NAMES, OP_BIT_FP8_MATMUL, false, TDM_F32, 0, 0, scale_names,
                            "type of the scales"},
    [OPTION_BIAS] = {"--bias", FLAG, OP_BIT_FP8_MATMUL, false, 0, 0, 0, NULL, "add a bias"},
    [OPTION_W8A8] = {"--w8a8", NAMES_OR_FLAG, OP_BIT_FP8_MATMUL, false, W8A8_NONE, 0, 0, w8a8_names,
                     "round the activation to e4m3: by one scale (alone, it means that), or by one of each row"},
    [OPTION_DTYPE] = {"--dtype", NAMES, ANY, false, TDM_F32, 0, 0, dtype_names, "type of the activations"},
    [OPTION_DEVICE] = {"--device", NAME, ANY, false, DEVICE(TDM_CPU, 0), 0, 0, device_names, "where to run"},
    [OPTION_THREADS] = {"--threads", INTEGERS, ANY, false, 0, 0, 1024, NULL, "0: as many as the library takes"},
    [OPTION_SUITE] = {"--suite", NAME, ANY, false, 0, 0, 0, suite_names, "the shapes of a suite"},
    [OPTION_WARMUP] = {"--warmup", INTEGER, ANY, false, 3, 0, 1000000, NULL, "runs before the first measured one"},
    [OPTION_REPEAT] = {"--repeat", INTEGER, ANY, false, 0, 0, MAX_REPEATS, NULL,
                       "measured runs; 0: for half a second, at least 5"},
    [OPTION_COLD] = {"--cold", FLAG, ANY, false, 0, 0, 0, NULL, "rotate over copies that exceed twice the last cache"},
    [OPTION_COPIES] = {"--copies", INTEGER, ANY, false, 0, 0, MAX_COPIES, NULL,
                       "rotate over so many copies; 0: one, or as --cold says"},
    [OPTION_SEED] = {"--seed", INTEGER, ANY, false, 0, 0, INT64_MAX, NULL, "of the random data"},
    [OPTION_CHECK] = {"--check", FLAG, ANY, false, 0, 0, 0, NULL, "compare with a reference in double (slow)"},
    [OPTION_PEAK] = {"--peak", FLAG, ANY, false, 0, 0, 0, NULL,
                     "measure this processor's limits and the share reached"},
    [OPTION_CSV] = {"--csv", FLAG, ANY, false, 0, 0, 0, NULL, "print comma-separated values"},
    [OPTION_JSON] = {"--json", FLAG, ANY, false, 0, 0, 0, NULL, "print JSON, a line a case"},
};
