/* The model file's readers: safetensors, configuration, tokenizer, weights. An input is tried as a file, and as a
 * list of edits to a good file, which gets past the first checks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char metadata[] =
    "\"__metadata__\":{\"num_hidden_layers\":\"1\",\"hidden_size\":\"2\",\"intermediate_size\":\"1\","
    "\"num_attention_heads\":\"1\",\"num_key_value_heads\":\"1\",\"head_dim\":\"2\",\"vocab_size\":\"3\","
    "\"max_position_embeddings\":\"8\",\"bos_token_id\":\"0\",\"eos_token_id\":\"1\",\"rope_theta\":\"1e4\","
    "\"rms_norm_eps\":\"1e-5\",\"pre_tokenizer\":\"smollm\",\"weight_block_size\":\"1,128\"}";

/* The tensors of a model of one layer, in the order of their data: those that need alignment come first. */
static const struct {
    const char *name, *dtype;
    int rows, columns; /* columns 0: a vector */
    const char *bytes; /* NULL: zeros         */
} tensors[] = {
    {"model.embed_tokens.weight_scale", "F32", 3, 1, NULL},
    {"model.norm.weight", "F32", 2, 0, NULL},
    {"model.layers.0.input_layernorm.weight", "F32", 2, 0, NULL},
    {"model.layers.0.post_attention_layernorm.weight", "F32", 2, 0, NULL},
    {"model.layers.0.self_attn.q_proj.weight_scale", "F32", 2, 1, NULL},
    {"model.layers.0.self_attn.k_proj.weight_scale", "BF16", 2, 1, NULL},
    {"model.layers.0.self_attn.v_proj.weight_scale", "BF16", 2, 1, NULL},
    {"model.layers.0.self_attn.o_proj.weight_scale", "F8_E8M0", 2, 1, NULL},
    {"model.layers.0.mlp.gate_proj.weight_scale_inv", "F8_E8M0", 1, 1, NULL},
    {"model.layers.0.mlp.up_proj.weight_scale", "F8_E8M0", 1, 1, NULL},
    {"model.layers.0.mlp.down_proj.weight_scale", "F8_E8M0", 2, 1, NULL},
    {"model.embed_tokens.weight", "F8_E4M3", 3, 2, NULL},
    {"model.layers.0.self_attn.q_proj.weight", "F8_E4M3", 2, 2, NULL},
    {"model.layers.0.self_attn.k_proj.weight", "F8_E4M3", 2, 2, NULL},
    {"model.layers.0.self_attn.v_proj.weight", "F8_E4M3", 2, 2, NULL},
    {"model.layers.0.self_attn.o_proj.weight", "F8_E4M3", 2, 2, NULL},
    {"model.layers.0.mlp.gate_proj.weight", "F8_E4M3", 1, 2, NULL},
    {"model.layers.0.mlp.up_proj.weight", "F8_E4M3", 1, 2, NULL},
    {"model.layers.0.mlp.down_proj.weight", "F8_E4M3", 2, 1, NULL},
    {"tokenizer.tokens", "U8", 7, 0, "a\nb\nab\n"},
    {"tokenizer.merges", "U8", 4, 0, "a b\n"},
    {"tokenizer.token_types", "U8", 3, 0, "\1\1\1"},
};

static int element_size(const char *dtype)
{
    return strcmp(dtype, "F32") == 0 ? 4 : strcmp(dtype, "BF16") == 0 ? 2 : 1;
}

/* Write the good file; returns its size. */
static size_t build(unsigned char *file, size_t capacity)
{
    char *text = (char *)file + 8;
    unsigned char data[256] = {0};
    size_t length = (size_t)snprintf(text, capacity - 8, "{%s", metadata), offset = 0;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        char shape[32];
        int columns = tensors[i].columns, count = tensors[i].rows * (columns > 0 ? columns : 1);
        size_t bytes = (size_t)(count * element_size(tensors[i].dtype));
        snprintf(shape, sizeof shape, columns > 0 ? "%d,%d" : "%d", tensors[i].rows, columns);
        length += (size_t)snprintf(text + length, capacity - 8 - length,
                                   ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                                   tensors[i].name, tensors[i].dtype, shape, offset, offset + bytes);
        if (tensors[i].bytes != NULL) {
            memcpy(data + offset, tensors[i].bytes, bytes);
        }
        offset += bytes;
    }
    length += (size_t)snprintf(text + length, capacity - 8 - length, "}");
    for (; length % 8 != 0; length++) {
        text[length] = ' ';
    }
    for (int i = 0; i < 8; i++) {
        file[i] = (unsigned char)(length >> 8 * i);
    }
    memcpy(text + length, data, offset);
    return 8 + length + offset;
}

/* A file that was accepted must be usable: each row of the embedding, and any text. */
static void use(const checkpoint *c)
{
    static const char text[] = "ab, b'a 12\n  \xf0\x9f\x99\x82 \xc3";
    token_list tokens = {0};
    error err;
    float *row = malloc((size_t)c->cfg.hidden * sizeof *row);
    for (int64_t i = 0; row != NULL && i < c->cfg.vocab; i++) {
        matrix_row(&c->weights.embedding, i, row);
    }
    free(row);
    if (!tokenize(&c->vocab, text, sizeof text - 1, &tokens, &err)) {
        abort();
    }
    for (size_t i = 0; i < tokens.count; i++) {
        size_t size;
        if (vocabulary_text(&c->vocab, tokens.ids[i], &size) == NULL || size == 0) {
            abort();
        }
    }
    token_list_free(&tokens);
}

/* True when the file is accepted. A copy of the exact size makes a read past the end show. */
static bool try_file(const unsigned char *bytes, size_t size)
{
    checkpoint c;
    error err = {""};
    unsigned char *copy = malloc(size + (size == 0));
    memcpy(copy, bytes, size);
    bool accepted = checkpoint_open_memory(&c, copy, size, &err);
    if (accepted) {
        use(&c);
        checkpoint_close(&c);
    } else if (err.text[0] == '\0') {
        abort();
    }
    free(copy);
    return accepted;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char file[8192];
    size_t file_size = build(file, sizeof file);
    if (size == 0 && !try_file(file, file_size)) {
        abort(); /* the good file must be good, or the edits test nothing */
    }
    if (size > 0) {
        try_file(data, size);
    }
    for (size_t i = 0; i + 2 < size; i += 3) { /* each edit: where (16 bits) and what */
        file[(data[i] | data[i + 1] << 8) % file_size] = data[i + 2];
    }
    try_file(file, file_size);
    return 0;
}
