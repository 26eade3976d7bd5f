/* tandem-run - a Llama-architecture language model on libtandem: every matrix product is fp8_matmul, attention is
 * kv_append and gqa. */
#include <stdlib.h>
#include <string.h>

#include "chat.h"
#include "tasks.h"

enum { DEFAULT_CHUNK = 512 };

/* Read a whole file; the caller frees it. */
static char *read_text(const char *path, size_t *size, error *err)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    long length = -1;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0) {
        length = ftell(file);
        rewind(file);
    }
    if (length >= 0 && length < 1L << 32) {
        text = malloc((size_t)length + 1);
    }
    if (text != NULL && fread(text, 1, (size_t)length, file) != (size_t)length) {
        free(text);
        text = NULL;
    }
    if (file != NULL) {
        fclose(file);
    }
    if (text == NULL) {
        fail(err, "%.400s: cannot read it", path);
        return NULL;
    }
    *size = (size_t)length;
    return text;
}

/* The tokens that the task runs on: the prompt, or the start of a text. */
static bool input_tokens(const options *o, const checkpoint *c, token_list *tokens, error *err)
{
    if (o->prompt != NULL) {
        if (c->cfg.chatml && !o->raw) {
            return chat_tokens(&c->cfg, &c->vocab, o->prompt, tokens, err);
        }
        return tokenize(&c->vocab, o->prompt, strlen(o->prompt), tokens, err);
    }
    size_t size;
    char *text = read_text(o->perplexity != NULL ? o->perplexity : o->calibrate, &size, err);
    bool ok = text != NULL && tokenize(&c->vocab, text, size, tokens, err);
    free(text);
    if (ok && tokens->count > (size_t)o->tokens) {
        tokens->count = (size_t)o->tokens;
    }
    return ok;
}

static bool choose_settings(const options *o, const checkpoint *c, const token_list *tokens, model_settings *settings,
                            error *err)
{
    const int64_t count = (int64_t)tokens->count;
    const bool generates = o->prompt != NULL && o->logits == NULL;
    const int64_t wanted = generates ? count + o->max_tokens : count;
    const int64_t context = o->context > 0 ? o->context : wanted < c->cfg.max_context ? wanted : c->cfg.max_context;
    const int64_t chunk = o->chunk > 0 ? o->chunk : o->prompt != NULL ? DEFAULT_CHUNK : count;
    if (count == 0) {
        return fail(err, "input: it has no tokens");
    }
    if (context > c->cfg.max_context || count > context) {
        return fail(err, "context: %lld tokens in a cache of %lld, and the model goes up to %lld", (long long)count,
                    (long long)context, (long long)c->cfg.max_context);
    }
    *settings = (model_settings){
        .threads = (int32_t)o->threads,
        .chunk = chunk < count ? chunk : count,
        .context = context,
        .activations = o->activations,
        .device = o->device,
        .attention = o->attention,
        .k = &o->k,
        .v = &o->v,
    };
    return true;
}

static bool run_task(const options *o, model *m, const token_list *tokens, const char *calibration_path, error *err)
{
    if (o->perplexity != NULL) {
        return task_perplexity(m, tokens, err);
    }
    if (o->calibrate != NULL) {
        return task_calibrate(m, tokens, calibration_path, err);
    }
    return o->logits != NULL ? task_logits(m, tokens, o->logits, err) : task_generate(m, o, tokens, err);
}

static bool run_model(const options *o, const checkpoint *c, const token_list *tokens, error *err)
{
    char path[4096];
    calibration measured = {0};
    model_settings settings;
    model m;
    if (!choose_settings(o, c, tokens, &settings, err)) {
        return false;
    }
    const char *suffix = o->calibration != NULL ? "" : ".calibration";
    snprintf(path, sizeof path, "%s%s", o->calibration != NULL ? o->calibration : o->model, suffix);
    if (cache_scheme_is_calibrated(&o->k) || cache_scheme_is_calibrated(&o->v)) {
        if (!calibration_read(&measured, &c->cfg, path, err)) {
            return false;
        }
        settings.measured = &measured;
    }
    bool ok = model_create(&m, c, &settings, err);
    if (ok) {
        ok = run_task(o, &m, tokens, path, err);
        model_destroy(&m);
    }
    calibration_destroy(&measured);
    return ok;
}

static void print_tokens(const token_list *tokens)
{
    for (size_t i = 0; i < tokens->count; i++) {
        printf("%s%d", i > 0 ? " " : "", tokens->ids[i]);
    }
    printf("\n");
}

static bool run(const options *o, error *err)
{
    checkpoint c;
    token_list tokens = {0};
    if (!checkpoint_open(&c, o->model, err)) {
        return false;
    }
    bool ok = input_tokens(o, &c, &tokens, err);
    if (ok && o->tokenize) {
        print_tokens(&tokens);
    } else if (ok) {
        ok = run_model(o, &c, &tokens, err);
    }
    token_list_free(&tokens);
    checkpoint_close(&c);
    return ok;
}

int main(int argc, char **argv)
{
    options o;
    error err;
    if (!options_parse(&o, argc, argv, &err)) {
        fprintf(stderr, "tandem-run: %s\n", err.text);
        return 1;
    }
    if (o.help) {
        options_usage(stdout);
        return 0;
    }
    if (!run(&o, &err)) {
        fflush(stdout);
        fprintf(stderr, "tandem-run: %s\n", err.text);
        return 1;
    }
    return 0;
}
