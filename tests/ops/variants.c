#include "variants.h"

#include "tests/reference/host_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const no_environment[] = {NULL};
static const tdm_device cpu = {TDM_CPU, 0};

enum { MAX_ROWS = 64, MAX_VARIANTS = 64, MAX_FORCED = 3 * MAX_VARIANTS, MANY_THREADS = 7 };

struct rows {
    tdm_kernel row[MAX_ROWS];
    int count;
};

static void rows_read(const tdm_ctx *ctx, struct rows *rows)
{
    for (rows->count = 0; rows->count < MAX_ROWS; rows->count++) {
        rows->row[rows->count] = TDM_INIT(tdm_kernel);
        if (tdm_kernel_get(ctx, cpu, rows->count, &rows->row[rows->count]))
            return;
    }
}

/* Leave out every row but the two; impls of other ops do not matter and stay. */
static void skip_others(const struct rows *rows, const char *op, struct variant *variant)
{
    size_t used = (size_t)snprintf(variant->skip, sizeof variant->skip, "TANDEM_SKIP=");
    const char *comma = "";
    for (int i = 0; i < rows->count && used < sizeof variant->skip; i++) {
        const tdm_kernel *row = &rows->row[i];
        if (!strcmp(row->name, row->is_leaf ? variant->leaf : variant->impl) || (!row->is_leaf && strcmp(row->op, op)))
            continue;
        used += (size_t)snprintf(variant->skip + used, sizeof variant->skip - used, "%s%s", comma, row->name);
        comma = ",";
    }
}

static int find_variants(const char *op, struct variant *variants)
{
    tdm_options options = TDM_INIT(tdm_options);
    options.threads = 1;
    options.env = no_environment;
    tdm_ctx *ctx;
    if (tdm_open(TDM_VERSION, &options, &ctx))
        return 0;
    struct rows rows;
    rows_read(ctx, &rows);
    tdm_close(ctx);

    int count = 0;
    for (int i = 0; i < rows.count; i++)
        for (int l = 0; l < rows.count && count < MAX_VARIANTS; l++) {
            const tdm_kernel *impl = &rows.row[i], *leaf = &rows.row[l];
            if (impl->is_leaf || !leaf->is_leaf || strcmp(impl->op, op) || !impl->usable || !leaf->usable)
                continue;
            struct variant *variant = &variants[count++];
            snprintf(variant->impl, sizeof variant->impl, "%s", impl->name);
            snprintf(variant->leaf, sizeof variant->leaf, "%s", leaf->name);
            snprintf(variant->label, sizeof variant->label, "%s on %s", variant->impl, variant->leaf);
            skip_others(&rows, op, variant);
        }
    return count;
}

int variants_of(const char *op, const struct variant **variants)
{
    static struct {
        const char *op;
        struct variant variants[MAX_VARIANTS];
        int count;
    } known[8];
    int i = 0;
    while (known[i].op && strcmp(known[i].op, op))
        i++;
    if (!known[i].op) {
        known[i].op = op;
        known[i].count = find_variants(op, known[i].variants);
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
    const char *const environment[] = {forced->variant->skip, NULL};
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
