/* Opening a context: versions, options and the environment. */
#include "tests/ops/indices.h"
#include "tests/ops/types.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tdm_device cpu = {TDM_CPU, 0};

/* Open with up to two variables and one thread. */
static tdm_status open_with(const char *first, const char *second, tdm_ctx **ctx)
{
    const char *const environment[] = {first, first ? second : NULL, NULL};
    tdm_options options = TDM_INIT(tdm_options);
    options.env = environment;
    return tdm_open(TDM_VERSION, &options, ctx);
}

static int threads_of(const tdm_ctx *ctx)
{
    tdm_device_info info = TDM_INIT(tdm_device_info);
    cr_assert(!tdm_device_get(ctx, cpu, &info), "%s", tdm_last_error());
    return info.threads;
}

static void expect_refused(const char *what, tdm_status status, tdm_ctx **ctx, const char *text)
{
    cr_expect_eq(status, TDM_BAD_ARG, "%s: got %s", what, tdm_status_name(status));
    cr_expect(status == TDM_OK || !*ctx, "%s: ctx is not NULL after a failure", what);
    cr_expect(status == TDM_OK || strstr(tdm_last_error(), text), "%s: '%s' does not say '%s'", what, tdm_last_error(),
              text);
    tdm_close(*ctx);
}

/* ---- versions and options ------------------------------------------------------------ */

Test(open, versions)
{
    static const struct {
        uint32_t version;
        tdm_status status;
    } rows[] = {
        {TDM_VERSION, TDM_OK},
        {TDM_VERSION_MAJOR << 16, TDM_OK},
        {(TDM_VERSION_MAJOR + 1) << 16, TDM_BAD_ARG},
        {TDM_VERSION + 1, TDM_BAD_ARG},
        {TDM_VERSION + (1 << 8), TDM_BAD_ARG},
        {UINT32_MAX, TDM_BAD_ARG},
    };
    tdm_options options = TDM_INIT(tdm_options);
    options.env = (const char *const[]){NULL};
    for (int i = 0; i < COUNT(rows); i++) {
        tdm_ctx *ctx = (tdm_ctx *)&options;
        tdm_status status = tdm_open(rows[i].version, &options, &ctx);
        cr_expect_eq(status, rows[i].status, "version %x", rows[i].version);
        cr_expect(status == TDM_OK || (!ctx && strstr(tdm_last_error(), "version")), "%s", tdm_last_error());
        tdm_close(ctx);
    }
    cr_expect_eq(tdm_version(), (uint32_t)TDM_VERSION);
}

static void never(void *user, int64_t n, tdm_task task, void *arg)
{
    (void)user, (void)n, (void)task, (void)arg;
}

static void *no_alloc(void *user, size_t bytes, size_t alignment)
{
    (void)user, (void)bytes, (void)alignment;
    return NULL;
}

Test(open, bad_options)
{
    static const tdm_threads no_threads = {0, never, NULL}, many_threads = {1025, never, NULL};
    static const tdm_threads no_function = {4, NULL, NULL}, fine = {4, never, NULL};
    static const tdm_allocator half = {no_alloc, NULL, NULL};
    static const struct {
        const char *field;
        size_t struct_size;
        int32_t threads;
        const tdm_threads *host;
        const tdm_allocator *allocator;
    } rows[] = {
        {"options.struct_size", 0, 0, NULL, NULL},
        {"options.struct_size", sizeof(tdm_options) - 8, 0, NULL, NULL},
        {"options.struct_size", SIZE_MAX, 0, NULL, NULL},
        {"options.threads", sizeof(tdm_options), -1, NULL, NULL},
        {"options.threads", sizeof(tdm_options), 1025, NULL, NULL},
        {"options.threads", sizeof(tdm_options), INT32_MIN, NULL, NULL},
        {"options.host.threads", sizeof(tdm_options), 0, &no_threads, NULL},
        {"options.host.threads", sizeof(tdm_options), 0, &many_threads, NULL},
        {"options.host.parallel_for", sizeof(tdm_options), 0, &no_function, NULL},
        {"options.threads", sizeof(tdm_options), 2, &fine, NULL},
        {"options.allocator", sizeof(tdm_options), 0, NULL, &half},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        tdm_options options = {.struct_size = rows[i].struct_size,
                               .threads = rows[i].threads,
                               .host = rows[i].host,
                               .allocator = rows[i].allocator,
                               .env = (const char *const[]){NULL}};
        tdm_ctx *ctx = (tdm_ctx *)&options;
        tdm_status status = tdm_open(TDM_VERSION, &options, &ctx);
        expect_refused(rows[i].field, status, &ctx, rows[i].field);
    }
    cr_expect_eq(tdm_open(TDM_VERSION, NULL, NULL), TDM_BAD_ARG);
    cr_expect(strstr(tdm_last_error(), "ctx"), "%s", tdm_last_error());
}

Test(open, longer_options)
{
    struct {
        tdm_options options;
        char later[8];
    } longer = {.options = {.struct_size = sizeof longer, .threads = 3, .env = (const char *const[]){NULL}}};
    tdm_ctx *ctx;
    cr_assert(!tdm_open(TDM_VERSION, &longer.options, &ctx), "%s", tdm_last_error());
    cr_expect_eq(threads_of(ctx), 3);
    tdm_close(ctx);
    longer.later[3] = 1;
    expect_refused("a later field", tdm_open(TDM_VERSION, &longer.options, &ctx), &ctx, "options");
}

/* ---- the environment -------------------------------------------------------------------- */

/* The message of a refused variable names it and lists what it may be. */
Test(open, bad_variables)
{
    static const struct {
        const char *variable, *name, *accepted;
    } rows[] = {
        {"TANDEM_THREADS=0", "TANDEM_THREADS", "1"},
        {"TANDEM_THREADS=-2", "TANDEM_THREADS", "1024"},
        {"TANDEM_THREADS=1025", "TANDEM_THREADS", "1024"},
        {"TANDEM_THREADS=99999999999999999999", "TANDEM_THREADS", "1024"},
        {"TANDEM_THREADS=", "TANDEM_THREADS", "1024"},
        {"TANDEM_THREADS=four", "TANDEM_THREADS", "1024"},
        {"TANDEM_THREADS=4x", "TANDEM_THREADS", "1024"},
        {"TANDEM_LOG=loud", "TANDEM_LOG", "off, error, warn, info"},
        {"TANDEM_LOG=", "TANDEM_LOG", "warn"},
        {"TANDEM_SKIP=nonsense", "TANDEM_SKIP", "scalar"},
        {"TANDEM_SKIP=naive,nonsense", "TANDEM_SKIP", "flash"},
        {"TANDEM_SKIP=Naive", "TANDEM_SKIP", "naive"},
        {"TANDEM_ALLOW=nonsense", "TANDEM_ALLOW", ""},
        {"TANDEM_ALLOW=flash", "TANDEM_ALLOW", "flash"}, /* not approximate: nothing to allow */
        {"TANDEM_TRACE=/nonexistent/folder/file", "TANDEM_TRACE", "/nonexistent/folder/file"},
        {"TANDEM_TRHEADS=4", "TANDEM_TRHEADS", "TANDEM_THREADS"},
        {"TANDEM_=4", "TANDEM_", "TANDEM_SKIP"},
        {"TANDEM_threads=4", "TANDEM_threads", "TANDEM_THREADS"},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        tdm_ctx *ctx;
        expect_refused(rows[i].variable, open_with(rows[i].variable, NULL, &ctx), &ctx, rows[i].name);
        cr_expect(strstr(tdm_last_error(), rows[i].accepted), "%s: '%s' does not list '%s'", rows[i].variable,
                  tdm_last_error(), rows[i].accepted);
        expect_refused(rows[i].variable, open_with("TANDEM_LOG=off", rows[i].variable, &ctx), &ctx, rows[i].name);
    }
}

Test(open, variables_of_others)
{
    static const char *const fine[] = {"tandem_threads=x", "TANDEMTHREADS=x", "PATH=/bin", "=",
                                       "TANDEM",           "TANDEM_SKIP="};
    for (int i = 0; i < COUNT(fine); i++) {
        tdm_ctx *ctx;
        cr_expect(!open_with(fine[i], NULL, &ctx), "%s: %s", fine[i], tdm_last_error());
        tdm_close(ctx);
    }
}

Test(open, an_option_beats_its_variable)
{
    const char *const environment[] = {"TANDEM_THREADS=5", NULL};
    tdm_options options = TDM_INIT(tdm_options);
    options.env = environment;
    tdm_ctx *ctx;
    cr_assert(!tdm_open(TDM_VERSION, &options, &ctx), "%s", tdm_last_error());
    cr_expect_eq(threads_of(ctx), 5);
    tdm_close(ctx);
    options.threads = 3;
    cr_assert(!tdm_open(TDM_VERSION, &options, &ctx), "%s", tdm_last_error());
    cr_expect_eq(threads_of(ctx), 3);
    tdm_close(ctx);
}

/* Without a list the process's own variables are read, with an empty one none. */
Test(open, the_process_environment)
{
    tdm_options options = TDM_INIT(tdm_options);
    tdm_ctx *ctx;
    setenv("TANDEM_THREADS", "4", 1);
    cr_assert(!tdm_open(TDM_VERSION, NULL, &ctx), "%s", tdm_last_error());
    cr_expect_eq(threads_of(ctx), 4);
    tdm_close(ctx);
    setenv("TANDEM_NONSENSE", "1", 1);
    expect_refused("TANDEM_NONSENSE", tdm_open(TDM_VERSION, &options, &ctx), &ctx, "TANDEM_NONSENSE");
    options.env = (const char *const[]){NULL};
    cr_assert(!tdm_open(TDM_VERSION, &options, &ctx), "%s", tdm_last_error());
    tdm_close(ctx);
}

Test(open, settings_tell_what_was_read)
{
    tdm_ctx *ctx;
    cr_assert(!open_with("TANDEM_THREADS=2", "TANDEM_LOG=error", &ctx), "%s", tdm_last_error());
    int seen = 0, index = 0;
    tdm_setting setting = TDM_INIT(tdm_setting);
    for (; !tdm_setting_get(ctx, index, &setting); index++) {
        cr_expect(*setting.name && *setting.meaning, "%s", setting.name);
        const char *want = !strcmp(setting.name, "TANDEM_THREADS") ? "2"
                           : !strcmp(setting.name, "TANDEM_LOG")   ? "error"
                                                                   : NULL;
        seen += want != NULL;
        cr_expect(want ? setting.value && !strcmp(setting.value, want) : !setting.value, "%s is %s", setting.name,
                  setting.value ? setting.value : "not set");
    }
    cr_expect_eq(seen, 2);
    cr_expect_geq(index, 10);
    cr_expect_eq(tdm_setting_get(ctx, -1, &setting), TDM_BAD_ARG);
    cr_expect_eq(tdm_setting_get(ctx, 0, NULL), TDM_BAD_ARG);
    cr_expect_eq(tdm_setting_get(NULL, 0, &setting), TDM_BAD_ARG);
    setting.struct_size = 0;
    cr_expect_eq(tdm_setting_get(ctx, 0, &setting), TDM_BAD_ARG);
    tdm_close(ctx);
}

/* ---- rows left out ------------------------------------------------------------------------ */

static bool is_usable(const tdm_ctx *ctx, const char *name, char *reason)
{
    tdm_kernel row = TDM_INIT(tdm_kernel);
    for (int i = 0; !tdm_kernel_get(ctx, cpu, i, &row); i++)
        if (!strcmp(row.name, name)) {
            strcpy(reason, row.reason);
            return row.usable;
        }
    strcpy(reason, "no such row");
    return true;
}

Test(open, skipped_rows_say_so)
{
    char reason[256];
    tdm_ctx *ctx;
    cr_assert(!open_with("TANDEM_SKIP=flash,scalar", NULL, &ctx), "%s", tdm_last_error());
    cr_expect(!is_usable(ctx, "flash", reason) && strstr(reason, "TANDEM_SKIP"), "%s", reason);
    cr_expect(!is_usable(ctx, "scalar", reason) && strstr(reason, "TANDEM_SKIP"), "%s", reason);
    cr_expect(is_usable(ctx, "naive", reason) && !*reason, "%s", reason);
    tdm_close(ctx);
}

/* With every row of an op left out create says why of each, and with every leaf that there is none. */
Test(open, nothing_left)
{
    struct world world;
    world_init(&world);
    cr_assert(!open_with("TANDEM_SKIP=flash,naive", NULL, &world.ctx), "%s", tdm_last_error());
    cr_expect_eq(world_create(&world, GQA), TDM_UNSUPPORTED);
    cr_expect(strstr(tdm_last_error(), "flash: left out by TANDEM_SKIP") &&
                  strstr(tdm_last_error(), "naive: left out by TANDEM_SKIP"),
              "%s", tdm_last_error());
    cr_expect_eq(world_create(&world, APPEND), TDM_OK, "%s", tdm_last_error());
    world_close(&world);

    char leaves[256] = "TANDEM_SKIP=";
    tdm_kernel row = TDM_INIT(tdm_kernel);
    cr_assert(!open_with(NULL, NULL, &world.ctx), "%s", tdm_last_error());
    for (int i = 0; !tdm_kernel_get(world.ctx, cpu, i, &row); i++)
        if (row.is_leaf)
            strcat(strcat(leaves, leaves[12] ? "," : ""), row.name);
    tdm_close(world.ctx);
    cr_assert(!open_with(leaves, NULL, &world.ctx), "%s", tdm_last_error());
    for (enum each_op op = 0; op < EACH_OPS; op++) {
        cr_expect_eq(world_create(&world, op), TDM_UNSUPPORTED, "op %d", (int)op);
        cr_expect(strstr(tdm_last_error(), "leaf"), "%s", tdm_last_error());
    }
    world_close(&world);
}
