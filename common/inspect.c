/* What there is: devices, kernels, settings; and the memory of devices. */
#include "context.h"
#include "error.h"
#include "op_rows.h"
#include "sized.h"

#include <string.h>

static tdm_status check_ctx(const tdm_ctx *ctx)
{
    return ctx ? TDM_OK : fail(TDM_BAD_ARG, "ctx: got NULL, want a context");
}

tdm_status tdm_device_get(const tdm_ctx *ctx, tdm_device device, tdm_device_info *info)
{
    struct loaded *backend;
    tdm_status status = check_ctx(ctx);
    if (status)
        return status;
    tdm_device_info known = TDM_INIT(tdm_device_info);
    status = backends_find((tdm_ctx *)ctx, device, &backend); /* loading a plugin is not seen from outside */
    if (status == TDM_NO_DEVICE)
        snprintf(known.reason, sizeof known.reason, "%s", tdm_last_error());
    else if (status)
        return status;
    else {
        known.present = 1;
        backend->backend->device_info(backend->state, device.index, &known);
    }
    return sized_write("info", info, &known, sizeof known);
}

static bool impl_row(const tdm_ctx *ctx, const struct loaded *loaded, int32_t *index, tdm_kernel *row)
{
    for (const struct impl *const *impl = loaded->backend->impls; *impl; impl++)
        if ((*index)-- == 0) {
            row->op = op_rows[(*impl)->op].name;
            row->name = (*impl)->name;
            row->approximate = (*impl)->approximate;
            ctx->services.left_out(ctx->services.ctx, row->name, row->approximate, row->reason);
            return true;
        }
    return false;
}

tdm_status tdm_kernel_get(const tdm_ctx *ctx, tdm_device device, int32_t index, tdm_kernel *kernel)
{
    struct loaded *loaded;
    tdm_status status = check_ctx(ctx);
    if (status || (status = backends_find((tdm_ctx *)ctx, device, &loaded)))
        return status;
    tdm_kernel row = TDM_INIT(tdm_kernel);
    int32_t left = index;
    if (index < 0 || (!impl_row(ctx, loaded, &left, &row) && !backend_leaf(loaded->backend, loaded->state, left, &row)))
        return fail(TDM_BAD_ARG, "index: got %d, want the index of a row", index);
    row.usable = row.reason[0] == 0;
    return sized_write("kernel", kernel, &row, sizeof row);
}

tdm_status tdm_setting_get(const tdm_ctx *ctx, int32_t index, tdm_setting *setting)
{
    tdm_status status = check_ctx(ctx);
    if (status)
        return status;
    if (index < 0 || index >= VARIABLES)
        return fail(TDM_BAD_ARG, "index: got %d, want 0 to %d", index, VARIABLES - 1);
    tdm_setting row = {sizeof row, variable_rows[index].name, variable_rows[index].meaning,
                       ctx->environment.value[index]};
    return sized_write("setting", setting, &row, sizeof row);
}

static tdm_status check_memory(const tdm_ctx *ctx, tdm_memory kind)
{
    if ((unsigned)kind > TDM_PINNED_HOST)
        return fail(TDM_BAD_ARG, "kind: got %d, want a tdm_memory", (int)kind);
    return check_ctx(ctx);
}

tdm_status tdm_alloc(tdm_ctx *ctx, tdm_device device, tdm_memory kind, size_t bytes, void **pointer)
{
    struct loaded *loaded;
    if (!pointer)
        return fail(TDM_BAD_ARG, "pointer: got NULL, want a place for the pointer");
    *pointer = NULL;
    tdm_status status = check_memory(ctx, kind);
    if (status || (status = backends_find(ctx, device, &loaded)) || bytes == 0)
        return status;
    return loaded->backend->alloc(loaded->state, device.index, kind, bytes, pointer);
}

void tdm_free(tdm_ctx *ctx, tdm_device device, tdm_memory kind, void *pointer)
{
    struct loaded *loaded;
    if (pointer && !check_memory(ctx, kind) && !backends_find(ctx, device, &loaded))
        loaded->backend->free(loaded->state, device.index, kind, pointer);
}

tdm_status tdm_copy(tdm_ctx *ctx, tdm_device to, void *dst, tdm_device from, const void *src, size_t bytes,
                    void *stream)
{
    struct loaded *target, *source;
    tdm_status status = check_ctx(ctx);
    if (status || (status = backends_find(ctx, to, &target)) || (status = backends_find(ctx, from, &source)) ||
        bytes == 0)
        return status;
    if (!dst || !src)
        return fail(TDM_BAD_ARG, "%s: got NULL, want a pointer", dst ? "src" : "dst");
    /* Of the two it is the GPU's backend that can copy. */
    struct loaded *able = to.kind == TDM_CPU ? source : target;
    return able->backend->copy(able->state, to, dst, from, src, bytes, stream);
}

static tdm_status find_host_memory(tdm_ctx *ctx, tdm_device device, const void *pointer, struct loaded **loaded)
{
    tdm_status status = check_ctx(ctx);
    if (status || (status = backends_find(ctx, device, loaded)))
        return status;
    return pointer ? TDM_OK : fail(TDM_BAD_ARG, "pointer: got NULL, want memory");
}

tdm_status tdm_host_register(tdm_ctx *ctx, tdm_device device, void *pointer, size_t bytes)
{
    struct loaded *loaded;
    tdm_status status = find_host_memory(ctx, device, pointer, &loaded);
    if (status)
        return status;
    if (bytes == 0)
        return fail(TDM_BAD_ARG, "bytes: got 0, want the size of the memory");
    const struct backend *backend = loaded->backend;
    return backend->host_register ? backend->host_register(loaded->state, device.index, pointer, bytes) : TDM_OK;
}

tdm_status tdm_host_unregister(tdm_ctx *ctx, tdm_device device, void *pointer)
{
    struct loaded *loaded;
    tdm_status status = find_host_memory(ctx, device, pointer, &loaded);
    if (status)
        return status;
    const struct backend *backend = loaded->backend;
    return backend->host_unregister ? backend->host_unregister(loaded->state, device.index, pointer) : TDM_OK;
}
