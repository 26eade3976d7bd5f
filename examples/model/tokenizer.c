#include "tokenizer.h"

#include <stdlib.h>

bool token_list_add(token_list *list, int32_t token, error *err)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity > 0 ? 2 * list->capacity : 256;
        int32_t *ids = realloc(list->ids, capacity * sizeof *ids);
        if (ids == NULL) {
            return fail(err, "tokens: no memory");
        }
        list->ids = ids;
        list->capacity = capacity;
    }
    list->ids[list->count++] = token;
    return true;
}

void token_list_free(token_list *list)
{
    free(list->ids);
    *list = (token_list){0};
}

/* ---- Merging the bytes of one word ---- */

/* A part of the word. A part that was merged into its left neighbour has the token NO_TOKEN. */
typedef struct part {
    int32_t token;
    ptrdiff_t left, right; /* its neighbours; -1 at an end */
} part;

/* A merge that was possible when it was found, at the place of its left part. */
typedef struct candidate {
    const merge *merge;
    ptrdiff_t at;
} candidate;

typedef struct word {
    const vocabulary *vocab;
    part *parts;
    size_t part_count;
    candidate *heap; /* the best on top; each byte gives one candidate, each merge two */
    size_t heap_count;
} word;

/* The lowest rank merges first, and the leftmost of those. */
static bool goes_before(const candidate *a, const candidate *b)
{
    return a->merge->rank != b->merge->rank ? a->merge->rank < b->merge->rank : a->at < b->at;
}

static void push(word *w, ptrdiff_t left)
{
    ptrdiff_t right = left < 0 ? -1 : w->parts[left].right;
    const merge *found = right < 0 ? NULL : vocabulary_merge(w->vocab, w->parts[left].token, w->parts[right].token);
    if (found == NULL) {
        return;
    }
    const candidate added = {found, left};
    size_t i = w->heap_count++;
    for (; i > 0 && goes_before(&added, &w->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        w->heap[i] = w->heap[(i - 1) / 2];
    }
    w->heap[i] = added;
}

static candidate pop(word *w)
{
    const candidate best = w->heap[0], last = w->heap[--w->heap_count];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < w->heap_count) {
        child += child + 1 < w->heap_count && goes_before(&w->heap[child + 1], &w->heap[child]);
        if (!goes_before(&w->heap[child], &last)) {
            break;
        }
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return best;
}

/* Do the merge, unless one of its two parts has changed since it was found. */
static void apply(word *w, candidate found)
{
    part *left = &w->parts[found.at];
    if (left->token != found.merge->left || left->right < 0 || w->parts[left->right].token != found.merge->right) {
        return;
    }
    part *right = &w->parts[left->right];
    left->token = found.merge->result;
    left->right = right->right;
    right->token = NO_TOKEN;
    if (left->right >= 0) {
        w->parts[left->right].left = found.at;
    }
    push(w, left->left);
    push(w, found.at);
}

static bool tokenize_word(word *w, const unsigned char *text, size_t size, token_list *tokens, error *err)
{
    w->part_count = w->heap_count = 0;
    for (size_t i = 0; i < size; i++) {
        int32_t token = w->vocab->byte_token[text[i]];
        if (token != NO_TOKEN) { /* a byte that the vocabulary lacks is left out */
            ptrdiff_t at = (ptrdiff_t)w->part_count++;
            w->parts[at] = (part){token, at - 1, at + 1};
        }
    }
    if (w->part_count == 0) {
        return true;
    }
    w->parts[w->part_count - 1].right = -1;
    for (size_t i = 0; i < w->part_count; i++) {
        push(w, (ptrdiff_t)i);
    }
    while (w->heap_count > 0) {
        apply(w, pop(w));
    }
    for (ptrdiff_t i = 0; i >= 0; i = w->parts[i].right) {
        if (!token_list_add(tokens, w->parts[i].token, err)) {
            return false;
        }
    }
    return true;
}

bool tokenize(const vocabulary *vocab, const char *text, size_t size, token_list *tokens, error *err)
{
    const unsigned char *rest = (const unsigned char *)text;
    word w = {.vocab = vocab};
    w.parts = malloc((size + 1) * sizeof *w.parts);
    w.heap = malloc((size + 1) * 3 * sizeof *w.heap);
    bool ok = (w.parts != NULL && w.heap != NULL) || fail(err, "tokens: no memory");
    while (ok && size > 0) {
        size_t length = first_word(rest, size);
        ok = tokenize_word(&w, rest, length, tokens, err);
        rest += length;
        size -= length;
    }
    free(w.parts);
    free(w.heap);
    return ok;
}
