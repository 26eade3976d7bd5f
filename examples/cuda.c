/* Multiply a row by an FP8 matrix on a GPU. Where there is none, the program says why and fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tandem.h>

#define TRY(call) ((call) == TDM_OK ? (void)0 : (fprintf(stderr, "%s\n", tdm_last_error()), _Exit(1)))
enum { N = 512, K = 256, BLOCK = 128, ONE = 0x38 }; /* 1.0 as E4M3 */
static float a[K], b_scale[N][K / BLOCK], out[N];
static unsigned char b[N][K];

int main(void)
{
    const tdm_device cpu = {TDM_CPU, 0}, gpu = {TDM_CUDA, 0};
    tdm_fp8_matmul_desc desc = TDM_INIT(tdm_fp8_matmul_desc);
    desc.a = (tdm_tensor){.dtype = TDM_F32, .rank = 2, .dim = {1, K}};
    desc.b = (tdm_tensor){.dtype = TDM_F8E4M3, .scaling = TDM_PER_BLOCK, .rank = 2, .dim = {N, K}, .block = {1, BLOCK}};
    desc.out = (tdm_tensor){.dtype = TDM_F32, .rank = 2, .dim = {1, N}};

    tdm_ctx *ctx;
    tdm_op *op;
    tdm_workspace *scratch;
    void *stream;
    TRY(tdm_open(TDM_VERSION, NULL, &ctx));
    TRY(tdm_fp8_matmul_create(ctx, gpu, &desc, &op));
    TRY(tdm_workspace_create(op, NULL, 0, &scratch));
    TRY(tdm_stream_create(ctx, gpu, &stream));

    memset(b, ONE, sizeof b);
    for (int i = 0; i < K; i++)
        a[i] = 1;
    for (int n = 0; n < N; n++)
        b_scale[n][0] = b_scale[n][1] = (float)n / K; /* row n of the matrix sums to n */

    void *there[4]; /* on the GPU: a, b, its scales and the output */
    void *const here[4] = {a, b, b_scale, out};
    const size_t bytes[4] = {sizeof a, sizeof b, sizeof b_scale, sizeof out};
    for (int i = 0; i < 4; i++)
        TRY(tdm_alloc(ctx, gpu, TDM_DEVICE_MEMORY, bytes[i], &there[i]));
    for (int i = 0; i < 3; i++)
        TRY(tdm_copy(ctx, gpu, there[i], cpu, here[i], bytes[i], stream));
    tdm_fp8_matmul_args args = TDM_INIT(tdm_fp8_matmul_args);
    args.a = there[0], args.b = there[1], args.b_scale = there[2], args.out = there[3], args.m = 1;
    TRY(tdm_fp8_matmul_run(op, scratch, stream, &args)); /* enqueued, as copies are */
    TRY(tdm_copy(ctx, cpu, out, gpu, there[3], sizeof out, stream));
    TRY(tdm_stream_sync(ctx, gpu, stream));
    printf("Row 1 sums to %.1f, row %d to %.1f.\n", out[1], N - 1, out[N - 1]);

    for (int i = 0; i < 4; i++)
        tdm_free(ctx, gpu, TDM_DEVICE_MEMORY, there[i]);
    tdm_stream_destroy(ctx, gpu, stream);
    tdm_workspace_destroy(scratch);
    tdm_op_destroy(op);
    tdm_close(ctx);
    return 0;
}
