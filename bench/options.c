#include "options.h"

#include "shapes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG, INTEGER, INTEGERS, NAME, NAMES, NAMES_OR_FLAG, BLOCKS };

struct name {
    const char *text;
    int64_t value;
};

static const struct name op_names[] = {
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

static const struct option {
    const char *name;
    enum kind kind;
    unsigned ops; /* that it is for */
    bool shape;   /* not together with --suite */
    int64_t initial, min, max;
    const struct name *names;
    const char *help;
} table[OPTION_COUNT] = {
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

/* Other spellings. */
static const struct {
    const char *name;
    enum option_id id;
} aliases[] = {{"--block-size", OPTION_BLOCK}, {"--activation-dtype", OPTION_DTYPE}};

static const char *find_name(const struct name *names, int64_t value)
{
    while (names->text && names->value != value)
        names++;
    return names->text;
}

const char *option_name(enum option_id id, int64_t value)
{
    return find_name(table[id].names, value);
}

static void print_names(FILE *out, const struct name *names)
{
    for (const struct name *name = names; name->text; name++)
        fprintf(out, "%s%s", name == names ? "" : ", ", name->text);
}

static void print_accepted(FILE *out, const struct option *option)
{
    bool list = option->kind != FLAG && option->kind != INTEGER && option->kind != NAME;
    if (option->names) {
        fprintf(out, "one of ");
        print_names(out, option->names);
    } else {
        fprintf(out, "%s from %" PRId64 " to %" PRId64,
                option->kind == BLOCKS ? "CHANNELS or ROWSxCHANNELS, each" : "an integer", option->min, option->max);
    }
    if (list)
        fprintf(out, ", or several with commas between them");
}

/* Read an integer at *text and move *text behind it. */
static bool parse_integer(const struct option *option, const char **text, int64_t *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(*text, &end, 10);
    bool digits = **text >= '0' && **text <= '9';
    *text = end;
    *value = number;
    return digits && errno == 0 && number >= option->min && number <= option->max;
}

/* Read one value, which is all of `text`. */
static bool parse_value(const struct option *option, const char *text, int64_t *value)
{
    int64_t channels;
    if (option->names) {
        const struct name *name = option->names;
        while (name->text && strcmp(name->text, text) != 0)
            name++;
        *value = name->value;
        return name->text;
    }
    if (!parse_integer(option, &text, value))
        return false;
    if (option->kind == BLOCKS && *text == '\0') {
        *value = BLOCK(1, *value);
    } else if (option->kind == BLOCKS) {
        if (*text++ != 'x' || !parse_integer(option, &text, &channels))
            return false;
        *value = BLOCK(*value, channels);
    }
    return *text == '\0';
}

static bool parse_list(const struct option *option, const char *text, struct option_values *values)
{
    char item[32];
    bool single = option->kind == INTEGER || option->kind == NAME;
    values->count = 0;
    for (;;) {
        size_t length = single ? strlen(text) : strcspn(text, ",");
        if (length >= sizeof item || values->count == MAX_VALUES)
            return false;
        memcpy(item, text, length);
        item[length] = '\0';
        if (!parse_value(option, item, &values->value[values->count++]))
            return false;
        if (text[length] == '\0')
            return true;
        text += length + 1;
    }
}

static bool bad_value(const struct option *option, const char *got)
{
    fprintf(stderr, "tandem bench: %s: got \"%s\", want ", option->name, got);
    print_accepted(stderr, option);
    fprintf(stderr, "\n");
    return false;
}

/* Options that do not go with the ops or with each other. */
static bool consistent(const struct options *options)
{
    if (!options->ops) {
        fprintf(stderr, "tandem bench: no op given, want some of ");
        print_names(stderr, op_names);
        fprintf(stderr, "\n");
        return false;
    }
    for (int i = 0; i < OPTION_COUNT; i++) {
        if (!options->list[i].given)
            continue;
        unsigned strangers = options->ops & ~table[i].ops;
        if (strangers) {
            fprintf(stderr, "tandem bench: %s: not an option of %s\n", table[i].name,
                    find_name(op_names, strangers & -strangers));
            return false;
        }
        if (table[i].shape && options->list[OPTION_SUITE].given) {
            fprintf(stderr, "tandem bench: %s: not together with --suite, which has its own shapes\n", table[i].name);
            return false;
        }
    }
    if (options->list[OPTION_PEAK].given && device_of(options->list[OPTION_DEVICE].value[0]).kind != TDM_CPU) {
        fprintf(stderr, "tandem bench: --peak: not together with --device cuda, where copies are the measure\n");
        return false;
    }
    if (options->list[OPTION_CSV].given && options->list[OPTION_JSON].given) {
        fprintf(stderr, "tandem bench: --json: not together with --csv\n");
        return false;
    }
    return true;
}

static bool parse_op(struct options *options, const char *text)
{
    for (const struct name *op = op_names; op->text; op++)
        if (strcmp(op->text, text) == 0) {
            options->ops |= (unsigned)op->value;
            return true;
        }
    fprintf(stderr, "tandem bench: op: got \"%s\", want one of ", text);
    print_names(stderr, op_names);
    fprintf(stderr, "\n");
    return false;
}

static const struct option *find_option(const char *text)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        if (strcmp(table[i].name, text) == 0)
            return &table[i];
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(aliases[i].name, text) == 0)
            return &table[aliases[i].id];
    fprintf(stderr, "tandem bench: %s: no such option; tandem bench --help lists them\n", text);
    return NULL;
}

bool options_parse(struct options *options, int argc, char **argv)
{
    *options = (struct options){0};
    for (int i = 0; i < OPTION_COUNT; i++)
        options->list[i] = (struct option_values){.count = 1, .value = {table[i].initial}};
    for (int i = 0; i < argc; i++) {
        if (argv[i][0] != '-') {
            if (!parse_op(options, argv[i]))
                return false;
            continue;
        }
        const struct option *option = find_option(argv[i]);
        if (!option)
            return false;
        struct option_values *values = &options->list[option - table];
        values->given = true;
        if (option->kind == FLAG) {
            values->value[0] = 1;
            continue;
        }
        const char *text = i + 1 < argc ? argv[i + 1] : "";
        if (parse_list(option, text, values)) {
            i++;
            continue;
        }
        if (option->kind != NAMES_OR_FLAG)
            return bad_value(option, text);
        *values = (struct option_values){true, 1, {1}};
    }
    return consistent(options);
}

void options_usage(FILE *out)
{
    fprintf(out, "usage: tandem bench OP... [options]\n\nops: ");
    print_names(out, op_names);
    fprintf(out, "\noptions (lists, like --kv-len 512,2048, form a grid):\n");
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &table[i];
        const char *initial = option->names ? find_name(option->names, option->initial) : NULL;
        fprintf(out, "  %-14s %s", option->name, option->help);
        if (option->kind == BLOCKS)
            fprintf(out, " (%" PRId64 "x%" PRId64 ")", block_rows(option->initial), block_channels(option->initial));
        else if (option->kind == INTEGER || option->kind == INTEGERS)
            fprintf(out, " (%" PRId64 ")", option->initial);
        else if (initial)
            fprintf(out, " (%s)", initial);
        fprintf(out, "\n");
        if (option->names && i != OPTION_CACHE_V) {
            fprintf(out, "  %-14s   ", "");
            print_names(out, option->names);
            fprintf(out, "\n");
        }
    }
}
