/* The whole library on this machine, real or emulated: open, list, append, attend, multiply, close. The results
 * are checked against values worked out by hand.
 *
 * usage: load_check [LEAF...]   the leaf rows that must be usable, and no others */
#include "tandem.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tdm_device cpu = {TDM_CPU, 0};

static void must(tdm_status status, const char *what)
{
    if (!status)
        return;
    printf("%s: %s: %s\n", what, tdm_status_name(status), tdm_last_error());
    exit(1);
}

static void must_be(float got, float want, const char *what)
{
    printf("%s: %.9g, want %.9g\n", what, got, want);
    if (!(fabsf(got - want) <= 1e-6f * fabsf(want)))
        exit(1);
}

static bool is_named(const char *name, char **names)
{
    while (*names && strcmp(*names, name))
        names++;
    return *names;
}

/* Print every row; exit when the usable leaves are not those named. */
static void list_kernels(const tdm_ctx *ctx, char **leaves)
{
    tdm_kernel row = TDM_INIT(tdm_kernel);
    int usable = 0, wanted = 0;
    while (leaves[wanted])
        wanted++;
    for (int i = 0; !tdm_kernel_get(ctx, cpu, i, &row); i++) {
        printf("  %-12s %-16s %s\n", row.is_leaf ? "leaf" : row.op, row.name, row.usable ? "usable" : row.reason);
        if (!row.is_leaf)
            continue;
        usable += row.usable;
        if (wanted && row.usable != is_named(row.name, leaves)) {
            printf("leaf %s: usable is %d\n", row.name, row.usable);
            exit(1);
        }
    }
    if (!usable || (wanted && usable != wanted)) {
        printf("%d usable leaves, want %d\n", usable, wanted);
        exit(1);
    }
}

static tdm_tensor f32(int64_t heads, int64_t rows, int64_t channels)
{
    return (tdm_tensor){.dtype = TDM_F32, .rank = 4, .dim = {1, heads, rows, channels}};
}

/* The scores of the two keys are ln 3 and 0, so that the weights are 3/4 and 1/4. */
static void attend(tdm_ctx *ctx)
{
    enum { CAPACITY = 4, CHANNELS = 2, HEADS = 2 };
    float k_cache[CAPACITY * CHANNELS] = {0}, v_cache[CAPACITY * CHANNELS] = {0};
    float k[] = {1, 0, 0, 0}, v[] = {1, 2, 3, 6}, q[] = {logf(3), 7, 0, 5}, out[HEADS * CHANNELS], lse[HEADS];
    int32_t two = 2, zero = 0, one = 1;
    tdm_kv_cache cache = {.k = f32(1, CAPACITY, CHANNELS), .v = f32(1, CAPACITY, CHANNELS)};
    tdm_kv_data data = {.k = k_cache, .v = v_cache};
    tdm_op *op;
    tdm_workspace *workspace;

    tdm_kv_append_desc append = TDM_INIT(tdm_kv_append_desc);
    append.k = append.v = f32(1, 2, CHANNELS);
    append.cache = cache;
    tdm_kv_append_args new = TDM_INIT(tdm_kv_append_args);
    new.k = k, new.v = v, new.cache = data, new.new_len = &two, new.pos = &zero;
    must(tdm_kv_append_create(ctx, cpu, &append, &op), "append create");
    must(tdm_workspace_create(op, NULL, 0, &workspace), "append workspace");
    must(tdm_kv_append_run(op, workspace, NULL, &new), "append run");
    tdm_workspace_destroy(workspace);
    tdm_op_destroy(op);

    tdm_gqa_desc gqa;
    tdm_gqa_desc_init(&gqa);
    gqa.q = gqa.out = f32(HEADS, 1, CHANNELS);
    gqa.cache = cache;
    gqa.scale = 1;
    tdm_gqa_args args = TDM_INIT(tdm_gqa_args);
    args.q = q, args.cache = data, args.q_len = &one, args.kv_len = &two, args.out = out, args.lse = lse;
    must(tdm_gqa_create(ctx, cpu, &gqa, &op), "gqa create");
    must(tdm_workspace_create(op, NULL, 0, &workspace), "gqa workspace");
    must(tdm_gqa_run(op, workspace, NULL, &args), "gqa run");
    tdm_workspace_destroy(workspace);
    tdm_op_destroy(op);

    must_be(out[0], 1.5f, "head 0: 3/4 * 1 + 1/4 * 3");
    must_be(out[1], 3, "head 0: 3/4 * 2 + 1/4 * 6");
    must_be(lse[0], logf(4), "head 0: ln(3 + 1)");
    must_be(out[2], 2, "head 1: 1/2 * 1 + 1/2 * 3");
    must_be(out[3], 4, "head 1: 1/2 * 2 + 1/2 * 6");
    must_be(lse[1], logf(2), "head 1: ln(1 + 1)");
}

/* Blocks of two channels on three: the last block is short. */
static void multiply(tdm_ctx *ctx)
{
    float a[] = {1, 2, 3}, scale[] = {1, 10, 0.5f, 2}, bias[] = {0.25f, -1}, out[2];
    uint8_t b[] = {0x38, 0x38, 0x38 /* 1 1 1 */, 0x40, 0xb8, 0x30 /* 2 -1 0.5 */};
    tdm_op *op;
    tdm_workspace *workspace;

    tdm_fp8_matmul_desc desc = TDM_INIT(tdm_fp8_matmul_desc);
    desc.a = (tdm_tensor){.dtype = TDM_F32, .rank = 2, .dim = {1, 3}};
    desc.b = (tdm_tensor){.dtype = TDM_F8E4M3,
                          .scale_dtype = TDM_F32,
                          .rank = 2,
                          .scaling = TDM_PER_BLOCK,
                          .dim = {2, 3},
                          .block = {1, 2}};
    desc.out = (tdm_tensor){.dtype = TDM_F32, .rank = 2, .dim = {1, 2}};
    desc.has_bias = 1;
    tdm_fp8_matmul_args args = TDM_INIT(tdm_fp8_matmul_args);
    args.a = a, args.b = b, args.b_scale = scale, args.bias = bias, args.m = 1, args.out = out;
    must(tdm_fp8_matmul_create(ctx, cpu, &desc, &op), "fp8_matmul create");
    must(tdm_workspace_create(op, NULL, 0, &workspace), "fp8_matmul workspace");
    must(tdm_fp8_matmul_run(op, workspace, NULL, &args), "fp8_matmul run");
    tdm_workspace_destroy(workspace);
    tdm_op_destroy(op);

    must_be(out[0], 33.25f, "(1 + 2) * 1 + 3 * 10 + 0.25");
    must_be(out[1], 2, "(2 - 2) * 0.5 + 1.5 * 2 - 1");
}

int main(int argc, char **argv)
{
    (void)argc;
    tdm_ctx *ctx;
    tdm_device_info info = TDM_INIT(tdm_device_info);
    must(tdm_open(TDM_VERSION, NULL, &ctx), "open");
    must(tdm_device_get(ctx, cpu, &info), "device");
    printf("%s: %d threads, %s\n", info.name, info.threads, info.features);
    list_kernels(ctx, argv + 1);
    attend(ctx);
    multiply(ctx);
    tdm_close(ctx);
    return 0;
}
