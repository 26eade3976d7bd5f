#define _GNU_SOURCE /* secure_getenv */
#include "environment.h"

#include "error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct variable_row variable_rows[VARIABLES] = {
    [VAR_THREADS] = {"TANDEM_THREADS", "threads of the library's own pool, 1..1024"},
    [VAR_SKIP] = {"TANDEM_SKIP", "impl and leaf rows to leave out, separated by commas"},
    [VAR_ALLOW] = {"TANDEM_ALLOW", "approximate rows to let in, separated by commas"},
    [VAR_LOG] = {"TANDEM_LOG", "off, error, warn or info: what reaches the log callback, or stderr without one"},
    [VAR_TRACE] = {"TANDEM_TRACE", "file that receives a CSV line for every run"},
    [VAR_CUDA_PLUGIN] = {"TANDEM_CUDA_PLUGIN", "path of the CUDA backend, instead of the one beside the library"},
    [VAR_ORT_DISABLE_FLASH] = {"ORT_GQA_DISABLE_FLASH_ATTENTION",
                               "1, true or True to leave out the impl row flash, 0, false or False not to"},
    [VAR_ORT_APPROX_VNNI] = {"ORT_MLAS_QKGEMM_S8_APPROX_VNNI",
                             "1 to let in the approximate impl row int8_decode, 0 not to"},
    [VAR_ORT_FP8_MMA] = {"ORT_FP8_GEMV_MMA",
                         "0, false or False to leave out the impl row mma_gemv, 1, true or True not to"},
    [VAR_CPU_ISA] = {"CA_CPU_ISA",
                     "scalar, neon, sdot, avx2, vnni or a leaf row, to leave out the leaf rows that are better"},
};

#define TRUE_WORDS          \
    {                       \
        "1", "true", "True" \
    }
#define FALSE_WORDS           \
    {                         \
        "0", "false", "False" \
    }
enum { WORDS = 3 };

static const struct {
    enum variable variable;
    const char *row;
    enum effect effect;
    const char *on[WORDS], *off[WORDS]; /* the values with which it acts, and does not */
} switches[] = {
    {VAR_ORT_DISABLE_FLASH, "flash", LEAVES_OUT, TRUE_WORDS, FALSE_WORDS},
    {VAR_ORT_APPROX_VNNI, "int8_decode", LETS_IN, {"1"}, {"0"}},
    {VAR_ORT_FP8_MMA, "mma_gemv", LEAVES_OUT, FALSE_WORDS, TRUE_WORDS},
};
enum { SWITCHES = sizeof switches / sizeof *switches };

/* The tiers of CA_CPU_ISA, and which leaf rows are of each. */
static const struct {
    const char *name, *rows;
} tiers[] = {
    {"scalar", "scalar"},
    {"neon", "neon"},
    {"sdot", "neon_dotprod"},
    {"avx2", "avx2"},
    {"vnni", "avx512vnni_1,avx512vnni_2,avx512vnni,avx512"},
};
enum { TIERS = sizeof tiers / sizeof *tiers };

extern char **environ;

static const char prefix[] = "TANDEM_";

static int row_of(const char *entry)
{
    size_t length = strcspn(entry, "=");
    for (int i = 0; i < VARIABLES; i++)
        if (strlen(variable_rows[i].name) == length && !strncmp(entry, variable_rows[i].name, length))
            return i;
    return -1;
}

/* Add a word to a list for a message. */
static void add_word(char *list, size_t size, const char *word)
{
    size_t used = strlen(list);
    snprintf(list + used, size - used, "%s%s", used ? ", " : "", word);
}

static tdm_status unknown_variable(const char *entry)
{
    char accepted[512] = "";
    for (int i = 0; i < VARIABLES; i++)
        if (!strncmp(variable_rows[i].name, prefix, sizeof prefix - 1))
            add_word(accepted, sizeof accepted, variable_rows[i].name);
    return fail(TDM_BAD_ARG, "environment: got %.*s, want one of %s", (int)strcspn(entry, "="), entry, accepted);
}

tdm_status environment_read(struct environment *environment, const tdm_allocator *allocator, const char *const *env)
{
    memset(environment, 0, sizeof *environment);
    const char *const *entries = env ? env : (const char *const *)environ;
    for (; entries && *entries; entries++) {
        const char *entry = *entries, *value = strchr(entry, '=');
        int row = value ? row_of(entry) : -1;
        if (value && row < 0 && !strncmp(entry, prefix, sizeof prefix - 1))
            return unknown_variable(entry);
        if (row < 0)
            continue;
        if (!env && !secure_getenv(variable_rows[row].name))
            continue; /* a privileged program does not follow its caller's variables */
        size_t size = strlen(value + 1) + 1;
        char *copy = allocator->alloc(allocator->user, size, 1);
        if (!copy)
            return fail(TDM_NO_MEMORY, "%s: no memory for its value", variable_rows[row].name);
        if (environment->value[row])
            allocator->free(allocator->user, environment->value[row]);
        environment->value[row] = memcpy(copy, value + 1, size);
    }
    return TDM_OK;
}

void environment_free(struct environment *environment, const tdm_allocator *allocator)
{
    for (int i = 0; i < VARIABLES; i++)
        if (environment->value[i])
            allocator->free(allocator->user, environment->value[i]);
}

tdm_status environment_number(const struct environment *environment, enum variable index, int least, int most,
                              int otherwise, int *number)
{
    const char *text = environment->value[index];
    *number = otherwise;
    if (!text)
        return TDM_OK;
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < least || value > most)
        return fail(TDM_BAD_ARG, "%s: got '%.64s', want a number from %d to %d", variable_rows[index].name, text, least,
                    most);
    *number = (int)value;
    return TDM_OK;
}

tdm_status environment_choice(const struct environment *environment, enum variable index, const char *const *words,
                              int otherwise, int *choice)
{
    const char *text = environment->value[index];
    *choice = otherwise;
    if (!text)
        return TDM_OK;
    char accepted[256] = "";
    for (int i = 0; words[i]; i++) {
        if (!strcmp(words[i], text)) {
            *choice = i;
            return TDM_OK;
        }
        add_word(accepted, sizeof accepted, words[i]);
    }
    return fail(TDM_BAD_ARG, "%s: got '%.64s', want one of %s", variable_rows[index].name, text, accepted);
}

static bool is_word(const char *const words[WORDS], const char *text)
{
    for (int i = 0; i < WORDS && words[i]; i++)
        if (!strcmp(words[i], text))
            return true;
    return false;
}

const char *environment_switch(const struct environment *environment, const char *row, enum effect effect)
{
    for (int i = 0; i < SWITCHES; i++) {
        const char *text = environment->value[switches[i].variable];
        if (text && switches[i].effect == effect && !strcmp(switches[i].row, row) && is_word(switches[i].on, text))
            return variable_rows[switches[i].variable].name;
    }
    return NULL;
}

bool environment_is_odd(const struct environment *environment, enum variable index)
{
    const char *text = environment->value[index];
    for (int i = 0; i < SWITCHES && text && *text; i++)
        if (switches[i].variable == index)
            return !is_word(switches[i].on, text) && !is_word(switches[i].off, text);
    return false;
}

int environment_demoted(const struct environment *environment, const char *const *rows)
{
    const char *text = environment->value[VAR_CPU_ISA];
    if (!text || !*text)
        return 0;
    int tier = 0;
    while (tier < TIERS && strcmp(tiers[tier].name, text))
        tier++;
    for (int i = 0; rows[i]; i++)
        if (!strcmp(rows[i], text) || (tier < TIERS && list_holds(tiers[tier].rows, rows[i])))
            return i;
    return tier < TIERS ? 0 : -1; /* a tier of other machines takes nothing away */
}

bool list_holds(const char *list, const char *name)
{
    size_t length = strlen(name);
    while (list && *list) {
        size_t word = strcspn(list, ",");
        if (word == length && !strncmp(list, name, length))
            return true;
        list += word + (list[word] == ',');
    }
    return false;
}
