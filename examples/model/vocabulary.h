/* vocabulary.h - the tokens of a byte-level BPE tokenizer and its merges. */
#ifndef VOCABULARY_H
#define VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"

enum { NO_TOKEN = -1, SPELLINGS = 324 };

/* Two neighbouring tokens that become one. */
typedef struct merge {
    int32_t left, right;
    int32_t result;
    int32_t rank; /* lower merges first */
} merge;

typedef struct vocabulary {
    int32_t count;
    unsigned char *text;        /* the bytes of all tokens, one after the other */
    size_t *start;              /* [count + 1] where each begins in text */
    const uint8_t *types;       /* [count] GGUF's token types; the file's */
    int16_t byte_of[SPELLINGS]; /* the byte that each code point spells, or -1 */
    int32_t byte_token[256];    /* the token of a single byte, or NO_TOKEN */
    int32_t *token_slots;       /* hash table of ordinary tokens by their bytes */
    merge *merge_slots;         /* hash table of merges by both tokens; rank -1: free */
    size_t token_mask, merge_mask;
} vocabulary;

/* Read the tokenizer of a model file.
 *
 * tokens, merges   one a line, bytes spelled as printable characters in GPT-2's way; a merge is two tokens
 *                  with a space between
 * types            one per token: 1 is ordinary text, all others are spelled plainly and never come from text;
 *                  must outlive the vocabulary */
bool vocabulary_open(vocabulary *vocab, const char *tokens, size_t tokens_size, const char *merges, size_t merges_size,
                     const uint8_t *types, size_t types_count, error *err);
void vocabulary_close(vocabulary *vocab);

/* The bytes that a token stands for; a token that is no text (an end mark, say) has none. */
const unsigned char *vocabulary_text(const vocabulary *vocab, int32_t token, size_t *size);

/* The special token spelled so, or NO_TOKEN. */
int32_t vocabulary_special(const vocabulary *vocab, const char *spelling);

/* The merge of two tokens, or NULL. */
const merge *vocabulary_merge(const vocabulary *vocab, int32_t left, int32_t right);

#endif
