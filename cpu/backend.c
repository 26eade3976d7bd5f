/* The CPU backend: its rows and its one device. */
#include "cpu.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern const struct impl cpu_kv_append, cpu_kv_shift, cpu_gqa_int8_decode, cpu_gqa_flash, cpu_gqa_naive,
    cpu_merge_states, cpu_qk, cpu_sv, cpu_fp8_gemv, cpu_fp8_many, cpu_fp8_gemm, cpu_quantize, cpu_dequantize;

static const struct impl *const impls[] = {
    &cpu_kv_append, &cpu_kv_shift, &cpu_gqa_int8_decode, &cpu_gqa_flash, &cpu_gqa_naive, &cpu_merge_states, &cpu_qk,
    &cpu_sv,        &cpu_fp8_gemv, &cpu_fp8_many,        &cpu_fp8_gemm,  &cpu_quantize,  &cpu_dequantize,   NULL,
};

static void open_leaf(struct cpu_state *state, struct cpu_leaf *leaf, const struct leaf_table *table)
{
    leaf->table = cpu_leaf_resolve(table);
    uint64_t missing = table->needs & ~state->machine.features;
    char names[128];
    if (missing)
        snprintf(leaf->reason, sizeof leaf->reason, "this machine has no %s",
                 cpu_feature_names(missing, names, sizeof names));
    else
        state->services->left_out(state->services->ctx, table->name, table->approximate, leaf->reason);
}

/* Leaf rows better than the environment allows. */
static void demote(struct cpu_state *state)
{
    const char *names[CPU_MAX_LEAVES + 1] = {NULL};
    char reason[REASON_SIZE];
    for (int i = 0; i < state->leaf_count; i++)
        names[i] = state->leaves[i].table.name;
    int count = state->services->demoted(state->services->ctx, names, reason);
    for (int i = 0; i < count; i++)
        if (!state->leaves[i].reason[0])
            memcpy(state->leaves[i].reason, reason, sizeof reason);
}

/* Tiles have to be asked for. Nothing asks on behalf of a row that will not be used. */
static void ask_for_tiles(struct cpu_leaf *leaf)
{
    if (!leaf->reason[0] && leaf->table.needs & CPU_AMX_TILE && !cpu_ask_for_tiles())
        snprintf(leaf->reason, sizeof leaf->reason, "the system does not let this process use the tile registers");
}

static tdm_status cpu_open(const struct services *services, void **out)
{
    struct cpu_state *state = services->alloc(services->ctx, sizeof *state);
    if (!state)
        return services->fail(TDM_NO_MEMORY, "cpu: no memory for %zu bytes", sizeof *state);
    memset(state, 0, sizeof *state);
    state->services = services;
    cpu_detect(&state->machine);
    for (; cpu_leaves[state->leaf_count] && state->leaf_count < CPU_MAX_LEAVES; state->leaf_count++)
        open_leaf(state, &state->leaves[state->leaf_count], cpu_leaves[state->leaf_count]);
    demote(state);
    for (int i = 0; i < state->leaf_count; i++) {
        ask_for_tiles(&state->leaves[i]);
        state->leaves[i].usable = state->leaves[i].reason[0] == 0;
    }
    services->log(services->ctx, TDM_LOG_INFO, "cpu: %s, %d threads", state->machine.name, services->threads);
    for (int i = 0; i < state->leaf_count; i++)
        services->log(services->ctx, TDM_LOG_INFO, "cpu: leaf %s: %s", state->leaves[i].table.name,
                      state->leaves[i].usable ? "usable" : state->leaves[i].reason);
    *out = state;
    return TDM_OK;
}

static void cpu_close(void *opaque)
{
    struct cpu_state *state = opaque;
    state->services->free(state->services->ctx, state);
}

static int cpu_device_count(void *state)
{
    (void)state;
    return 1;
}

static void cpu_device_info(void *opaque, int index, tdm_device_info *info)
{
    (void)index;
    const struct cpu_state *state = opaque;
    info->threads = state->services->threads;
    info->memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    snprintf(info->name, sizeof info->name, "%s", state->machine.name);
    cpu_feature_names(state->machine.features, info->features, sizeof info->features);
    for (int i = 0; i < 3; i++)
        info->cache[i] = state->machine.cache[i];
}

static tdm_status cpu_alloc(void *opaque, int index, tdm_memory kind, size_t bytes, void **pointer)
{
    (void)index, (void)kind;
    const struct services *services = ((struct cpu_state *)opaque)->services;
    *pointer = services->alloc(services->ctx, bytes);
    return *pointer ? TDM_OK : services->fail(TDM_NO_MEMORY, "bytes: no memory for %zu", bytes);
}

static void cpu_free(void *opaque, int index, tdm_memory kind, void *pointer)
{
    (void)index, (void)kind;
    const struct services *services = ((struct cpu_state *)opaque)->services;
    services->free(services->ctx, pointer);
}

static tdm_status cpu_copy(void *state, tdm_device to, void *dst, tdm_device from, const void *src, size_t bytes,
                           void *stream)
{
    (void)state, (void)to, (void)from, (void)stream;
    memmove(dst, src, bytes);
    return TDM_OK;
}

static bool cpu_leaf_row(void *opaque, int index, tdm_kernel *row)
{
    const struct cpu_state *state = opaque;
    if (index < 0 || index >= state->leaf_count)
        return false;
    const struct cpu_leaf *leaf = &state->leaves[index];
    *row = (tdm_kernel){sizeof *row, "", leaf->table.name, 1, leaf->table.approximate, leaf->usable, ""};
    memcpy(row->reason, leaf->reason, sizeof row->reason);
    return true;
}

static int choose_leaf(const struct tdm_op *op, const tdm_lengths *lengths, char (*why)[REASON_SIZE], int rows)
{
    (void)lengths; /* every usable table takes every length: the first is the best */
    const struct cpu_state *state = op->state;
    int chosen = -1;
    for (int i = 0; i < state->leaf_count; i++) {
        const struct cpu_leaf *leaf = &state->leaves[i];
        if (leaf->usable && chosen < 0)
            chosen = i;
        else if (why && i < rows && leaf->usable)
            snprintf(why[i], REASON_SIZE, "%s comes first", state->leaves[chosen].table.name);
        else if (why && i < rows)
            snprintf(why[i], REASON_SIZE, "%s", leaf->reason);
    }
    return chosen;
}

const struct backend cpu_backend = {
    .abi = BACKEND_ABI,
    .kind = TDM_CPU,
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .device_count = cpu_device_count,
    .device_info = cpu_device_info,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .copy = cpu_copy,
    .impls = impls,
    .leaf = cpu_leaf_row,
    .leaf_for = choose_leaf,
};

const struct leaf_table *cpu_leaf_for(const struct tdm_op *op, const tdm_lengths *lengths)
{
    const struct cpu_state *state = op->state;
    return &state->leaves[choose_leaf(op, lengths, NULL, 0)].table;
}

struct leaf_task {
    const struct leaf_table *leaf;
    tdm_task task;
    void *arg;
};

static void run_leaf_task(void *opaque, int64_t i, int worker)
{
    const struct leaf_task *t = opaque;
    t->leaf->enter();
    t->task(t->arg, i, worker);
    t->leaf->leave();
}

void cpu_parallel_for(const struct tdm_op *op, const struct leaf_table *leaf, int64_t n, tdm_task task, void *arg)
{
    const struct services *services = op->services;
    struct leaf_task wrapped = {leaf, task, arg};
    if (leaf->enter)
        services->parallel_for(services->ctx, n, run_leaf_task, &wrapped);
    else
        services->parallel_for(services->ctx, n, task, arg);
}

enum { LEAST_GROUP = 32 }; /* channels that are worth a call of a leaf for many rows */

leaf_qk *cpu_qk_of(const struct leaf_table *leaf, enum leaf_type type, int rows, int64_t group)
{
    if (rows <= leaf->direct_rows[type])
        return leaf->qk[type];
    return group && group < LEAST_GROUP ? NULL : leaf->qk_many[type];
}

leaf_sv *cpu_sv_of(const struct leaf_table *leaf, enum leaf_type type, int rows, int64_t group)
{
    if (rows <= leaf->direct_rows[type])
        return leaf->sv[type];
    return group && group < LEAST_GROUP ? NULL : leaf->sv_many[type];
}

void *cpu_row(const tdm_tensor *tensor, const void *data, int64_t batch, int64_t head, int64_t row)
{
    return at(data, (tensor->dim[0] > 1 ? batch : 0) * tensor->stride[0] +
                        (tensor->dim[1] > 1 ? head : 0) * tensor->stride[1] +
                        (tensor->dim[2] > 1 ? row : 0) * tensor->stride[2]);
}

enum leaf_type cpu_leaf_type(tdm_dtype dtype)
{
    static const enum leaf_type types[] = {
        [TDM_F32] = LEAF_F32, [TDM_F16] = LEAF_F16, [TDM_BF16] = LEAF_BF16,
        [TDM_I8] = LEAF_I8,   [TDM_I4] = LEAF_I4,   [TDM_F8E4M3] = LEAF_F8E4M3,
    };
    return types[dtype];
}

void cpu_narrow(const struct leaf_table *leaf, const float *x, tdm_dtype dtype, void *out, int64_t n)
{
    if (dtype == TDM_F32)
        memcpy(out, x, (size_t)n * sizeof *x);
    else if (dtype == TDM_F16)
        leaf->to_f16(x, out, n);
    else
        leaf->to_bf16(x, out, n);
}

size_t layout_add(struct layout *layout, int64_t count, size_t element)
{
    enum { LINE = 64 };
    size_t offset = layout->size, bytes;
    if (offset == SIZE_MAX || __builtin_mul_overflow((size_t)count, element, &bytes) ||
        bytes > (size_t)INT64_MAX - offset - LINE) {
        layout->size = SIZE_MAX;
        return 0;
    }
    layout->size = offset + (bytes + LINE - 1) / LINE * LINE;
    return offset;
}
