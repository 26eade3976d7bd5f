/* Only tdm_open reads the environment: afterwards it may change, or not be readable at all. */
#include "load.h"
#include "tests/reference/guard.h"

#include <stdio.h>
#include <stdlib.h>

extern char **environ;

int main(void)
{
    struct load_job want = load_serial(), job;
    struct load_ops ops;
    tdm_ctx *ctx;
    setenv("TANDEM_THREADS", "3", 1);
    setenv("TANDEM_CUDA_PLUGIN", "/nonexistent", 1);
    load_expect(!tdm_open(TDM_VERSION, NULL, &ctx), tdm_last_error());

    setenv("TANDEM_THREADS", "nonsense", 1);
    setenv("TANDEM_SKIP", "nonsense", 1);
    load_expect(!load_create(ctx, &ops), tdm_last_error());
    load_expect(!load_job_start(&ops, &job), tdm_last_error());

    struct guard nothing = guard_new(0, 0); /* its data is where the page that faults begins */
    char **kept = environ;
    environ = nothing.data;
    tdm_status status = load_job_run(&ops, &job);
    environ = kept;
    load_expect(!status, tdm_last_error());
    load_expect(load_job_same(&job, &want), "other bits");

    tdm_setting setting = TDM_INIT(tdm_setting);
    load_expect(!tdm_setting_get(ctx, 0, &setting) && setting.value[0] == '3', "the setting of TANDEM_THREADS moved");
    load_job_end(&job);
    load_job_end(&want);
    load_destroy(&ops);
    tdm_close(ctx);
    guard_free(&nothing);
    puts("env_check: a run reads no environment");
    return 0;
}
