#include "tasks.h"

#include <math.h>
#include <stdlib.h>

#include "report.h"
#include "sampler.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static float *allocate_logits(const model *m, int64_t rows, error *err)
{
    float *logits = malloc((size_t)(rows * m->from->cfg.vocab) * sizeof *logits);
    if (logits == NULL) {
        fail(err, "logits: no memory");
    }
    return logits;
}

/* ---- Generation ---- */

/* Run the prompt in chunks; returns the logits that follow it. */
static bool prefill(model *m, const token_list *prompt, float *logits, error *err)
{
    const int64_t count = (int64_t)prompt->count;
    int64_t rows = 0;
    for (int64_t pos = 0; pos < count; pos += rows) {
        rows = smaller(m->chunk, count - pos);
        if (!model_forward(m, prompt->ids + pos, rows, pos, err)) {
            return false;
        }
    }
    return model_logits(m, rows - 1, 1, logits, err);
}

static void print_token(const model *m, int32_t token)
{
    size_t size;
    const unsigned char *text = vocabulary_text(&m->from->vocab, token, &size);
    if (text == NULL) {
        return; /* a special token */
    }
    fwrite(text, 1, size, stdout);
    fflush(stdout);
}

/* Print tokens until the end mark, the limit or the end of the cache; `count` receives how many. */
static bool decode(model *m, sampler *s, int64_t pos, int64_t limit, float *logits, int64_t *count, error *err)
{
    for (*count = 0; *count < limit;) {
        const int32_t token = sampler_next(s, logits);
        if (token == m->from->cfg.eos) {
            return true;
        }
        print_token(m, token);
        ++*count;
        if (*count == limit) {
            return true;
        }
        if (pos == m->context) {
            fprintf(stderr, "\n[the cache is full]");
            return true;
        }
        if (!model_forward(m, &token, 1, pos++, err) || !model_logits(m, 0, 1, logits, err)) {
            return false;
        }
    }
    return true;
}

bool task_generate(model *m, const options *o, const token_list *prompt, error *err)
{
    sampler s = {0};
    int64_t count = 0;
    float *logits = allocate_logits(m, 1, err);
    const double start = seconds();
    bool ok = logits != NULL &&
              sampler_create(&s, (int32_t)m->from->cfg.vocab, (float)o->temperature, (float)o->top_p, (uint64_t)o->seed,
                             err) &&
              prefill(m, prompt, logits, err);
    const double middle = seconds();
    ok = ok && decode(m, &s, (int64_t)prompt->count, o->max_tokens, logits, &count, err);
    const double end = seconds();
    if (ok) {
        printf("\n");
        fflush(stdout);
        report_speed("prompt", (int64_t)prompt->count, middle - start);
        report_speed("generation", count, end - middle);
        report_cache(m, o->cache);
        report_device(m, end - start);
    }
    sampler_destroy(&s);
    free(logits);
    return ok;
}

/* ---- Every position of a text ---- */

/* What is done with the logits that follow the token at a position. */
typedef bool (*visitor)(void *state, const model *m, int64_t position, const float *logits, error *err);

static bool visit_logits(model *m, const token_list *text, visitor visit, void *state, error *err)
{
    const int64_t count = (int64_t)text->count, vocab = m->from->cfg.vocab;
    float *logits = allocate_logits(m, LOGIT_ROWS, err);
    bool ok = logits != NULL;
    for (int64_t pos = 0, rows; ok && pos < count; pos += rows) {
        rows = smaller(m->chunk, count - pos);
        ok = model_forward(m, text->ids + pos, rows, pos, err);
        for (int64_t first = 0, some; ok && first < rows; first += some) {
            some = smaller(LOGIT_ROWS, rows - first);
            ok = model_logits(m, first, some, logits, err);
            for (int64_t i = 0; ok && i < some; i++) {
                ok = visit(state, m, pos + first + i, logits + i * vocab, err);
            }
        }
    }
    free(logits);
    return ok;
}

typedef struct surprise {
    const token_list *text;
    double sum; /* of the negative log probabilities */
} surprise;

static bool add_surprise(void *state, const model *m, int64_t position, const float *logits, error *err)
{
    surprise *s = state;
    const int64_t vocab = m->from->cfg.vocab;
    float peak = logits[0]; /* a double here breaks gcc 12 on AArch64 */
    double sum = 0;
    (void)err;
    if (position + 1 == (int64_t)s->text->count) {
        return true;
    }
    for (int64_t i = 1; i < vocab; i++) {
        peak = fmaxf(peak, logits[i]);
    }
    for (int64_t i = 0; i < vocab; i++) {
        sum += exp((double)logits[i] - peak);
    }
    s->sum += log(sum) + peak - logits[s->text->ids[position + 1]];
    return true;
}

bool task_perplexity(model *m, const token_list *text, error *err)
{
    surprise s = {.text = text};
    if (text->count < 2) {
        return fail(err, "perplexity: the text has fewer than two tokens");
    }
    if (!visit_logits(m, text, add_surprise, &s, err)) {
        return false;
    }
    printf("perplexity %.4f of %zu tokens\n", exp(s.sum / (double)(text->count - 1)), text->count);
    return true;
}

static bool write_logits(void *state, const model *m, int64_t position, const float *logits, error *err)
{
    (void)position;
    return fwrite(logits, sizeof *logits, (size_t)m->from->cfg.vocab, state) == (size_t)m->from->cfg.vocab ||
           fail(err, "logits: cannot write them");
}

bool task_logits(model *m, const token_list *prompt, const char *path, error *err)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        return fail(err, "%.400s: cannot write the logits", path);
    }
    bool ok = visit_logits(m, prompt, write_logits, file, err);
    return (fclose(file) == 0 || fail(err, "%.400s: cannot write the logits", path)) && ok;
}

/* The cache holds the keys and values of the whole text, in f32 and as they are. */
static void observe(const model *m, int64_t tokens, calibration *seen)
{
    for (int64_t i = 0; i < m->cache.layer_count; i++) {
        const tdm_kv_data *layer = &m->cache.layers[i];
        calibration_observe(seen, i, layer->k, layer->v, m->context, tokens);
    }
}

bool task_calibrate(model *m, const token_list *text, const char *path, error *err)
{
    calibration seen;
    float *logits = allocate_logits(m, 1, err);
    if (logits == NULL) {
        return false;
    }
    bool ok = calibration_create(&seen, &m->from->cfg, err);
    if (ok) {
        ok = prefill(m, text, logits, err);
        if (ok) {
            observe(m, (int64_t)text->count, &seen);
            ok = calibration_write(&seen, path, err);
        }
        calibration_destroy(&seen);
    }
    free(logits);
    if (ok) {
        printf("wrote %s from %zu tokens\n", path, text->count);
    }
    return ok;
}
