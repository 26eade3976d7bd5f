#include "chat.h"

#include <stdlib.h>
#include <string.h>

/* The text between two marks is cut into words as one piece, so it is put together first. */
static bool add_text(const vocabulary *vocab, const char *role, const char *content, token_list *tokens, error *err)
{
    const size_t role_size = strlen(role), content_size = strlen(content), size = role_size + 1 + content_size;
    char *text = malloc(size);
    if (text == NULL) {
        return fail(err, "chat: no memory");
    }
    memcpy(text, role, role_size);
    text[role_size] = '\n';
    memcpy(text + role_size + 1, content, content_size);
    bool ok = tokenize(vocab, text, size, tokens, err);
    free(text);
    return ok;
}

static bool add_message(const vocabulary *vocab, const char *role, const char *content, token_list *tokens, error *err)
{
    return token_list_add(tokens, vocabulary_special(vocab, "<|im_start|>"), err) &&
           add_text(vocab, role, content, tokens, err) &&
           token_list_add(tokens, vocabulary_special(vocab, "<|im_end|>"), err) &&
           tokenize(vocab, "\n", 1, tokens, err);
}

bool chat_tokens(const config *cfg, const vocabulary *vocab, const char *prompt, token_list *tokens, error *err)
{
    if (vocabulary_special(vocab, "<|im_start|>") == NO_TOKEN || vocabulary_special(vocab, "<|im_end|>") == NO_TOKEN) {
        return fail(err, "chat_template: the vocabulary lacks <|im_start|> or <|im_end|>");
    }
    if (*cfg->chat_system != '\0' && !add_message(vocab, "system", cfg->chat_system, tokens, err)) {
        return false;
    }
    return add_message(vocab, "user", prompt, tokens, err) &&
           token_list_add(tokens, vocabulary_special(vocab, "<|im_start|>"), err) &&
           add_text(vocab, "assistant", "", tokens, err);
}
