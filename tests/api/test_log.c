/* What a host hears: log messages, and an event for every run. */
#include "tests/ops/indices.h"
#include "tests/ops/types.h"
#include "world.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct heard {
    int messages, events, below;
    tdm_log_level level;
    tdm_event last;
};

static void hear(void *user, tdm_log_level level, const char *message)
{
    struct heard *heard = user;
    heard->messages += message && *message;
    heard->below += level > heard->level;
}

static void see(void *user, const tdm_event *event)
{
    struct heard *heard = user;
    heard->events++;
    heard->last = *event;
}

Test(log, trace_callback)
{
    struct heard heard = {0};
    struct world world;
    world_init(&world);
    tdm_options options = TDM_INIT(tdm_options);
    options.env = (const char *const[]){NULL};
    options.trace = see;
    options.user = &heard;
    cr_assert(!tdm_open(TDM_VERSION, &options, &world.ctx), "%s", tdm_last_error());
    cr_expect(!world_run_all(&world), "%s", tdm_last_error());
    cr_expect_eq(heard.events, EACH_OPS);
    cr_expect_str_eq(heard.last.op, "dequantize");

    /* gqa: sequences of 3 and 2 queries over 8 and 7 keys see 6 + 7 + 8 and 6 + 7 of them. */
    cr_assert(!world_make(&world, GQA));
    cr_assert(!world_run(&world, GQA));
    cr_expect_eq(heard.last.flops, (uint64_t)(2 * (21 + 13) * Q_HEADS * (K_DIM + V_DIM)), "%llu",
                 (unsigned long long)heard.last.flops);
    cr_expect_gt(heard.last.bytes, 0);
    world.memory.q_len[0] = -1;
    cr_expect_eq(world_run(&world, GQA), TDM_BAD_ARG);
    cr_expect_eq(heard.events, EACH_OPS + 1, "a failed run was traced");
    world_close(&world);
}

Test(log, trace_file)
{
    char path[64], variable[96], line[256];
    snprintf(path, sizeof path, "/tmp/tandem-trace-%ld.csv", (long)getpid());
    snprintf(variable, sizeof variable, "TANDEM_TRACE=%s", path);
    struct world world;
    world_init(&world);
    tdm_options options = TDM_INIT(tdm_options);
    options.env = (const char *const[]){variable, NULL};
    cr_assert(!tdm_open(TDM_VERSION, &options, &world.ctx), "%s", tdm_last_error());
    cr_expect(!world_run_all(&world), "%s", tdm_last_error());
    world_close(&world);
    FILE *file = fopen(path, "r");
    cr_assert(file);
    static const char *const starts[] = {"op,impl,leaf,ns,bytes,flops",
                                         "kv_append,",
                                         "kv_shift,",
                                         "gqa,",
                                         "merge_states,",
                                         "qk,",
                                         "sv,",
                                         "fp8_matmul,",
                                         "quantize,",
                                         "dequantize,"};
    int lines = 0;
    for (; fgets(line, sizeof line, file); lines++)
        cr_expect(lines < COUNT(starts) && !strncmp(line, starts[lines], strlen(starts[lines])), "%s", line);
    cr_expect_eq(lines, COUNT(starts));
    fclose(file);
    remove(path);
}

/* The log callback hears nothing above TANDEM_LOG: at info that a device is present or absent, at off nothing. */
TEST_EACH(log, log_levels, 4)
{
    static const char *const variables[] = {"TANDEM_LOG=off", "TANDEM_LOG=error", "TANDEM_LOG=warn", "TANDEM_LOG=info"};
    struct heard heard = {.level = (tdm_log_level)*at};
    struct world world;
    world_init(&world);
    tdm_options options = TDM_INIT(tdm_options);
    options.env = (const char *const[]){variables[*at], "TANDEM_CUDA_PLUGIN=/nonexistent", NULL};
    options.log = hear;
    options.user = &heard;
    cr_assert(!tdm_open(TDM_VERSION, &options, &world.ctx), "%s", tdm_last_error());
    world.device.kind = TDM_CUDA;
    tdm_status status = world_create(&world, GQA);
    cr_expect(status == TDM_OK || status == TDM_NO_DEVICE || status == TDM_UNSUPPORTED, "%s", tdm_status_name(status));
    cr_expect_eq(heard.below, 0);
    cr_expect(*at == TDM_LOG_OFF ? heard.messages == 0 : *at < TDM_LOG_INFO || heard.messages > 0);
    world_close(&world);
}
