#include "config.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sizes are limited so that no product of two of them, times a context, overflows. */
enum { MAX_LAYERS = 4096, MAX_WIDTH = 1 << 20, MAX_HEADS = 4096, MAX_VOCAB = 1 << 24 };

static const struct {
    const char *key;
    size_t offset;
    int64_t min, max;
} integers[] = {
    {"num_hidden_layers", offsetof(config, layers), 1, MAX_LAYERS},
    {"hidden_size", offsetof(config, hidden), 1, MAX_WIDTH},
    {"intermediate_size", offsetof(config, ffn), 1, MAX_WIDTH},
    {"num_attention_heads", offsetof(config, heads), 1, MAX_HEADS},
    {"num_key_value_heads", offsetof(config, kv_heads), 1, MAX_HEADS},
    {"head_dim", offsetof(config, head_dim), 2, MAX_HEAD_DIM},
    {"vocab_size", offsetof(config, vocab), 1, MAX_VOCAB},
    {"max_position_embeddings", offsetof(config, max_context), 1, 1 << 24},
    {"bos_token_id", offsetof(config, bos), 0, MAX_VOCAB},
    {"eos_token_id", offsetof(config, eos), 0, MAX_VOCAB},
};

static const struct {
    const char *key;
    size_t offset;
} numbers[] = {
    {"rope_theta", offsetof(config, rope_theta)},
    {"rms_norm_eps", offsetof(config, eps)},
};

static bool read_integer(const safetensors *file, const char *key, int64_t min, int64_t max, int64_t *value, error *err)
{
    const char *text = st_metadata(file, key);
    char *end = NULL;
    *value = text != NULL ? strtoll(text, &end, 10) : -1;
    bool ok = text != NULL && end != text && *end == '\0' && *value >= min && *value <= max;
    return ok || fail(err, "%s: got %.32s, want %lld..%lld", key, text != NULL ? text : "nothing", (long long)min,
                      (long long)max);
}

static bool read_number(const safetensors *file, const char *key, double *value, error *err)
{
    const char *text = st_metadata(file, key);
    char *end = NULL;
    *value = text != NULL ? strtod(text, &end) : -1;
    bool ok = text != NULL && end != text && *end == '\0' && *value > 0 && isfinite(*value);
    return ok || fail(err, "%s: got %.32s, want a positive number", key, text != NULL ? text : "nothing");
}

/* The value of a key that may be missing must be one of two words; says whether it is the second. */
static bool read_choice(const safetensors *file, const char *key, const char *first, const char *second, bool *value,
                        error *err)
{
    const char *text = st_metadata(file, key);
    *value = text != NULL && strcmp(text, second) == 0;
    return text == NULL || *value || strcmp(text, first) == 0 ||
           fail(err, "%s: got %.32s, want %s or %s", key, text, first, second);
}

static bool read_block(config *cfg, const safetensors *file, error *err)
{
    const char *text = st_metadata(file, "weight_block_size");
    long long rows, columns;
    int end = 0;
    if (text == NULL) {
        return true;
    }
    if (sscanf(text, "%7lld,%7lld%n", &rows, &columns, &end) != 2 || text[end] != '\0' || rows < 1 || columns < 1) {
        return fail(err, "weight_block_size: got %.32s, want two sizes as in 1,128", text);
    }
    cfg->block[0] = rows;
    cfg->block[1] = columns;
    return true;
}

static bool check_config(const config *cfg, const safetensors *file, error *err)
{
    const char *words = st_metadata(file, "pre_tokenizer");
    if (cfg->heads % cfg->kv_heads != 0) {
        return fail(err, "num_attention_heads: got %lld, want a multiple of num_key_value_heads, %lld",
                    (long long)cfg->heads, (long long)cfg->kv_heads);
    }
    if (cfg->head_dim % 2 != 0) {
        return fail(err, "head_dim: got %lld, a rotary embedding wants pairs", (long long)cfg->head_dim);
    }
    if (cfg->bos >= cfg->vocab || cfg->eos >= cfg->vocab) {
        return fail(err, "bos_token_id, eos_token_id: want less than vocab_size");
    }
    return (words != NULL && strcmp(words, "smollm") == 0) ||
           fail(err, "pre_tokenizer: got %.32s, want smollm", words != NULL ? words : "nothing");
}

bool config_read(config *cfg, const safetensors *file, error *err)
{
    *cfg = (config){0};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        int64_t *value = (int64_t *)((char *)cfg + integers[i].offset);
        if (!read_integer(file, integers[i].key, integers[i].min, integers[i].max, value, err)) {
            return false;
        }
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (!read_number(file, numbers[i].key, (double *)((char *)cfg + numbers[i].offset), err)) {
            return false;
        }
    }
    const char *system = st_metadata(file, "chat_system");
    cfg->chat_system = system != NULL ? system : "";
    return read_choice(file, "rope_pairing", "half-split", "interleaved", &cfg->rope_interleaved, err) &&
           read_choice(file, "chat_template", "none", "chatml", &cfg->chatml, err) && read_block(cfg, file, err) &&
           check_config(cfg, file, err);
}
