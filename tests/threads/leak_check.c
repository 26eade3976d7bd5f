/* Making and destroying everything again and again, failures included, keeps nothing. LeakSanitizer judges when it
 * is there; the C library's count of used bytes judges always. */
#include "load.h"

#include <malloc.h>
#include <stdio.h>

static void cycle(int threads)
{
    struct load_ops ops;
    struct load_job job;
    tdm_ctx *ctx = load_open(threads, NULL), *none;
    load_expect(!load_create(ctx, &ops), tdm_last_error());
    load_expect(!load_job_start(&ops, &job), tdm_last_error());
    load_expect(!load_job_run(&ops, &job), tdm_last_error());

    tdm_gqa_desc bad;
    tdm_op *op;
    tdm_device_info info = TDM_INIT(tdm_device_info);
    tdm_gqa_desc_init(&bad);
    load_expect(tdm_gqa_create(ctx, (tdm_device){TDM_CPU, 0}, &bad, &op) == TDM_BAD_ARG, "an empty desc was taken");
    load_expect(!tdm_device_get(ctx, (tdm_device){TDM_CUDA, 0}, &info), tdm_last_error());
    tdm_options options = TDM_INIT(tdm_options);
    options.env = (const char *const[]){"TANDEM_THREADS=2", "TANDEM_SKIP=nonsense", NULL};
    load_expect(tdm_open(TDM_VERSION, &options, &none) == TDM_BAD_ARG, "nonsense was taken");

    load_job_end(&job);
    load_destroy(&ops);
    tdm_close(ctx);
}

int main(void)
{
    enum { CYCLES = 30, SLACK = 4096 };
    for (int i = 0; i < 5; i++) /* what the C library and cpuinfo keep for good */
        cycle(1 + i % 3);
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < CYCLES; i++)
        cycle(1 + i % 3);
    size_t after = mallinfo2().uordblks;
    printf("leak_check: %zu bytes in use before %d cycles, %zu after\n", before, CYCLES, after);
    load_expect(after < before + SLACK, "memory in use grew");
    return 0;
}
