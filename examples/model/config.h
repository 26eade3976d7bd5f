/* config.h - what a Llama-architecture model is made of, from the metadata of its file. */
#ifndef CONFIG_H
#define CONFIG_H

#include "safetensors.h"

enum { MAX_HEAD_DIM = 1024 }; /* as the library has it */

typedef struct config {
    int64_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab, max_context;
    int64_t bos, eos;
    int64_t block[2]; /* rows and columns that share a weight scale; 0: the usual ones of the scale's name */
    double rope_theta, eps;
    bool rope_interleaved;   /* rotary pairs (0, 1), (2, 3), ...; else (0, half), (1, half + 1), ... */
    bool chatml;             /* the chat template is ChatML; else there is none */
    const char *chat_system; /* its system message when the user gives none, "" for none; the file's */
} config;

bool config_read(config *cfg, const safetensors *file, error *err);

#endif
