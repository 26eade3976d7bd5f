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
};

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

static tdm_status unknown_variable(const char *entry)
{
    char accepted[512] = "";
    for (int i = 0; i < VARIABLES; i++) {
        size_t used = strlen(accepted);
        snprintf(accepted + used, sizeof accepted - used, "%s%s", i ? ", " : "", variable_rows[i].name);
    }
    return fail(TDM_BAD_ARG, "environment: got %.*s, want one of %s", (int)strcspn(entry, "="), entry, accepted);
}

tdm_status environment_read(struct environment *environment, const tdm_allocator *allocator, const char *const *env)
{
    memset(environment, 0, sizeof *environment);
    const char *const *entries = env ? env : (const char *const *)environ;
    for (; entries && *entries; entries++) {
        const char *entry = *entries, *value = strchr(entry, '=');
        if (strncmp(entry, prefix, sizeof prefix - 1) || !value)
            continue;
        int row = row_of(entry);
        if (row < 0)
            return unknown_variable(entry);
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
        size_t used = strlen(accepted);
        snprintf(accepted + used, sizeof accepted - used, "%s%s", i ? ", " : "", words[i]);
    }
    return fail(TDM_BAD_ARG, "%s: got '%.64s', want one of %s", variable_rows[index].name, text, accepted);
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
