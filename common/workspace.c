#include "workspace.h"

#include "context.h"
#include "error.h"

#include <stdatomic.h>

struct tdm_workspace {
    const tdm_op *op;
    void *scratch, *owned; /* owned: the same when it came from our allocator */
    atomic_flag busy;
};

enum { ALIGNMENT = 64 };

tdm_status tdm_workspace_size(const tdm_op *op, size_t *bytes)
{
    if (!op || !bytes)
        return fail(TDM_BAD_ARG, "%s: got NULL, want a pointer", op ? "bytes" : "op");
    *bytes = op->workspace;
    return TDM_OK;
}

static tdm_status get_scratch(tdm_workspace *workspace, void *memory)
{
    const tdm_op *op = workspace->op;
    if (op->backend->scratch_open)
        return op->backend->scratch_open(op, memory, &workspace->scratch);
    if (!memory && op->workspace) {
        workspace->owned = memory = ctx_alloc(op->ctx, op->workspace);
        if (!memory)
            return fail(TDM_NO_MEMORY, "workspace: no memory for %zu bytes", op->workspace);
    }
    workspace->scratch = memory;
    return TDM_OK;
}

tdm_status tdm_workspace_create(const tdm_op *op, void *memory, size_t bytes, tdm_workspace **out)
{
    if (!op || !out)
        return fail(TDM_BAD_ARG, "%s: got NULL, want a pointer", op ? "workspace" : "op");
    *out = NULL;
    if (memory && (uintptr_t)memory % ALIGNMENT)
        return fail(TDM_BAD_ARG, "memory: got %p, want a multiple of %d", memory, ALIGNMENT);
    if (memory && bytes < op->workspace)
        return fail(TDM_BAD_ARG, "bytes: got %zu, want at least %zu", bytes, op->workspace);
    tdm_workspace *workspace = ctx_alloc(op->ctx, sizeof *workspace);
    if (!workspace)
        return fail(TDM_NO_MEMORY, "workspace: no memory for %zu bytes", sizeof *workspace);
    *workspace = (tdm_workspace){.op = op};
    atomic_flag_clear(&workspace->busy);
    tdm_status status = get_scratch(workspace, memory);
    if (status)
        ctx_free(op->ctx, workspace);
    else
        *out = workspace;
    return status;
}

void tdm_workspace_destroy(tdm_workspace *workspace)
{
    if (!workspace)
        return;
    const tdm_op *op = workspace->op;
    if (op->backend->scratch_close)
        op->backend->scratch_close(op, workspace->scratch);
    ctx_free(op->ctx, workspace->owned);
    ctx_free(op->ctx, workspace);
}

tdm_status workspace_enter(const tdm_op *op, tdm_workspace *workspace, void **scratch)
{
    *scratch = NULL;
    if (!workspace && op->workspace)
        return fail(TDM_BAD_ARG, "workspace: got NULL, want one of %zu bytes", op->workspace);
    if (!workspace)
        return TDM_OK;
    if (workspace->op != op)
        return fail(TDM_BAD_ARG, "workspace: got another op's, want one made for this op");
    if (atomic_flag_test_and_set_explicit(&workspace->busy, memory_order_acquire))
        return fail(TDM_BAD_ARG, "workspace: got one in use by another run, want one for each run in flight");
    *scratch = workspace->scratch;
    return TDM_OK;
}

void workspace_leave(tdm_workspace *workspace)
{
    if (workspace)
        atomic_flag_clear_explicit(&workspace->busy, memory_order_release);
}
