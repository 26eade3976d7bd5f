#include "variants.h"

#include "tests/reference/device.h"
#include "tests/reference/host_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 64, MAX_VARIANTS = 64, MAX_FORCED = 3 * MAX_VARIANTS, MANY_THREADS = 7 };

/* What selects the device's plugin; never NULL, as it may stand inside a list. */
static const char *plugin(void)
{
    return test_plugin() ? test_plugin() : "HOME=";
}

struct rows {
    tdm_ctx *ctx; /* names are those of a plugin, which goes with it */
    tdm_kernel row[MAX_ROWS];
    int count;
};

/* The rows as a context sees them that reads this environment. */
static bool rows_open(const char *const *environment, struct rows *rows)
{
    tdm_options options = TDM_INIT(tdm_options);
    options.threads = 1;
    options.env = environment;
    if (tdm_open(TDM_VERSION, &options, &rows->ctx))
        return false;
    for (rows->count = 0; rows->count < MAX_ROWS; rows->count++) {
        rows->row[rows->count] = TDM_INIT(tdm_kernel);
        if (tdm_kernel_get(rows->ctx, test_device(), rows->count, &rows->row[rows->count]))
            break;
    }
    return true;
}

/* Append `name` to a list that starts with "NAME=". */
static void add_name(char *list, size_t size, const char *name)
{
    size_t used = strlen(list);
    snprintf(list + used, size - used, "%s%s", list[used - 1] == '=' ? "" : ",", name);
}

/* Leave out every row but the two; impls of other ops do not matter and stay. */
static void skip_others(const struct rows *rows, const char *op, struct variant *variant)
{
    snprintf(variant->skip, sizeof variant->skip, "TANDEM_SKIP=");
    for (int i = 0; i < rows->count; i++) {
        const tdm_kernel *row = &rows->row[i];
        if (strcmp(row->name, row->is_leaf ? variant->leaf : variant->impl) && (row->is_leaf || !strcmp(row->op, op)))
            add_name(variant->skip, sizeof variant->skip, row->name);
    }
}

/* Whether the two rows, leaf NULL where the device has none, are a variant of the op to be tested. */
static bool is_variant(const tdm_kernel *impl, const tdm_kernel *leaf, const char *op, bool approximate)
{
    return !impl->is_leaf && !strcmp(impl->op, op) && impl->usable && impl->approximate == approximate &&
           (!leaf || (leaf->is_leaf && leaf->usable && !leaf->approximate));
}

static void add_variant(const struct rows *rows, const char *op, const tdm_kernel *impl, const tdm_kernel *leaf,
                        const char *allow, struct variant *variant)
{
    snprintf(variant->impl, sizeof variant->impl, "%s", impl->name);
    snprintf(variant->leaf, sizeof variant->leaf, "%s", leaf ? leaf->name : "");
    snprintf(variant->label, sizeof variant->label, "%s%s%s", variant->impl, leaf ? " on " : "", variant->leaf);
    snprintf(variant->allow, sizeof variant->allow, "%s", allow);
    skip_others(rows, op, variant);
}

static int find_variants(const char *op, bool approximate, struct variant *variants)
{
    char allow[sizeof variants->allow] = "TANDEM_ALLOW=";
    const char *const environment[] = {plugin(), approximate ? allow : NULL, NULL};
    struct rows rows;
    if (approximate && rows_open((const char *const[]){plugin(), NULL}, &rows)) {
        for (int i = 0; i < rows.count; i++)
            if (rows.row[i].approximate)
                add_name(allow, sizeof allow, rows.row[i].name);
        tdm_close(rows.ctx);
    }
    if (!rows_open(environment, &rows))
        return 0;

    bool has_leaves = rows.count && rows.row[rows.count - 1].is_leaf;
    int count = 0;
    for (int i = 0; i < rows.count; i++)
        for (int l = 0; l < (has_leaves ? rows.count : 1) && count < MAX_VARIANTS; l++) {
            const tdm_kernel *leaf = has_leaves ? &rows.row[l] : NULL;
            if (is_variant(&rows.row[i], leaf, op, approximate))
                add_variant(&rows, op, &rows.row[i], leaf, approximate ? allow : "", &variants[count++]);
        }
    tdm_close(rows.ctx);
    return count;
}

int variants_of(const char *op, bool approximate, const struct variant **variants)
{
    static struct {
        const char *op;
        bool approximate;
        struct variant variants[MAX_VARIANTS];
        int count;
    } known[16];
    int i = 0;
    while (known[i].op && (strcmp(known[i].op, op) || known[i].approximate != approximate))
        i++;
    if (!known[i].op) {
        known[i].op = op;
        known[i].approximate = approximate;
        known[i].count = find_variants(op, approximate, known[i].variants);
    }
    *variants = known[i].variants;
    return known[i].count;
}

/* ---- contexts ---------------------------------------------------------------------- */

static struct forced contexts[MAX_FORCED];
static int context_count;
static struct host_pool many;

static void close_all(void)
{
    for (int i = 0; i < context_count; i++)
        tdm_close(contexts[i].ctx);
    if (many.workers)
        host_pool_stop(&many);
}

static void notice(void *user, const tdm_event *event)
{
    struct forced *forced = user;
    if (strcmp(event->op, forced->op))
        return;
    forced->runs++;
    forced->strays += strcmp(event->impl, forced->variant->impl) || strcmp(event->leaf, forced->variant->leaf);
}

static tdm_status forced_open(struct forced *forced)
{
    const char *const environment[] = {forced->variant->skip, plugin(),
                                       *forced->variant->allow ? forced->variant->allow : NULL, NULL};
    tdm_options options = TDM_INIT(tdm_options);
    options.trace = notice;
    options.user = forced;
    options.env = environment;
    if (forced->threads <= FEW_THREADS) {
        options.threads = forced->threads;
    } else {
        if (!many.workers)
            host_pool_start(&many, MANY_THREADS, MANY_THREADS);
        options.host = &many.threads;
    }
    return tdm_open(TDM_VERSION, &options, &forced->ctx);
}

struct forced *forced_get(const char *op, const struct variant *variant, int threads)
{
    struct forced *forced = contexts;
    while (forced < contexts + context_count && (forced->variant != variant || forced->threads != threads))
        forced++;
    if (forced == contexts + context_count) {
        if (context_count == 0)
            atexit(close_all);
        *forced = (struct forced){.variant = variant, .op = op, .threads = threads};
        if (context_count == MAX_FORCED || forced_open(forced))
            return NULL;
        context_count++;
    }
    forced->runs = forced->strays = 0;
    return forced;
}

const char *forced_check(const struct forced *forced)
{
    return !forced->runs ? "the trace saw no run" : forced->strays ? "the trace saw another row run" : NULL;
}
