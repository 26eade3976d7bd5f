/* Every op's way through the library: create, workspace, run, explain. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "context.h"
#include "error.h"
#include "op_rows.h"
#include "sized.h"
#include "workspace.h"

#include <fenv.h>
#include <string.h>
#include <time.h>

static bool row_fits(const struct tdm_op *op, const struct impl *impl, char *reason)
{
    reason[0] = 0;
    if (op->services->left_out(op->services->ctx, impl->name, impl->approximate, reason))
        return false;
    return !impl->fits || impl->fits(op, reason);
}

static bool row_takes(const struct tdm_op *op, const struct impl *impl, const tdm_lengths *lengths, char *reason)
{
    reason[0] = 0;
    return !impl->takes || impl->takes(op, lengths, reason);
}

/* Collect the rows that fit and the scratch of the hungriest. UNSUPPORTED with every row's reason. */
static tdm_status choose_rows(struct tdm_op *op)
{
    char why[768] = "", reason[REASON_SIZE];
    size_t used = 0;
    for (const struct impl *const *impl = op->backend->impls; *impl; impl++) {
        if ((*impl)->op != op->kind)
            continue;
        if (row_fits(op, *impl, reason) && op->impl_count < MAX_IMPLS)
            op->impls[op->impl_count++] = *impl;
        else if (used < sizeof why)
            used +=
                (size_t)snprintf(why + used, sizeof why - used, "%s%s: %s", used ? "; " : "", (*impl)->name, reason);
    }
    const char *name = op_rows[op->kind].name;
    if (!op->impl_count && !used)
        return fail(TDM_UNSUPPORTED, "%s: the %s backend has no kernel of it", name, op->backend->name);
    if (!op->impl_count)
        return fail(TDM_UNSUPPORTED, "%s: no row of the %s backend takes it (%s)", name, op->backend->name, why);
    if (op->backend->leaf && op->backend->leaf_for(op, &(tdm_lengths){sizeof(tdm_lengths), 0, 0, 0}, NULL, 0) < 0)
        return fail(TDM_UNSUPPORTED, "%s: every leaf of the %s backend is left out", name, op->backend->name);
    for (int i = 0; i < op->impl_count; i++) {
        size_t bytes = op->impls[i]->workspace ? op->impls[i]->workspace(op) : 0;
        if (bytes == SIZE_MAX)
            return fail(TDM_NO_MEMORY, "%s: the workspace would not fit the address space", name);
        op->workspace = bytes > op->workspace ? bytes : op->workspace;
        if (!op->impls[i]->takes)
            break; /* it takes every run: the rows behind it never get one */
    }
    return TDM_OK;
}

/* Check and complete a desc, whatever floating-point state the caller is in. */
static tdm_status settle(enum op_kind kind, union op_desc *desc)
{
    fenv_t caller;
    fegetenv(&caller);
    fesetenv(FE_DFL_ENV);
    tdm_status status = op_rows[kind].settle(desc);
    fesetenv(&caller);
    return status;
}

static tdm_status op_create(tdm_ctx *ctx, tdm_device device, enum op_kind kind, const void *desc, tdm_op **out)
{
    if (!out)
        return fail(TDM_BAD_ARG, "op: got NULL, want a place for the op");
    *out = NULL;
    if (!ctx)
        return fail(TDM_BAD_ARG, "ctx: got NULL, want a context");
    const struct op_row *row = &op_rows[kind];
    union op_desc settled;
    struct loaded *backend;
    tdm_status status = ctx_check_owner(ctx);
    if (status || (status = sized_read("desc", &settled, row->desc_size, row->desc_size, desc)) ||
        (status = settle(kind, &settled)) || (status = backends_find(ctx, device, &backend)))
        return status;
    tdm_op *op = ctx_alloc(ctx, sizeof *op);
    if (!op)
        return fail(TDM_NO_MEMORY, "op: no memory for %zu bytes", sizeof *op);
    memset(op, 0, sizeof *op);
    *op = (tdm_op){.ctx = ctx,
                   .backend = backend->backend,
                   .state = backend->state,
                   .services = &ctx->services,
                   .device = device,
                   .kind = kind,
                   .desc = settled};
    status = choose_rows(op);
    if (status)
        ctx_free(ctx, op);
    else
        *out = op;
    return status;
}

void tdm_op_destroy(tdm_op *op)
{
    if (op)
        ctx_free(op->ctx, op);
}

static const struct impl *choose_impl(const tdm_op *op, const tdm_lengths *lengths)
{
    char reason[REASON_SIZE];
    for (int i = 0; i < op->impl_count; i++)
        if (row_takes(op, op->impls[i], lengths, reason))
            return op->impls[i];
    return NULL;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static const char *leaf_name(const tdm_op *op, const tdm_lengths *lengths)
{
    tdm_kernel row;
    int leaf = op->backend->leaf ? op->backend->leaf_for(op, lengths, NULL, 0) : -1;
    return leaf >= 0 && op->backend->leaf(op->state, leaf, &row) ? row.name : "";
}

/* The caller's own thread computes too: in the default floating-point state, as the pool's workers do. */
static tdm_status run_impl(const tdm_op *op, const struct impl *impl, const struct run *run)
{
    fenv_t caller;
    fegetenv(&caller);
    fesetenv(FE_DFL_ENV);
    tdm_status status = impl->run(op, run);
    fesetenv(&caller);
    return status;
}

static tdm_status run_traced(const tdm_op *op, const struct impl *impl, const struct run *run)
{
    uint64_t start = now_ns();
    tdm_status status = run_impl(op, impl, run);
    uint64_t end = now_ns();
    if (status)
        return status;
    struct traffic traffic = {0, 0};
    op_rows[op->kind].traffic(&op->desc, run->args, &traffic);
    log_event(&op->ctx->log, &(tdm_event){.op = op_rows[op->kind].name,
                                          .impl = impl->name,
                                          .leaf = leaf_name(op, &run->lengths),
                                          .ns = end - start,
                                          .bytes = traffic.bytes,
                                          .flops = traffic.flops});
    return TDM_OK;
}

static tdm_status op_run(const tdm_op *op, enum op_kind kind, tdm_workspace *workspace, void *stream, const void *args)
{
    if (!op)
        return fail(TDM_BAD_ARG, "op: got NULL, want an op");
    const struct op_row *row = &op_rows[kind];
    if (op->kind != kind)
        return fail(TDM_BAD_ARG, "op: got a %s op, want a %s op", op_rows[op->kind].name, row->name);
    union op_args known;
    tdm_status status = ctx_check_owner(op->ctx);
    if (status || (status = sized_read("args", &known, row->args_size, row->args_size, args)) ||
        (status = row->check(&op->desc, &known)))
        return status;

    struct run run = {.args = &known, .lengths = TDM_INIT(tdm_lengths), .stream = stream};
    row->lengths(&op->desc, &known, &run.lengths);
    const struct impl *impl = choose_impl(op, &run.lengths);
    if (!impl)
        return fail(TDM_UNSUPPORTED, "%s: no impl takes these lengths; tdm_explain says why", row->name);
    if ((status = workspace_enter(op, workspace, &run.scratch)))
        return status;
    status = log_traces(&op->ctx->log) ? run_traced(op, impl, &run) : run_impl(op, impl, &run);
    workspace_leave(workspace);
    return status;
}

/* ---- explain ------------------------------------------------------------------ */

struct listing {
    tdm_kernel *rows;
    int32_t capacity, count;
};

static void list_row(struct listing *list, tdm_kernel *row)
{
    row->usable = row->reason[0] == 0;
    if (list->count < list->capacity)
        sized_write("choices", &list->rows[list->count], row, sizeof *row);
    list->count++;
}

static void explain_impls(const tdm_op *op, const tdm_lengths *lengths, struct listing *list)
{
    const struct impl *chosen = choose_impl(op, lengths);
    for (const struct impl *const *impl = op->backend->impls; *impl; impl++) {
        if ((*impl)->op != op->kind)
            continue;
        tdm_kernel row = {.op = op_rows[op->kind].name, .name = (*impl)->name, .approximate = (*impl)->approximate};
        if (row_fits(op, *impl, row.reason) && row_takes(op, *impl, lengths, row.reason) && *impl != chosen)
            snprintf(row.reason, sizeof row.reason, "%s comes first", chosen ? chosen->name : "another row");
        list_row(list, &row);
    }
}

static void explain_leaves(const tdm_op *op, const tdm_lengths *lengths, struct listing *list)
{
    enum { MAX_LEAVES = 32 };
    char why[MAX_LEAVES][REASON_SIZE] = {{0}};
    if (!op->backend->leaf)
        return;
    op->backend->leaf_for(op, lengths, why, MAX_LEAVES);
    tdm_kernel row = {0};
    for (int i = 0; i < MAX_LEAVES && op->backend->leaf(op->state, i, &row); i++) {
        memcpy(row.reason, why[i], sizeof row.reason);
        list_row(list, &row);
    }
}

tdm_status tdm_explain(const tdm_op *op, const tdm_lengths *lengths, tdm_kernel *choices, int32_t capacity,
                       int32_t *count)
{
    if (!op || !count)
        return fail(TDM_BAD_ARG, "%s: got NULL, want a pointer", op ? "count" : "op");
    if (capacity < 0 || (capacity && !choices))
        return fail(TDM_BAD_ARG, "capacity: got %d, want the number of rows in choices", capacity);
    tdm_lengths known;
    tdm_status status = sized_read("lengths", &known, sizeof known, sizeof known, lengths);
    for (int32_t i = 0; i < capacity && !status; i++)
        if (choices[i].struct_size != sizeof *choices)
            status = fail(TDM_BAD_ARG, "choices[%d].struct_size: got %zu, want %zu", i, choices[i].struct_size,
                          sizeof *choices);
    if (status)
        return status;
    struct listing list = {choices, capacity, 0};
    explain_impls(op, &known, &list);
    explain_leaves(op, &known, &list);
    *count = list.count;
    return TDM_OK;
}

/* ---- the public create and run of each op ---------------------------------------- */

#define OP(name, kind, record)                                                                                    \
    tdm_status tdm_##name##_create(tdm_ctx *ctx, tdm_device device, const tdm_##record##_desc *desc, tdm_op **op) \
    {                                                                                                             \
        return op_create(ctx, device, kind, desc, op);                                                            \
    }                                                                                                             \
    tdm_status tdm_##name##_run(const tdm_op *op, tdm_workspace *workspace, void *stream,                         \
                                const tdm_##record##_args *args)                                                  \
    {                                                                                                             \
        return op_run(op, kind, workspace, stream, args);                                                         \
    }

OP(kv_append, OP_KV_APPEND, kv_append)
OP(kv_shift, OP_KV_SHIFT, kv_shift)
OP(gqa, OP_GQA, gqa)
OP(merge_states, OP_MERGE_STATES, merge_states)
OP(qk, OP_QK, product)
OP(sv, OP_SV, product)
OP(fp8_matmul, OP_FP8_MATMUL, fp8_matmul)
OP(quantize, OP_QUANTIZE, convert)
OP(dequantize, OP_DEQUANTIZE, convert)
