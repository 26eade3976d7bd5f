/* chat.h - put a prompt into the form that the model was trained to answer. */
#ifndef CHAT_H
#define CHAT_H

#include "config.h"
#include "tokenizer.h"

/* Append the tokens of a conversation that waits for an answer: in ChatML,
 *
 *   <|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n
 *
 * The marks are tokens here and nowhere else: a mark spelled out in the prompt is plain text. */
bool chat_tokens(const config *cfg, const vocabulary *vocab, const char *prompt, token_list *tokens, error *err);

#endif
