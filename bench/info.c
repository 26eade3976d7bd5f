#include "info.h"

#include "json.h"
#include "tandem.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_names[] = {[TDM_CPU] = "cpu", [TDM_CUDA] = "cuda"};
#define KINDS ((int)(sizeof kind_names / sizeof kind_names[0]))

/* Describe device number i, counted over all kinds. An absent kind has one device, which says why. */
static bool device_at(const tdm_ctx *ctx, int i, tdm_device *device, tdm_device_info *info)
{
    *device = (tdm_device){TDM_CPU, 0};
    for (int kind = 0; kind < KINDS; kind++)
        for (int32_t index = 0;; index++) {
            *device = (tdm_device){(tdm_device_kind)kind, index};
            *info = TDM_INIT(tdm_device_info);
            bool described = tdm_device_get(ctx, *device, info) == TDM_OK;
            if (!described || (index > 0 && !info->present))
                break;
            if (i-- == 0)
                return true;
        }
    return false;
}

static bool kernel_at(const tdm_ctx *ctx, tdm_device device, int i, tdm_kernel *kernel)
{
    *kernel = TDM_INIT(tdm_kernel);
    return tdm_kernel_get(ctx, device, i, kernel) == TDM_OK;
}

static bool setting_at(const tdm_ctx *ctx, int i, tdm_setting *setting)
{
    *setting = TDM_INIT(tdm_setting);
    return tdm_setting_get(ctx, i, setting) == TDM_OK;
}

/* ---- For people ---- */

static const char *size_text(int64_t bytes, char *text, size_t size)
{
    if (bytes == 0)
        snprintf(text, size, "unknown");
    else if (bytes < INT64_C(1) << 20)
        snprintf(text, size, "%" PRId64 " KiB", bytes >> 10);
    else if (bytes < INT64_C(1) << 30)
        snprintf(text, size, "%.3g MiB", (double)bytes / (1 << 20));
    else
        snprintf(text, size, "%.3g GiB", (double)bytes / (1 << 30));
    return text;
}

/* A GPU has no L3, and its L1 is not known. */
static void print_caches(const tdm_device_info *info)
{
    int printed = 0;
    for (int level = 0; level < 3; level++) {
        char text[32];
        if (info->cache[level])
            printf("%sL%d %s", printed++ ? ", " : "  caches    ", level + 1,
                   size_text(info->cache[level], text, sizeof text));
    }
    printf("%s", printed ? "\n" : "");
}

static void print_device(tdm_device device, const tdm_device_info *info)
{
    char text[32];
    printf("\n%s %" PRId32 ": ", kind_names[device.kind], device.index);
    if (!info->present) {
        printf("absent: %s\n", info->reason);
        return;
    }
    printf("%s\n  features  %s\n", info->name, info->features);
    printf("  memory    %s\n", size_text(info->memory, text, sizeof text));
    print_caches(info);
    if (info->threads)
        printf("  threads   %" PRId32 "\n", info->threads);
}

static void print_kernels(const tdm_ctx *ctx, tdm_device device)
{
    tdm_kernel kernel;
    for (int i = 0; kernel_at(ctx, device, i, &kernel); i++) {
        if (i == 0)
            printf("\n  op            row             used, or why not\n");
        printf("  %-12s  %-14s  %s%s%s\n", kernel.is_leaf ? "(leaf)" : kernel.op, kernel.name,
               kernel.usable ? "yes" : "no: ", kernel.usable ? "" : kernel.reason,
               kernel.approximate ? " (approximate)" : "");
    }
}

static int print_text(const tdm_ctx *ctx)
{
    uint32_t version = tdm_version();
    tdm_device device;
    tdm_device_info info;
    tdm_setting setting;
    printf("tandem %u.%u.%u\n", version >> 16, version >> 8 & 255, version & 255);
    for (int i = 0; device_at(ctx, i, &device, &info); i++) {
        print_device(device, &info);
        print_kernels(ctx, device);
    }
    printf("\nenvironment\n");
    for (int i = 0; setting_at(ctx, i, &setting); i++)
        printf("  %s%s%s\n      %s\n", setting.name, setting.value ? "=" : " (not set)",
               setting.value ? setting.value : "", setting.meaning);
    return 0;
}

/* ---- As JSON ---- */

static void json_text(const char *before, const char *name, const char *text)
{
    printf("%s\"%s\": ", before, name);
    json_string(text);
}

static void json_device(const tdm_ctx *ctx, tdm_device device, const tdm_device_info *info)
{
    tdm_kernel kernel;
    json_text("    {", "kind", kind_names[device.kind]);
    printf(", \"index\": %" PRId32 ", \"present\": %s", device.index, info->present ? "true" : "false");
    json_text(", ", "reason", info->reason);
    json_text(", ", "name", info->name);
    json_text(", ", "features", info->features);
    printf(",\n     \"threads\": %" PRId32 ", \"memory\": %" PRId64, info->threads, info->memory);
    printf(", \"cache\": [%" PRId64 ", %" PRId64 ", %" PRId64 "]", info->cache[0], info->cache[1], info->cache[2]);
    printf(",\n     \"kernels\": [");
    for (int i = 0; kernel_at(ctx, device, i, &kernel); i++) {
        json_text(i ? ",\n       {" : "\n       {", "op", kernel.op);
        json_text(", ", "name", kernel.name);
        printf(", \"leaf\": %s, \"approximate\": %s, \"usable\": %s", kernel.is_leaf ? "true" : "false",
               kernel.approximate ? "true" : "false", kernel.usable ? "true" : "false");
        json_text(", ", "reason", kernel.reason);
        printf("}");
    }
    printf("]}");
}

static int print_json(const tdm_ctx *ctx)
{
    uint32_t version = tdm_version();
    tdm_device device;
    tdm_device_info info;
    tdm_setting setting;
    printf("{\n  \"version\": \"%u.%u.%u\",\n  \"devices\": [\n", version >> 16, version >> 8 & 255, version & 255);
    for (int i = 0; device_at(ctx, i, &device, &info); i++) {
        printf("%s", i ? ",\n" : "");
        json_device(ctx, device, &info);
    }
    printf("],\n  \"settings\": [");
    for (int i = 0; setting_at(ctx, i, &setting); i++) {
        json_text(i ? ",\n    {" : "\n    {", "name", setting.name);
        json_text(", ", "meaning", setting.meaning);
        json_text(", ", "value", setting.value);
        printf("}");
    }
    printf("]\n}\n");
    return 0;
}

int info_command(int argc, char **argv)
{
    bool json = argc == 1 && strcmp(argv[0], "--json") == 0;
    if (argc > 0 && !json) {
        fprintf(stderr, "tandem info: %s: no such option; the only one is --json\n", argv[argc - 1]);
        return 2;
    }
    tdm_ctx *ctx;
    if (tdm_open(TDM_VERSION, NULL, &ctx) != TDM_OK) {
        fprintf(stderr, "tandem info: %s\n", tdm_last_error());
        return 1;
    }
    int status = json ? print_json(ctx) : print_text(ctx);
    tdm_close(ctx);
    return status;
}
