#define _GNU_SOURCE /* dladdr, RTLD_NODELETE */
#include "context.h"

#include "error.h"

#include <dlfcn.h>
#include <string.h>

extern const struct backend cpu_backend;

#define TEXT(x) #x
#define STRING(x) TEXT(x)
static const char cuda_plugin[] = "libtandem_cuda.so." STRING(TDM_VERSION_MAJOR);

static tdm_status start(tdm_ctx *ctx, struct loaded *loaded, const struct backend *backend)
{
    tdm_status status = backend->open(&ctx->services, &loaded->state);
    if (status)
        snprintf(loaded->reason, sizeof loaded->reason, "%s", tdm_last_error());
    else
        loaded->backend = backend;
    return status;
}

/* It stays loaded: threads that called the driver's runtime in it run some of its code when they end. */
enum { OPEN = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };

/* The plugin lies beside this library, wherever that is installed; else the system's search path has it. */
static void *open_plugin(const char *named, char *reason)
{
    char path[4096];
    Dl_info here;
    void *library = NULL;
    if (named) {
        library = dlopen(named, OPEN);
    } else {
        const char *slash = dladdr(cuda_plugin, &here) && here.dli_fname ? strrchr(here.dli_fname, '/') : NULL;
        if (slash && snprintf(path, sizeof path, "%.*s/%s", (int)(slash - here.dli_fname), here.dli_fname,
                              cuda_plugin) < (int)sizeof path)
            library = dlopen(path, OPEN);
        if (!library)
            library = dlopen(cuda_plugin, OPEN);
    }
    if (!library)
        snprintf(reason, REASON_SIZE, "the CUDA backend did not load: %s%s", dlerror(),
                 named ? "" : "; it belongs beside libtandem, or TANDEM_CUDA_PLUGIN names it");
    return library;
}

static void load_plugin(tdm_ctx *ctx, struct loaded *loaded, tdm_device_kind kind)
{
    const char *named = ctx->environment.value[VAR_CUDA_PLUGIN];
    loaded->library = open_plugin(named, loaded->reason);
    if (!loaded->library)
        return;
    backend_entry *entry = NULL;
    void *symbol = dlsym(loaded->library, BACKEND_ENTRY);
    memcpy(&entry, &symbol, sizeof entry);
    const struct backend *backend = entry ? entry(BACKEND_ABI) : NULL;
    if (!entry)
        snprintf(loaded->reason, sizeof loaded->reason, "%s is no backend: it has no symbol " BACKEND_ENTRY,
                 named ? named : cuda_plugin);
    else if (!backend || backend->abi != BACKEND_ABI || backend->kind != kind)
        snprintf(loaded->reason, sizeof loaded->reason, "the CUDA backend is of another version, want ABI %d",
                 BACKEND_ABI);
    else if (!start(ctx, loaded, backend))
        return;
    dlclose(loaded->library);
    loaded->library = NULL;
}

static void load(tdm_ctx *ctx, struct loaded *loaded, tdm_device_kind kind)
{
    load_plugin(ctx, loaded, kind);
    ctx->services.log(ctx, TDM_LOG_INFO, "%s", loaded->backend ? "the CUDA backend is loaded" : loaded->reason);
}

tdm_status backends_open(tdm_ctx *ctx)
{
    for (int i = 0; i < BACKENDS; i++)
        pthread_mutex_init(&ctx->backends[i].lock, NULL);
    struct loaded *cpu = &ctx->backends[TDM_CPU];
    cpu->tried = true;
    return start(ctx, cpu, &cpu_backend);
}

void backends_close(tdm_ctx *ctx)
{
    for (int i = 0; i < BACKENDS; i++) {
        struct loaded *loaded = &ctx->backends[i];
        if (loaded->backend)
            loaded->backend->close(loaded->state);
        if (loaded->library)
            dlclose(loaded->library);
        pthread_mutex_destroy(&loaded->lock);
    }
}

struct loaded *backends_get(tdm_ctx *ctx, tdm_device_kind kind)
{
    struct loaded *loaded = &ctx->backends[kind];
    pthread_mutex_lock(&loaded->lock);
    if (!loaded->tried) {
        load(ctx, loaded, kind);
        loaded->tried = true;
    }
    pthread_mutex_unlock(&loaded->lock);
    return loaded->backend ? loaded : NULL;
}

tdm_status backends_find(tdm_ctx *ctx, tdm_device device, struct loaded **found)
{
    if ((unsigned)device.kind >= BACKENDS)
        return fail(TDM_BAD_ARG, "device.kind: got %d, want TDM_CPU or TDM_CUDA", (int)device.kind);
    if (device.index < 0 || (device.kind == TDM_CPU && device.index > 0))
        return fail(TDM_BAD_ARG, "device.index: got %d, want 0%s", device.index,
                    device.kind == TDM_CPU ? "" : " or more");
    *found = backends_get(ctx, device.kind);
    if (!*found)
        return fail(TDM_NO_DEVICE, "device: %s", ctx->backends[device.kind].reason);
    int count = (*found)->backend->device_count((*found)->state);
    if (device.index >= count)
        return fail(TDM_NO_DEVICE, "device.index: got %d, want less than %d, the GPUs there are", device.index, count);
    return TDM_OK;
}

/* The plugin's rows, which an environment may name on a machine where it does not load. */
static const char *const cuda_rows[] = {"mma_gemv", "warp_gemv", "dequant_cublas", "cuda_append", "cuda_flash"};

static bool is_word(const char *name, const char *word, int length)
{
    return (int)strlen(name) == length && !strncmp(name, word, (size_t)length);
}

static bool is_cuda_row(const char *word, int length)
{
    for (size_t i = 0; i < sizeof cuda_rows / sizeof *cuda_rows; i++)
        if (is_word(cuda_rows[i], word, length))
            return true;
    return false;
}

static bool has_row(const struct loaded *loaded, const char *word, int length, bool must_be_approximate)
{
    const struct impl *const *impl = loaded->backend->impls;
    for (; *impl; impl++)
        if (is_word((*impl)->name, word, length))
            return !must_be_approximate || (*impl)->approximate;
    tdm_kernel row;
    for (int i = 0; backend_leaf(loaded->backend, loaded->state, i, &row); i++)
        if (is_word(row.name, word, length))
            return !must_be_approximate || row.approximate;
    return false;
}

/* The names that are taken, for the message. */
static void list_rows(const struct loaded *cpu, bool only_approximate, char *text, size_t size)
{
    size_t used = 0;
    const struct impl *const *impl = cpu->backend->impls;
    for (; *impl && used < size; impl++)
        if (!only_approximate || (*impl)->approximate)
            used += (size_t)snprintf(text + used, size - used, " %s", (*impl)->name);
    tdm_kernel row;
    for (int i = 0; used < size && backend_leaf(cpu->backend, cpu->state, i, &row); i++)
        if (!only_approximate || row.approximate)
            used += (size_t)snprintf(text + used, size - used, " %s", row.name);
    for (size_t i = 0; used < size && !only_approximate && i < sizeof cuda_rows / sizeof *cuda_rows; i++)
        used += (size_t)snprintf(text + used, size - used, " %s", cuda_rows[i]);
}

static tdm_status check_list(tdm_ctx *ctx, enum variable variable, bool must_be_approximate)
{
    const char *list = ctx->environment.value[variable];
    while (list && *list) {
        int length = (int)strcspn(list, ",");
        bool known = !must_be_approximate && is_cuda_row(list, length);
        /* The CPU comes first: only a word it does not know makes the plugin load. */
        for (int kind = 0; kind < BACKENDS && !known; kind++) {
            struct loaded *loaded = backends_get(ctx, (tdm_device_kind)kind);
            known = loaded && has_row(loaded, list, length, must_be_approximate);
        }
        if (!known) {
            char rows[512] = " nothing, no row is approximate";
            list_rows(&ctx->backends[TDM_CPU], must_be_approximate, rows, sizeof rows);
            return fail(TDM_BAD_ARG, "%s: got '%.*s', want some of:%s", variable_rows[variable].name, length, list,
                        rows);
        }
        list += length + (list[length] == ',');
    }
    return TDM_OK;
}

tdm_status backends_check_rows(tdm_ctx *ctx)
{
    tdm_status status = check_list(ctx, VAR_SKIP, false);
    return status ? status : check_list(ctx, VAR_ALLOW, true);
}
