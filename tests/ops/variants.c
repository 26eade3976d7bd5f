#include "variants.h"

#include <stdio.h>
#include <string.h>

static const char *const no_environment[] = {NULL};
static const tdm_device cpu = {TDM_CPU, 0};

enum { MAX_ROWS = 64 };

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

int variants_of(const char *op, struct variant *variants, int capacity)
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
        for (int l = 0; l < rows.count && count < capacity; l++) {
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

static void notice(void *user, const tdm_event *event)
{
    struct forced *forced = user;
    if (strcmp(event->op, forced->op))
        return;
    forced->runs++;
    forced->strays += strcmp(event->impl, forced->variant->impl) || strcmp(event->leaf, forced->variant->leaf);
}

tdm_status forced_open(struct forced *forced, const char *op, const struct variant *variant, int threads)
{
    *forced = (struct forced){.variant = variant, .op = op};
    const char *const environment[] = {variant->skip, NULL};
    tdm_options options = TDM_INIT(tdm_options);
    options.threads = threads;
    options.trace = notice;
    options.user = forced;
    options.env = environment;
    return tdm_open(TDM_VERSION, &options, &forced->ctx);
}

const char *forced_check(const struct forced *forced)
{
    return !forced->runs ? "the trace saw no run" : forced->strays ? "the trace saw another row run" : NULL;
}
