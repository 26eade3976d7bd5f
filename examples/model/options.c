#include "options.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { FLAG, TEXT, INTEGER, REAL, CACHE, ACTIVATIONS, DEVICE } kind;

#define AT(field) offsetof(options, field)

/* Every option: its name, what follows it, where it goes and what it may be. */
static const struct option_row {
    const char *name, *argument, *help;
    kind kind;
    size_t offset;
    double min, max;
} rows[] = {
    {"--prompt", "TEXT", "answer this", TEXT, AT(prompt), 0, 0},
    {"--raw", NULL, "continue the prompt, without the chat template", FLAG, AT(raw), 0, 0},
    {"--max-tokens", "N", "generate at most so many tokens (256)", INTEGER, AT(max_tokens), 0, 1 << 24},
    {"--temperature", "T", "0 takes the likeliest token (0)", REAL, AT(temperature), 0, 100},
    {"--top-p", "P", "draw from the likeliest tokens that reach P together (1)", REAL, AT(top_p), 0, 1},
    {"--seed", "N", "of the random draws (0)", INTEGER, AT(seed), 0, 9e15},
    {"--cache", "SCHEME", "how keys and values are stored (f32); see below", CACHE, 0, 0, 0},
    {"--activations", "TYPE", "what ops take and give: f32, f16 or bf16 (f32)", ACTIVATIONS, 0, 0, 0},
    {"--device", "D", "where the weights are and matrices are multiplied: cpu or cuda (cpu)", DEVICE, AT(device), 0, 0},
    {"--attention", "D", "where the cache is and is attended to: cpu or cuda (cpu)", DEVICE, AT(attention), 0, 0},
    {"--threads", "N", "(one per core)", INTEGER, AT(threads), 0, 1024},
    {"--chunk", "N", "tokens of one pass over a prompt (512), or over a text (all)", INTEGER, AT(chunk), 1, 1 << 24},
    {"--context", "N", "tokens that the cache holds (as many as needed)", INTEGER, AT(context), 1, 1 << 24},
    {"--tokenize", NULL, "print the prompt's tokens and stop", FLAG, AT(tokenize), 0, 0},
    {"--logits", "FILE", "write the logits of each position of the prompt, as f32, and stop", TEXT, AT(logits), 0, 0},
    {"--perplexity", "FILE", "of this text, with no chat template", TEXT, AT(perplexity), 0, 0},
    {"--calibrate", "FILE", "run this text to measure fixed scales and the offset of keys", TEXT, AT(calibrate), 0, 0},
    {"--tokens", "N", "of a text, use so many tokens (2000)", INTEGER, AT(tokens), 2, 1 << 24},
    {"--calibration", "FILE", "where those are kept (MODEL.calibration)", TEXT, AT(calibration), 0, 0},
    {"--help", NULL, "print this", FLAG, AT(help), 0, 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

static bool read_cache(options *o, const char *text, error *err)
{
    error why;
    o->cache = text;
    return cache_scheme_parse(text, &o->k, &o->v, &why) || fail(err, "--cache: %.400s", why.text);
}

static bool read_activations(tdm_dtype *dtype, const char *name, const char *text, error *err)
{
    static const struct {
        const char *name;
        tdm_dtype dtype;
    } types[] = {{"f32", TDM_F32}, {"f16", TDM_F16}, {"bf16", TDM_BF16}};
    for (int i = 0; i < 3; i++) {
        if (strcmp(types[i].name, text) == 0) {
            *dtype = types[i].dtype;
            return true;
        }
    }
    return fail(err, "%s: got %.64s, want f32, f16 or bf16", name, text);
}

static bool read_device(tdm_device_kind *kind, const char *name, const char *text, error *err)
{
    *kind = strcmp(text, "cuda") == 0 ? TDM_CUDA : TDM_CPU;
    return *kind == TDM_CUDA || strcmp(text, "cpu") == 0 || fail(err, "%s: got %.64s, want cpu or cuda", name, text);
}

static bool read_number(const struct option_row *row, options *o, const char *text, error *err)
{
    char *end;
    double value = strtod(text, &end);
    bool whole = row->kind == REAL || value == (double)(int64_t)value;
    if (end == text || *end != '\0' || !(value >= row->min && value <= row->max) || !whole) {
        return fail(err, "%s: got %.64s, want a number from %g to %g", row->name, text, row->min, row->max);
    }
    if (row->kind == REAL) {
        *(double *)((char *)o + row->offset) = value;
    } else {
        *(int64_t *)((char *)o + row->offset) = (int64_t)value;
    }
    return true;
}

static bool read_value(const struct option_row *row, options *o, const char *text, error *err)
{
    switch (row->kind) {
    case FLAG:
        *(bool *)((char *)o + row->offset) = true;
        return true;
    case TEXT:
        *(const char **)((char *)o + row->offset) = text;
        return true;
    case CACHE:
        return read_cache(o, text, err);
    case ACTIVATIONS:
        return read_activations(&o->activations, row->name, text, err);
    case DEVICE:
        return read_device((tdm_device_kind *)((char *)o + row->offset), row->name, text, err);
    default:
        return read_number(row, o, text, err);
    }
}

static const struct option_row *find_row(const char *name)
{
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

static bool check_options(const options *o, error *err)
{
    const int tasks = (o->prompt != NULL) + (o->perplexity != NULL) + (o->calibrate != NULL);
    if (o->help) {
        return true;
    }
    if (o->model == NULL) {
        return fail(err, "model: no file given; --help lists the options");
    }
    if (o->attention == TDM_CUDA && o->device != TDM_CUDA) {
        return fail(err, "--attention cuda: wants --device cuda, too");
    }
    if (o->attention == TDM_CUDA && o->calibrate != NULL) {
        return fail(err, "--calibrate: looks into the cache on the host, so it wants --attention cpu");
    }
    return tasks == 1 || fail(err, "want one of --prompt, --perplexity and --calibrate; --help lists the options");
}

bool options_parse(options *o, int argc, char **argv, error *err)
{
    *o = (options){.max_tokens = 256, .tokens = 2000, .top_p = 1, .activations = TDM_F32};
    read_cache(o, "f32", err);
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        const struct option_row *row = find_row(name);
        if (row == NULL && strncmp(name, "--", 2) == 0) {
            return fail(err, "%.64s: no such option; --help lists them", name);
        }
        if (row == NULL && o->model != NULL) {
            return fail(err, "%.64s: there is a model file already, %.64s", name, o->model);
        }
        if (row == NULL) {
            o->model = name;
            continue;
        }
        if (row->argument != NULL && ++i == argc) {
            return fail(err, "%s: wants %s after it", name, row->argument);
        }
        if (!read_value(row, o, argv[i], err)) {
            return false;
        }
    }
    if (o->calibrate != NULL) {
        read_cache(o, "f32", err); /* what is measured are exact keys and values */
    }
    return check_options(o, err);
}

void options_usage(FILE *out)
{
    fprintf(out, "usage: tandem-run MODEL.safetensors --prompt TEXT [options]\n\n");
    for (int i = 0; i < ROWS; i++) {
        const char *argument = rows[i].argument != NULL ? rows[i].argument : "";
        fprintf(out, "  %-14s %-7s %s\n", rows[i].name, argument, rows[i].help);
    }
    cache_scheme_usage(out);
}
