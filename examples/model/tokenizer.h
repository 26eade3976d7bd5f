/* tokenizer.h - from text to tokens: byte-level BPE with the "smollm" rules for cutting text into words. */
#ifndef TOKENIZER_H
#define TOKENIZER_H

#include "vocabulary.h"

typedef struct token_list {
    int32_t *ids;
    size_t count, capacity;
} token_list;

bool token_list_add(token_list *list, int32_t token, error *err);
void token_list_free(token_list *list);

/* The length of the first word of a text of at least one byte, as GPT-2 cuts it, with each digit alone. Merges
 * never cross from one word to the next. */
size_t first_word(const unsigned char *text, size_t size);

/* Append the tokens of a text. Special tokens never come out of it: what looks like one is plain text. */
bool tokenize(const vocabulary *vocab, const char *text, size_t size, token_list *tokens, error *err);

#endif
