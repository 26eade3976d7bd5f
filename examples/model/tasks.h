/* tasks.h - what tandem-run can do with a model. */
#ifndef TASKS_H
#define TASKS_H

#include "model.h"
#include "options.h"
#include "tokenizer.h"

/* Print the answer as it comes, then speeds and sizes on stderr. */
bool task_generate(model *m, const options *o, const token_list *prompt, error *err);

/* Print the exponential of the mean negative log probability of each token after the first. */
bool task_perplexity(model *m, const token_list *text, error *err);

/* Write [tokens, vocab] f32, as they lie in memory. */
bool task_logits(model *m, const token_list *prompt, const char *path, error *err);

/* Write what keys and values look like; the model's cache must be a plain f32 one. */
bool task_calibrate(model *m, const token_list *text, const char *path, error *err);

#endif
