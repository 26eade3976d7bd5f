#include "option_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Other spellings. */
static const struct {
    const char *name;
    enum option_id id;
} aliases[] = {{"--block-size", OPTION_BLOCK}, {"--activation-dtype", OPTION_DTYPE}};

static const char *find_name(const struct name *names, int64_t value)
{
    while (names->text && names->value != value)
        names++;
    return names->text;
}

const char *option_name(enum option_id id, int64_t value)
{
    return find_name(option_table[id].names, value);
}

static void print_names(FILE *out, const struct name *names)
{
    for (const struct name *name = names; name->text; name++)
        fprintf(out, "%s%s", name == names ? "" : ", ", name->text);
}

static void print_accepted(FILE *out, const struct option *option)
{
    bool list = option->kind != FLAG && option->kind != INTEGER && option->kind != NAME;
    if (option->names) {
        fprintf(out, "one of ");
        print_names(out, option->names);
    } else {
        fprintf(out, "%s from %" PRId64 " to %" PRId64,
                option->kind == BLOCKS ? "CHANNELS or ROWSxCHANNELS, each" : "an integer", option->min, option->max);
    }
    if (list)
        fprintf(out, ", or several with commas between them");
}

/* Read an integer at *text and move *text behind it. */
static bool parse_integer(const struct option *option, const char **text, int64_t *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(*text, &end, 10);
    bool digits = **text >= '0' && **text <= '9';
    *text = end;
    *value = number;
    return digits && errno == 0 && number >= option->min && number <= option->max;
}

/* Read one value, which is all of `text`. */
static bool parse_value(const struct option *option, const char *text, int64_t *value)
{
    int64_t channels;
    if (option->names) {
        const struct name *name = option->names;
        while (name->text && strcmp(name->text, text) != 0)
            name++;
        *value = name->value;
        return name->text;
    }
    if (!parse_integer(option, &text, value))
        return false;
    if (option->kind == BLOCKS && *text == '\0') {
        *value = BLOCK(1, *value);
    } else if (option->kind == BLOCKS) {
        if (*text++ != 'x' || !parse_integer(option, &text, &channels))
            return false;
        *value = BLOCK(*value, channels);
    }
    return *text == '\0';
}

static bool parse_list(const struct option *option, const char *text, struct option_values *values)
{
    char item[32];
    bool single = option->kind == INTEGER || option->kind == NAME;
    values->count = 0;
    for (;;) {
        size_t length = single ? strlen(text) : strcspn(text, ",");
        if (length >= sizeof item || values->count == MAX_VALUES)
            return false;
        memcpy(item, text, length);
        item[length] = '\0';
        if (!parse_value(option, item, &values->value[values->count++]))
            return false;
        if (text[length] == '\0')
            return true;
        text += length + 1;
    }
}

static bool bad_value(const struct option *option, const char *got)
{
    fprintf(stderr, "tandem bench: %s: got \"%s\", want ", option->name, got);
    print_accepted(stderr, option);
    fprintf(stderr, "\n");
    return false;
}

/* Options that do not go with the ops or with each other. */
static bool consistent(const struct options *options)
{
    if (!options->ops) {
        fprintf(stderr, "tandem bench: no op given, want some of ");
        print_names(stderr, op_names);
        fprintf(stderr, "\n");
        return false;
    }
    for (int i = 0; i < OPTION_COUNT; i++) {
        if (!options->list[i].given)
            continue;
        unsigned strangers = options->ops & ~option_table[i].ops;
        if (strangers) {
            fprintf(stderr, "tandem bench: %s: not an option of %s\n", option_table[i].name,
                    find_name(op_names, strangers & -strangers));
            return false;
        }
        if (option_table[i].shape && options->list[OPTION_SUITE].given) {
            fprintf(stderr, "tandem bench: %s: not together with --suite, which has its own shapes\n",
                    option_table[i].name);
            return false;
        }
    }
    if (options->list[OPTION_PEAK].given && device_of(options->list[OPTION_DEVICE].value[0]).kind != TDM_CPU) {
        fprintf(stderr, "tandem bench: --peak: not together with --device cuda, where copies are the measure\n");
        return false;
    }
    if (options->list[OPTION_CSV].given && options->list[OPTION_JSON].given) {
        fprintf(stderr, "tandem bench: --json: not together with --csv\n");
        return false;
    }
    return true;
}

static bool parse_op(struct options *options, const char *text)
{
    for (const struct name *op = op_names; op->text; op++)
        if (strcmp(op->text, text) == 0) {
            options->ops |= (unsigned)op->value;
            return true;
        }
    fprintf(stderr, "tandem bench: op: got \"%s\", want one of ", text);
    print_names(stderr, op_names);
    fprintf(stderr, "\n");
    return false;
}

static const struct option *find_option(const char *text)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        if (strcmp(option_table[i].name, text) == 0)
            return &option_table[i];
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(aliases[i].name, text) == 0)
            return &option_table[aliases[i].id];
    fprintf(stderr, "tandem bench: %s: no such option; tandem bench --help lists them\n", text);
    return NULL;
}

bool options_parse(struct options *options, int argc, char **argv)
{
    *options = (struct options){0};
    for (int i = 0; i < OPTION_COUNT; i++)
        options->list[i] = (struct option_values){.count = 1, .value = {option_table[i].initial}};
    for (int i = 0; i < argc; i++) {
        if (argv[i][0] != '-') {
            if (!parse_op(options, argv[i]))
                return false;
            continue;
        }
        const struct option *option = find_option(argv[i]);
        if (!option)
            return false;
        struct option_values *values = &options->list[option - option_table];
        values->given = true;
        if (option->kind == FLAG) {
            values->value[0] = 1;
            continue;
        }
        const char *text = i + 1 < argc ? argv[i + 1] : "";
        if (parse_list(option, text, values)) {
            i++;
            continue;
        }
        if (option->kind != NAMES_OR_FLAG)
            return bad_value(option, text);
        *values = (struct option_values){true, 1, {1}};
    }
    return consistent(options);
}

void options_usage(FILE *out)
{
    fprintf(out, "usage: tandem bench OP... [options]\n\nops: ");
    print_names(out, op_names);
    fprintf(out, "\noptions (lists, like --kv-len 512,2048, form a grid):\n");
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &option_table[i];
        const char *initial = option->names ? find_name(option->names, option->initial) : NULL;
        fprintf(out, "  %-14s %s", option->name, option->help);
        if (option->kind == BLOCKS)
            fprintf(out, " (%" PRId64 "x%" PRId64 ")", block_rows(option->initial), block_channels(option->initial));
        else if (option->kind == INTEGER || option->kind == INTEGERS)
            fprintf(out, " (%" PRId64 ")", option->initial);
        else if (initial)
            fprintf(out, " (%s)", initial);
        fprintf(out, "\n");
        if (option->names && i != OPTION_CACHE_V) {
            fprintf(out, "  %-14s   ", "");
            print_names(out, option->names);
            fprintf(out, "\n");
        }
    }
}
