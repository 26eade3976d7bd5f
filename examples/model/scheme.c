#include "scheme.h"

#include <string.h>

static const struct form {
    const char *name;
    tdm_dtype dtype;
    tdm_scaling scaling;
    int32_t group;
} forms[] = {
    {"f32", TDM_F32, TDM_UNSCALED, 0},
    {"f16", TDM_F16, TDM_UNSCALED, 0},
    {"bf16", TDM_BF16, TDM_UNSCALED, 0},
    {"fp8", TDM_F8E4M3, TDM_UNSCALED, 0},
    {"fp8-token", TDM_F8E4M3, TDM_PER_TOKEN, 0},
    {"int8-tensor", TDM_I8, TDM_PER_TENSOR, 0},
    {"int8-channel", TDM_I8, TDM_PER_CHANNEL, 0},
    {"int8-token", TDM_I8, TDM_PER_TOKEN, 0},
    {"int8-group32", TDM_I8, TDM_PER_GROUP, 32},
    {"int4-tensor", TDM_I4, TDM_PER_TENSOR, 0},
    {"int4-channel", TDM_I4, TDM_PER_CHANNEL, 0},
    {"int4-token", TDM_I4, TDM_PER_TOKEN, 0},
    {"int4-group16", TDM_I4, TDM_PER_GROUP, 16},
    {"int4-group32", TDM_I4, TDM_PER_GROUP, 32},
    {"int4-group64", TDM_I4, TDM_PER_GROUP, 64},
};
enum { FORMS = sizeof forms / sizeof *forms };

static bool is(const char *word, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(word, name, length) == 0;
}

static const struct form *find_form(const char *word, size_t length)
{
    for (int i = 0; i < FORMS; i++) {
        if (is(word, length, forms[i].name)) {
            return &forms[i];
        }
    }
    return NULL;
}

/* Read "NAME+MODIFIER+..." up to a slash or the end, and move on to there. */
static bool parse_one(const char **text, cache_scheme *scheme, error *err)
{
    const char *word = *text;
    size_t length = strcspn(word, "+/");
    const struct form *form = find_form(word, length);
    if (form == NULL) {
        return fail(err, "got %.64s, want a scheme that --help lists", word);
    }
    *scheme = (cache_scheme){.dtype = form->dtype, .scaling = form->scaling, .group = form->group};
    for (word += length; *word == '+'; word += length) {
        length = strcspn(++word, "+/");
        if (is(word, length, "rotate")) {
            scheme->rotate = true;
        } else if (is(word, length, "offset")) {
            scheme->offset = true;
        } else {
            return fail(err, "got +%.64s, want +rotate or +offset", word);
        }
    }
    *text = word;
    return true;
}

bool cache_scheme_parse(const char *text, cache_scheme *k, cache_scheme *v, error *err)
{
    if (!parse_one(&text, k, err)) {
        return false;
    }
    if (*text == '\0') {
        *v = *k;
        v->offset = false;
        return true;
    }
    text++;
    if (!parse_one(&text, v, err)) {
        return false;
    }
    if (*text != '\0') {
        return fail(err, "got %.64s after keys and values, want nothing", text);
    }
    return !v->offset || fail(err, "got +offset for values, want it for keys only");
}

void cache_scheme_usage(FILE *out)
{
    fprintf(out, "\ncache schemes:");
    for (int i = 0; i < FORMS; i++) {
        fprintf(out, "%s%s", i % 8 == 0 ? "\n  " : " ", forms[i].name);
    }
    fprintf(out, "\n  KEYS/VALUES stores the two in different ways: int8-token/int4-token\n"
                 "  +rotate     spreads large channels over the head (Walsh-Hadamard): int4-token+rotate\n"
                 "  +offset     subtracts the mean key of another text first: int4-group32+rotate+offset\n"
                 "  -tensor, -channel and +offset want a --calibrate run first\n");
}

bool cache_scheme_is_calibrated(const cache_scheme *scheme)
{
    return scheme->offset || scheme->scaling == TDM_PER_TENSOR || scheme->scaling == TDM_PER_CHANNEL;
}
