/* After fork() the child can close what it inherited. Anything else it tries there is refused at once, for the
 * threads are gone; the parent goes on. */
#include "load.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int child(tdm_ctx *ctx, struct load_ops *ops, struct load_job *job)
{
    alarm(20); /* a hang is a failure */
    struct load_ops none;
    if (load_job_run(ops, job) != TDM_BAD_ARG || !strstr(tdm_last_error(), "fork"))
        return 2;
    if (load_create(ctx, &none) != TDM_BAD_ARG || !strstr(tdm_last_error(), "fork"))
        return 3;
    load_job_end(job);
    load_destroy(ops);
    tdm_close(ctx);
    return 0;
}

static void check(int threads, const struct load_job *want)
{
    struct load_ops ops;
    struct load_job job;
    tdm_ctx *ctx = load_open(threads, NULL);
    load_expect(!load_create(ctx, &ops), tdm_last_error());
    load_expect(!load_job_start(&ops, &job), tdm_last_error());
    load_expect(!load_job_run(&ops, &job), tdm_last_error());
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(child(ctx, &ops, &job));
    int status = 0;
    load_expect(pid > 0 && waitpid(pid, &status, 0) == pid, "fork");
    load_expect(!WIFSIGNALED(status), "the child hung or crashed");
    load_expect(WEXITSTATUS(status) != 2, "a run in the child was not refused");
    load_expect(WEXITSTATUS(status) == 0, "a create in the child was not refused");
    load_expect(!load_job_run(&ops, &job), tdm_last_error());
    load_expect(load_job_same(&job, want), "the parent's results changed");
    load_job_end(&job);
    load_destroy(&ops);
    tdm_close(ctx);
}

int main(void)
{
    struct load_job want = load_serial();
    check(1, &want);
    check(4, &want);
    load_job_end(&want);
    puts("fork_check: the child closes, the parent goes on");
    return 0;
}
