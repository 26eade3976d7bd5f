#include "problem.h"

#include "tests/reference/device.h"
#include "variants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[512];

void *problem_output(struct problem *problem, int64_t bytes)
{
    if (bytes == 0)
        return NULL;
    struct output *output = &problem->output[problem->outputs++];
    output->memory = guard_new((size_t)bytes, OUTPUT_FILL);
    output->initial = malloc((size_t)bytes);
    memset(output->initial, OUTPUT_FILL, (size_t)bytes);
    return output->memory.data;
}

void problem_keep(struct problem *problem)
{
    for (int i = 0; i < problem->outputs; i++)
        memcpy(problem->output[i].initial, problem->output[i].memory.data, problem->output[i].memory.bytes);
}

void problem_free_outputs(struct problem *problem)
{
    for (int i = 0; i < problem->outputs; i++) {
        guard_free(&problem->output[i].memory);
        free(problem->output[i].initial);
    }
    problem->outputs = 0;
}

/* Run it where the device can reach the data, up to its end. */
static tdm_status run_lent(const struct problem *problem, tdm_ctx *ctx, const tdm_op *op, tdm_workspace *workspace)
{
    const char *refused = test_lend_guards(ctx);
    if (refused) {
        fprintf(stderr, "%s\n", refused);
        abort();
    }
    tdm_status status = each_op_run(problem->op, op, workspace, problem->args);
    if (!status)
        status = tdm_stream_sync(ctx, test_device(), NULL);
    test_take_guards_back(ctx);
    return status;
}

tdm_status problem_run(struct problem *problem, tdm_ctx *ctx)
{
    for (int i = 0; i < problem->outputs; i++)
        memcpy(problem->output[i].memory.data, problem->output[i].initial, problem->output[i].memory.bytes);
    tdm_op *op = NULL;
    tdm_workspace *workspace = NULL;
    size_t bytes = 0;
    tdm_status status = each_op_create(problem->op, ctx, test_device(), problem->desc, &op);
    if (status || (status = tdm_workspace_size(op, &bytes))) {
        tdm_op_destroy(op);
        return status;
    }
    bytes = (bytes + 63) / 64 * 64;
    struct guard scratch = guard_new(bytes, 0xFF); /* what is read before it was written reads as NaN */
    status = tdm_workspace_create(op, bytes ? scratch.data : NULL, bytes, &workspace);
    if (!status)
        status = run_lent(problem, ctx, op, workspace);
    if (!guard_intact(&scratch)) {
        fprintf(stderr, "%s: wrote before its workspace\n", each_op_name(problem->op));
        abort();
    }
    tdm_workspace_destroy(workspace);
    tdm_op_destroy(op);
    guard_free(&scratch);
    return status;
}

/* ---- variants ------------------------------------------------------------------- */

static const char *explain(const char *label, int threads, const char *what)
{
    static char copy[400];
    snprintf(copy, sizeof copy, "%s", what);
    snprintf(text, sizeof text, "%s, %d threads: %s", label, threads, copy);
    return text;
}

/* What a GPU has no kernel for says so, and is one of these; on the CPU some variant takes every problem. */
static bool may_refuse(const char *reason)
{
    static const char *const features[] = {"ring", "past", "bias", "mask", "alibi", "tree", "capture"};
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (test_device().kind != TDM_CPU && strstr(reason, features[i]))
            return true;
    return false;
}

/* Variants that took a problem, and that refused it with a reason that they may have. */
struct tally {
    int ran, refused;
};

/* Threads mean nothing to a device; where it is emulated, those of its kernels take turns in another order instead. */
static void choose_order(int threads)
{
    if (test_device().kind != TDM_CPU)
        setenv("SHIM_ORDER", threads == 1 ? "forward" : threads == 2 ? "reverse" : "1", 1);
}

static const char *run_one(struct problem *problem, const struct variant *variant, int threads, problem_body *body,
                           void *arg, struct tally *tally)
{
    struct forced *forced = forced_get(each_op_name(problem->op), variant, threads);
    if (!forced)
        return explain(variant->label, threads, tdm_last_error());
    choose_order(threads);
    problem->impl = variant->impl;
    tdm_status status = problem_run(problem, forced->ctx);
    const char *bad = status && status != TDM_UNSUPPORTED ? tdm_last_error() : NULL;
    if (status == TDM_UNSUPPORTED && may_refuse(tdm_last_error()))
        tally->refused++;
    if (!status) {
        tally->ran++;
        bad = forced_check(forced);
        for (int i = 0; i < problem->outputs && !bad; i++)
            bad = guard_intact(&problem->output[i].memory) ? NULL : "wrote before an output";
        if (!bad)
            bad = body(problem, forced->ctx, arg);
    }
    return bad ? explain(variant->label, threads, bad) : NULL;
}

const char *problem_each_variant(struct problem *problem, int threads, problem_body *body, void *arg)
{
    const struct variant *variants;
    int count = variants_of(each_op_name(problem->op), problem->approximate, &variants);
    struct tally tally = {0, 0};
    for (int i = 0; i < count; i++) {
        const char *bad = run_one(problem, &variants[i], threads, body, arg, &tally);
        if (bad)
            return bad;
    }
    return tally.ran || tally.refused ? NULL : "no variant takes this problem";
}

static const char *check_body(struct problem *problem, tdm_ctx *ctx, void *arg)
{
    (void)ctx, (void)arg;
    return problem->check(problem);
}

static const char *same_body(struct problem *problem, tdm_ctx *ctx, void *arg)
{
    (void)ctx;
    void **first = arg;
    for (int i = 0; i < problem->outputs; i++)
        if (memcmp(first[i], problem->output[i].memory.data, problem->output[i].memory.bytes))
            return "not the bits that one thread gives";
    return NULL;
}

/* All thread counts of one variant. */
static const char *check_variant(struct problem *problem, const struct variant *variant, struct tally *tally)
{
    static const int threads[] = {1, 2, 7};
    void *first[MAX_OUTPUTS];
    int before = tally->ran;
    const char *bad = run_one(problem, variant, threads[0], check_body, NULL, tally);
    if (bad || tally->ran == before)
        return bad;
    for (int i = 0; i < problem->outputs; i++)
        first[i] = memcpy(malloc(problem->output[i].memory.bytes), problem->output[i].memory.data,
                          problem->output[i].memory.bytes);
    for (int t = 1; t < 3 && !bad; t++)
        bad = run_one(problem, variant, threads[t], same_body, first, tally);
    for (int i = 0; i < problem->outputs; i++)
        free(first[i]);
    return bad;
}

const char *problem_all_variants(struct problem *problem)
{
    const struct variant *variants;
    int count = variants_of(each_op_name(problem->op), problem->approximate, &variants);
    struct tally tally = {0, 0};
    for (int i = 0; i < count; i++) {
        const char *bad = check_variant(problem, &variants[i], &tally);
        if (bad)
            return bad;
    }
    return tally.ran || tally.refused ? NULL : "no variant takes this problem";
}
