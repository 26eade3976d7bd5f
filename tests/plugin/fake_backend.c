/* A backend of one device and one op, and with FAKE_FAULT one that is wrong in one way: what loading a plugin is
 * tested with. Its gqa fills the output with 1, so that a test sees who ran. */
#include "common/backend.h"

#include <stdio.h>
#include <string.h>

#define NONE 0
#define NO_SYMBOL 1
#define WRONG_ABI 2
#define REFUSES_ABI 3
#define WRONG_KIND 4
#define OPEN_FAILS 5

#ifndef FAKE_FAULT
#define FAKE_FAULT NONE
#endif

static tdm_status fake_open(const struct services *services, void **state)
{
    if (FAKE_FAULT == OPEN_FAILS)
        return services->fail(TDM_NO_DEVICE, "the driver is asleep");
    services->log(services->ctx, TDM_LOG_INFO, "%s has %d threads", "fake", services->threads);
    *state = (void *)services;
    return TDM_OK;
}

static void fake_close(void *state)
{
    (void)state;
}

static int fake_count(void *state)
{
    (void)state;
    return 1;
}

static void fake_info(void *state, int index, tdm_device_info *info)
{
    (void)state;
    snprintf(info->name, sizeof info->name, "fake device %d", index);
    snprintf(info->features, sizeof info->features, "8.9");
    info->memory = 1 << 20;
}

static tdm_status fake_alloc(void *state, int index, tdm_memory kind, size_t bytes, void **pointer)
{
    (void)index, (void)kind;
    const struct services *services = state;
    *pointer = services->alloc(services->ctx, bytes);
    return *pointer ? TDM_OK : services->fail(TDM_NO_MEMORY, "fake: no memory");
}

static void fake_free(void *state, int index, tdm_memory kind, void *pointer)
{
    (void)index, (void)kind;
    const struct services *services = state;
    services->free(services->ctx, pointer);
}

/* Marks what it copies to the device, so that a test sees that it was asked. */
static tdm_status fake_copy(void *state, tdm_device to, void *dst, tdm_device from, const void *src, size_t bytes,
                            void *stream)
{
    (void)state, (void)from, (void)stream;
    memcpy(dst, src, bytes);
    if (to.kind == TDM_CUDA)
        *(char *)dst = '!';
    return TDM_OK;
}

static bool fits(const struct tdm_op *op, char *reason)
{
    const union op_desc *desc = &op->desc;
    if (desc->gqa.q.dim[3] % 2 == 0)
        return true;
    snprintf(reason, REASON_SIZE, "head_dim: got %lld, want an even number", (long long)desc->gqa.q.dim[3]);
    return false;
}

static tdm_status fill_ones(const struct tdm_op *op, const struct run *run)
{
    const tdm_gqa_args *args = run->args;
    const tdm_tensor *out = &op->desc.gqa.out;
    float *x = args->out;
    if (args->q_len[0] == 0)
        return op->services->fail(TDM_DEVICE_ERROR, "fake: the kernel was launched with nothing to do");
    for (int64_t i = 0; i < out->dim[0] * out->dim[1] * out->dim[2] * out->dim[3]; i++)
        x[i] = 1;
    return TDM_OK;
}

static const struct impl ones = {.name = "ones", .op = OP_GQA, .fits = fits, .run = fill_ones};
static const struct impl *const impls[] = {&ones, NULL};

static bool fake_leaf(void *state, int index, tdm_kernel *row)
{
    (void)state;
    if (index != 0)
        return false;
    *row = (tdm_kernel){.struct_size = sizeof *row, .op = "", .name = "fakeleaf", .is_leaf = 1, .usable = 1};
    return true;
}

static int fake_leaf_for(const struct tdm_op *op, const tdm_lengths *lengths, char (*why)[REASON_SIZE], int rows)
{
    (void)op, (void)lengths, (void)why, (void)rows;
    return 0;
}

static const struct backend fake = {
    .abi = FAKE_FAULT == WRONG_ABI ? BACKEND_ABI + 1 : BACKEND_ABI,
    .kind = FAKE_FAULT == WRONG_KIND ? TDM_CPU : TDM_CUDA,
    .name = "fake",
    .open = fake_open,
    .close = fake_close,
    .device_count = fake_count,
    .device_info = fake_info,
    .alloc = fake_alloc,
    .free = fake_free,
    .copy = fake_copy,
    .impls = impls,
    .leaf = fake_leaf,
    .leaf_for = fake_leaf_for,
};

#if FAKE_FAULT == NO_SYMBOL
#define ENTRY another_name
#else
#define ENTRY tandem_backend
#endif

__attribute__((visibility("default"))) const struct backend *ENTRY(uint32_t abi);

const struct backend *ENTRY(uint32_t abi)
{
    return FAKE_FAULT == REFUSES_ABI || abi != BACKEND_ABI ? NULL : &fake;
}
