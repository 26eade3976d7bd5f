#include "bench.h"

#include "measure.h"

#include <stdio.h>
#include <string.h>

static const struct bench_op *const ops[] = {&bench_gqa,      &bench_kv_append,    &bench_fp8_matmul,
                                             &bench_quantize, &bench_dequantize,   &bench_qk,
                                             &bench_sv,       &bench_merge_states, &bench_kv_shift};
#define OPS (sizeof ops / sizeof ops[0])

static void shapes_from_options(struct job *job)
{
    const int64_t *v = job->value;
    job->gqa = (struct gqa_shape){.batch = v[OPTION_BATCH],
                                  .q_heads = v[OPTION_Q_HEADS],
                                  .kv_heads = v[OPTION_KV_HEADS],
                                  .head_dim = v[OPTION_HEAD_DIM],
                                  .v_head_dim = v[OPTION_HEAD_DIM],
                                  .q_len = v[OPTION_Q_LEN],
                                  .kv_len = v[OPTION_KV_LEN],
                                  .window_left = -1};
    job->fp8 = (struct fp8_shape){.m = v[OPTION_M],
                                  .n = v[OPTION_N],
                                  .k = v[OPTION_K],
                                  .block_n = block_rows(v[OPTION_BLOCK]),
                                  .block_k = block_channels(v[OPTION_BLOCK])};
}

/* Choice number i of all combinations of the options' values. False past the last. */
static bool choose(const struct options *options, int64_t i, int64_t *value)
{
    for (int id = OPTION_COUNT - 1; id >= 0; id--) {
        value[id] = options->list[id].value[i % options->list[id].count];
        i /= options->list[id].count;
    }
    return i == 0;
}

/* Every case is measured, also after one that failed. */
static bool run_job(struct job *job, struct report *report)
{
    struct result result;
    if (!measure(job, &result))
        return false;
    report_row(report, &result);
    return true;
}

/* The shapes of a suite, or the one that the options make. */
static bool run_shapes(struct job *job, struct report *report)
{
    unsigned suite = (unsigned)job->value[OPTION_SUITE];
    bool good = true, fp8 = job->op->bit == OP_BIT_FP8_MATMUL;
    if (!suite) {
        shapes_from_options(job);
        return run_job(job, report);
    }
    for (int i = 0; i < (fp8 ? fp8_shape_count : gqa_shape_count); i++) {
        unsigned suites = fp8 ? fp8_shapes[i].suites : gqa_shapes[i].suites;
        if (!(suites & suite) || ((suites & SUITE_GPU) && job->device.kind == TDM_CPU))
            continue;
        if (fp8)
            job->fp8 = fp8_shapes[i];
        else
            job->gqa = gqa_shapes[i];
        good = run_job(job, report) && good;
    }
    return good;
}

static bool new_tokens_fit(const struct options *options)
{
    const struct option_values *q_len = &options->list[OPTION_Q_LEN], *kv_len = &options->list[OPTION_KV_LEN];
    for (int q = 0; q < q_len->count; q++)
        for (int kv = 0; kv < kv_len->count; kv++)
            if (q_len->value[q] > kv_len->value[kv]) {
                fprintf(stderr, "tandem bench: --q-len: got %lld, want at most --kv-len (%lld)\n",
                        (long long)q_len->value[q], (long long)kv_len->value[kv]);
                return false;
            }
    return true;
}

/* Look for the device. The context keeps its plugin loaded until the end; NULL, after the reason on stderr, where the
 * device is absent. */
static tdm_ctx *find_device(tdm_device device)
{
    tdm_ctx *ctx;
    tdm_device_info info = TDM_INIT(tdm_device_info);
    tdm_status status = tdm_open(TDM_VERSION, NULL, &ctx);
    if (!status)
        status = tdm_device_get(ctx, device, &info);
    if (!status && info.present)
        return ctx;
    fprintf(stderr, "tandem bench: %s\n", status ? tdm_last_error() : info.reason);
    tdm_close(ctx);
    return NULL;
}

static bool run_ops(const struct options *options, tdm_device device, struct report *report)
{
    bool good = true;
    for (size_t op = 0; op < OPS; op++) {
        struct job job = {.op = ops[op], .device = device};
        if (options->ops & ops[op]->bit)
            for (int64_t i = 0; choose(options, i, job.value); i++)
                good = run_shapes(&job, report) && good;
    }
    return good;
}

int bench_command(int argc, char **argv)
{
    struct options options;
    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)) {
        options_usage(stdout);
        return 0;
    }
    if (!options_parse(&options, argc, argv) || !new_tokens_fit(&options))
        return 2;
    tdm_device device = device_of(options.list[OPTION_DEVICE].value[0]);
    tdm_ctx *ctx = find_device(device);
    if (!ctx)
        return 1;
    struct report report = {.format = options.list[OPTION_CSV].given    ? REPORT_CSV
                                      : options.list[OPTION_JSON].given ? REPORT_JSON
                                                                        : REPORT_TABLE,
                            .check = options.list[OPTION_CHECK].given,
                            .peak = options.list[OPTION_PEAK].given,
                            .device = device.kind != TDM_CPU};
    bool good = run_ops(&options, device, &report);
    tdm_close(ctx);
    return good ? 0 : 1;
}
