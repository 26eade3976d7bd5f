#include "vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "unicode.h"

enum { ORDINARY = 1 };

/* GPT-2 spells printable bytes as themselves, and the others as the code points from 256 on, in order. */
static bool is_printable(int byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

static void make_spelling(vocabulary *vocab)
{
    int next = 256;
    memset(vocab->byte_of, -1, sizeof vocab->byte_of);
    for (int byte = 0; byte < 256; byte++) {
        vocab->byte_of[is_printable(byte) ? byte : next++] = (int16_t)byte;
    }
}

/* Undo the spelling; returns the number of bytes, or -1 for a code point that spells none. */
static ptrdiff_t unspell(const vocabulary *vocab, const char *text, size_t size, unsigned char *out)
{
    ptrdiff_t count = 0;
    while (size > 0) {
        uint32_t point;
        size_t length = utf8_decode((const unsigned char *)text, size, &point);
        if (point >= SPELLINGS || vocab->byte_of[point] < 0) {
            return -1;
        }
        out[count++] = (unsigned char)vocab->byte_of[point];
        text += length;
        size -= length;
    }
    return count;
}

/* ---- The hash table of tokens ---- */

static size_t hash_bytes(const unsigned char *bytes, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, 64 bits */
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    return (size_t)(hash ^ hash >> 32);
}

static size_t slots_for(size_t count)
{
    size_t slots = 16;
    while (slots < 2 * count) {
        slots *= 2;
    }
    return slots;
}

/* The slot that holds the token of these bytes, or the free one where it would go. */
static size_t token_slot(const vocabulary *vocab, const unsigned char *bytes, size_t size)
{
    size_t slot = hash_bytes(bytes, size) & vocab->token_mask;
    for (; vocab->token_slots[slot] != NO_TOKEN; slot = (slot + 1) & vocab->token_mask) {
        int32_t token = vocab->token_slots[slot];
        size_t length = vocab->start[token + 1] - vocab->start[token];
        if (length == size && memcmp(vocab->text + vocab->start[token], bytes, size) == 0) {
            break;
        }
    }
    return slot;
}

/* ---- Reading tokens ---- */

/* Cut the next line off; false when the text has no more line breaks. */
static bool next_line(const char **text, size_t *size, const char **line, size_t *length)
{
    const char *end = *size > 0 ? memchr(*text, '\n', *size) : NULL;
    if (end == NULL) {
        return false;
    }
    *line = *text;
    *length = (size_t)(end - *text);
    *text = end + 1;
    *size -= *length + 1;
    return true;
}

static bool read_token(vocabulary *vocab, int32_t token, const char *line, size_t length, error *err)
{
    unsigned char *out = vocab->text + vocab->start[token];
    if (vocab->types[token] != ORDINARY) {
        memcpy(out, line, length);
        vocab->start[token + 1] = vocab->start[token] + length;
        return true;
    }
    ptrdiff_t bytes = unspell(vocab, line, length, out);
    if (bytes <= 0) {
        return fail(err, "tokenizer.tokens: token %d is empty or spells no bytes", token);
    }
    vocab->start[token + 1] = vocab->start[token] + (size_t)bytes;
    if (bytes == 1) {
        vocab->byte_token[*out] = token;
    }
    size_t slot = token_slot(vocab, out, (size_t)bytes);
    if (vocab->token_slots[slot] != NO_TOKEN) {
        return fail(err, "tokenizer.tokens: tokens %d and %d are the same", vocab->token_slots[slot], token);
    }
    vocab->token_slots[slot] = token;
    return true;
}

static bool read_tokens(vocabulary *vocab, const char *text, size_t size, error *err)
{
    const char *line;
    size_t length;
    size_t slots = slots_for((size_t)vocab->count);
    vocab->text = malloc(size + 1); /* unspelling makes nothing longer */
    vocab->start = calloc((size_t)vocab->count + 1, sizeof *vocab->start);
    vocab->token_slots = malloc(slots * sizeof *vocab->token_slots);
    if (vocab->text == NULL || vocab->start == NULL || vocab->token_slots == NULL) {
        return fail(err, "tokenizer.tokens: no memory");
    }
    vocab->token_mask = slots - 1;
    memset(vocab->token_slots, -1, slots * sizeof *vocab->token_slots);
    memset(vocab->byte_token, -1, sizeof vocab->byte_token);
    for (int32_t token = 0; token < vocab->count; token++) {
        if (!next_line(&text, &size, &line, &length)) {
            return fail(err, "tokenizer.tokens: got %d lines, want %d", token, vocab->count);
        }
        if (!read_token(vocab, token, line, length, err)) {
            return false;
        }
    }
    return size == 0 || fail(err, "tokenizer.tokens: more text after %d lines", vocab->count);
}

/* ---- Reading merges ---- */

static merge *merge_slot(const vocabulary *vocab, int32_t left, int32_t right)
{
    uint64_t key = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    size_t slot = (size_t)(key >> 32) & vocab->merge_mask;
    while (vocab->merge_slots[slot].rank >= 0 &&
           (vocab->merge_slots[slot].left != left || vocab->merge_slots[slot].right != right)) {
        slot = (slot + 1) & vocab->merge_mask;
    }
    return &vocab->merge_slots[slot];
}

/* Read "left right": both, and the two together, must be tokens. */
static bool read_merge(vocabulary *vocab, int32_t rank, const char *line, size_t length, unsigned char *scratch,
                       error *err)
{
    const char *space = memchr(line, ' ', length);
    size_t left_length = space != NULL ? (size_t)(space - line) : 0;
    ptrdiff_t left = unspell(vocab, line, left_length, scratch);
    ptrdiff_t right = -1;
    if (left > 0) {
        right = unspell(vocab, space + 1, length - left_length - 1, scratch + left);
    }
    if (right <= 0) {
        return fail(err, "tokenizer.merges: line %d is not two tokens with a space between", rank + 1);
    }
    int32_t left_token = vocab->token_slots[token_slot(vocab, scratch, (size_t)left)];
    int32_t right_token = vocab->token_slots[token_slot(vocab, scratch + left, (size_t)right)];
    int32_t result = vocab->token_slots[token_slot(vocab, scratch, (size_t)(left + right))];
    if (left_token == NO_TOKEN || right_token == NO_TOKEN || result == NO_TOKEN) {
        return fail(err, "tokenizer.merges: line %d merges what is no token", rank + 1);
    }
    merge *slot = merge_slot(vocab, left_token, right_token);
    if (slot->rank >= 0) {
        return fail(err, "tokenizer.merges: lines %d and %d are the same", slot->rank + 1, rank + 1);
    }
    *slot = (merge){.left = left_token, .right = right_token, .result = result, .rank = rank};
    return true;
}

static bool read_merges(vocabulary *vocab, const char *text, size_t size, error *err)
{
    const char *line;
    size_t length, lines = 0;
    for (size_t i = 0; i < size; i++) {
        lines += text[i] == '\n';
    }
    if (lines > INT32_MAX / 4 || (size > 0 && text[size - 1] != '\n')) {
        return fail(err, "tokenizer.merges: too many lines, or the last has no line break");
    }
    size_t slots = slots_for(lines);
    unsigned char *scratch = malloc(size + 1);
    vocab->merge_slots = malloc(slots * sizeof *vocab->merge_slots);
    vocab->merge_mask = slots - 1;
    bool ok = (scratch != NULL && vocab->merge_slots != NULL) || fail(err, "tokenizer.merges: no memory");
    for (size_t i = 0; ok && i < slots; i++) {
        vocab->merge_slots[i].rank = -1;
    }
    for (int32_t rank = 0; ok && next_line(&text, &size, &line, &length); rank++) {
        ok = read_merge(vocab, rank, line, length, scratch, err);
    }
    free(scratch);
    return ok;
}

bool vocabulary_open(vocabulary *vocab, const char *tokens, size_t tokens_size, const char *merges, size_t merges_size,
                     const uint8_t *types, size_t types_count, error *err)
{
    *vocab = (vocabulary){.count = (int32_t)types_count, .types = types};
    if (types_count < 1 || types_count > INT32_MAX / 4) {
        return fail(err, "tokenizer.token_types: got %zu tokens", types_count);
    }
    make_spelling(vocab);
    if (!read_tokens(vocab, tokens, tokens_size, err) || !read_merges(vocab, merges, merges_size, err)) {
        vocabulary_close(vocab);
        return false;
    }
    return true;
}

void vocabulary_close(vocabulary *vocab)
{
    free(vocab->text);
    free(vocab->start);
    free(vocab->token_slots);
    free(vocab->merge_slots);
    *vocab = (vocabulary){0};
}

const unsigned char *vocabulary_text(const vocabulary *vocab, int32_t token, size_t *size)
{
    bool is_text = token >= 0 && token < vocab->count && vocab->types[token] == ORDINARY;
    *size = is_text ? vocab->start[token + 1] - vocab->start[token] : 0;
    return is_text ? vocab->text + vocab->start[token] : NULL;
}

int32_t vocabulary_special(const vocabulary *vocab, const char *spelling)
{
    size_t size = strlen(spelling);
    for (int32_t token = 0; token < vocab->count; token++) {
        size_t length = vocab->start[token + 1] - vocab->start[token];
        if (vocab->types[token] != ORDINARY && length == size &&
            memcmp(vocab->text + vocab->start[token], spelling, size) == 0) {
            return token;
        }
    }
    return NO_TOKEN;
}

const merge *vocabulary_merge(const vocabulary *vocab, int32_t left, int32_t right)
{
    const merge *slot = merge_slot(vocab, left, right);
    return slot->rank >= 0 ? slot : NULL;
}
