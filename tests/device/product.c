#include "product.h"

#include <criterion/criterion.h>
#include <string.h>

enum { ONE = 0x38 /* 1.0 as e4m3 */ };

void product_new(struct product *p, tdm_ctx *ctx, void *stream, int rows)
{
    const tdm_device gpu = test_device(), cpu = {TDM_CPU, 0};
    p->rows = rows;
    unsigned char codes[COLUMNS * CHANNELS];
    float scales[COLUMNS];
    tdm_fp8_matmul_desc desc = TDM_INIT(tdm_fp8_matmul_desc);
    desc.a = (tdm_tensor){.dtype = TDM_F32, .rank = 2, .dim = {rows, CHANNELS}};
    desc.b = (tdm_tensor){
        .dtype = TDM_F8E4M3, .scaling = TDM_PER_BLOCK, .rank = 2, .dim = {COLUMNS, CHANNELS}, .block = {1, CHANNELS}};
    desc.out = (tdm_tensor){.dtype = TDM_F32, .rank = 2, .dim = {rows, COLUMNS}};
    MUST(tdm_fp8_matmul_create(ctx, gpu, &desc, &p->op));
    MUST(tdm_workspace_create(p->op, NULL, 0, &p->workspace));
    memset(codes, ONE, sizeof codes);
    for (int n = 0; n < COLUMNS; n++)
        scales[n] = (float)(n + 1);
    p->a = device_floats(ctx, TDM_DEVICE_MEMORY, (size_t)rows * CHANNELS);
    p->scale = device_floats(ctx, TDM_DEVICE_MEMORY, COLUMNS);
    p->out = device_floats(ctx, TDM_DEVICE_MEMORY, (size_t)rows * COLUMNS);
    p->in = device_floats(ctx, TDM_PINNED_HOST, (size_t)rows * CHANNELS);
    p->result = device_floats(ctx, TDM_PINNED_HOST, (size_t)rows * COLUMNS);
    MUST(tdm_alloc(ctx, gpu, TDM_DEVICE_MEMORY, sizeof codes, &p->b));
    MUST(tdm_copy(ctx, gpu, p->b, cpu, codes, sizeof codes, stream));
    to_device(ctx, p->scale, scales, COLUMNS, stream);
    MUST(tdm_stream_sync(ctx, gpu, stream));
    p->args = TDM_INIT(tdm_fp8_matmul_args);
    p->args.a = p->a;
    p->args.b = p->b;
    p->args.b_scale = p->scale;
    p->args.out = p->out;
    p->args.m = rows;
}

void product_free(struct product *p, tdm_ctx *ctx)
{
    const tdm_device gpu = test_device();
    void *const there[] = {p->a, p->scale, p->out, p->b};
    for (int i = 0; i < 4; i++)
        tdm_free(ctx, gpu, TDM_DEVICE_MEMORY, there[i]);
    tdm_free(ctx, gpu, TDM_PINNED_HOST, p->in);
    tdm_free(ctx, gpu, TDM_PINNED_HOST, p->result);
    tdm_workspace_destroy(p->workspace);
    tdm_op_destroy(p->op);
}

void product_enqueue(struct product *p, tdm_ctx *ctx, void *stream)
{
    to_device(ctx, p->a, p->in, (size_t)p->rows * CHANNELS, stream);
    MUST(tdm_fp8_matmul_run(p->op, p->workspace, stream, &p->args));
    to_host(ctx, p->result, p->out, (size_t)p->rows * COLUMNS, stream);
}

void product_set(struct product *p, float x)
{
    for (int i = 0; i < p->rows * CHANNELS; i++)
        p->in[i] = x + (float)(i / CHANNELS);
    for (int i = 0; i < p->rows * COLUMNS; i++)
        p->result[i] = -1;
}

void product_expect(const struct product *p, float x, const char *when)
{
    for (int i = 0; i < p->rows * COLUMNS; i++) {
        const float want = (x + (float)(i / COLUMNS)) * CHANNELS * (float)(i % COLUMNS + 1);
        cr_expect_eq(p->result[i], want, "%s: [%d]: got %g, want %g", when, i, p->result[i], want);
    }
}
