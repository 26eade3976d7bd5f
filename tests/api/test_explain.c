/* What tdm_explain says must be what runs. */
#include "tests/ops/indices.h"
#include "world.h"

#include <stdio.h>
#include <string.h>

enum { MAX_ROWS = 64 };

struct seen {
    char impl[32], leaf[32];
};

static void see(void *user, const tdm_event *event)
{
    struct seen *seen = user;
    snprintf(seen->impl, sizeof seen->impl, "%s", event->impl);
    snprintf(seen->leaf, sizeof seen->leaf, "%s", event->leaf);
}

static void open_traced(struct world *world, const char *variable, struct seen *seen)
{
    world_init(world);
    tdm_options options = TDM_INIT(tdm_options);
    options.env = (const char *const[]){variable, NULL};
    options.trace = see;
    options.user = seen;
    cr_assert(!tdm_open(TDM_VERSION, &options, &world->ctx), "%s", tdm_last_error());
}

static tdm_lengths lengths_of(const struct world *world, enum each_op op)
{
    tdm_lengths lengths = TDM_INIT(tdm_lengths);
    lengths.m = op == FP8 ? world->fp8_args.m : 0;
    bool of_rows = op == GQA || op == QK || op == SV;
    lengths.q_len = of_rows || op == APPEND ? MAX_Q : 0;
    lengths.kv_len = of_rows ? CAPACITY : 0;
    return lengths;
}

/* The one impl and the one leaf that are usable ran; all others say why not. */
static void check_choice(struct world *world, enum each_op op, const struct seen *seen)
{
    tdm_kernel rows[MAX_ROWS];
    int32_t count = 0, impls = 0, leaves = 0, chosen = 0;
    for (int i = 0; i < MAX_ROWS; i++)
        rows[i] = TDM_INIT(tdm_kernel);
    tdm_lengths lengths = lengths_of(world, op);
    cr_assert(!tdm_explain(world->op, &lengths, rows, MAX_ROWS, &count), "%s", tdm_last_error());
    for (int i = 0; i < count; i++) {
        cr_expect(rows[i].is_leaf || !leaves, "impls come first");
        leaves += rows[i].is_leaf;
        impls += !rows[i].is_leaf;
        cr_expect_eq(rows[i].usable, !*rows[i].reason, "%s: usable %d, reason '%s'", rows[i].name, rows[i].usable,
                     rows[i].reason);
        if (!rows[i].usable)
            continue;
        chosen++;
        cr_expect_str_eq(rows[i].name, rows[i].is_leaf ? seen->leaf : seen->impl);
    }
    cr_expect_eq(chosen, 2, "%d rows are chosen", chosen);
    cr_expect(impls >= 1 && leaves >= 1);
}

static void check_all_ops(const char *variable)
{
    struct seen seen = {"", ""};
    struct world world;
    open_traced(&world, variable, &seen);
    for (enum each_op op = 0; op < EACH_OPS; op++) {
        cr_assert(!world_make(&world, op), "%s", tdm_last_error());
        cr_assert(!world_run(&world, op), "%s", tdm_last_error());
        check_choice(&world, op, &seen);
        tdm_workspace_destroy(world.workspace);
        tdm_op_destroy(world.op);
        world.workspace = NULL;
        world.op = NULL;
    }
    world_close(&world);
}

TEST_EACH(explain, agrees_with_the_trace, 4)
{
    static const char *const environments[] = {NULL, "TANDEM_SKIP=flash", "TANDEM_SKIP=gemv", "TANDEM_SKIP=naive,gemm"};
    check_all_ops(environments[*at]);
}

/* The same with the best leaf left out, where there is another. */
Test(explain, without_the_best_leaf)
{
    struct world world;
    tdm_kernel row = TDM_INIT(tdm_kernel);
    char variable[64] = "";
    int leaves = 0;
    world_open(&world, 1);
    for (int i = 0; !tdm_kernel_get(world.ctx, world.device, i, &row); i++)
        if (row.is_leaf && row.usable && leaves++ == 0)
            snprintf(variable, sizeof variable, "TANDEM_SKIP=%s", row.name);
    world_close(&world);
    if (leaves > 1)
        check_all_ops(variable);
}

/* fp8_matmul changes its row with M: both sides of every border must agree. */
Test(explain, follows_the_lengths)
{
    static float a[40 * K], product[40 * N];
    struct seen seen = {"", ""}, first = {"", ""};
    struct world world;
    int changes = 0;
    open_traced(&world, NULL, &seen);
    world.fp8.a.dim[0] = world.fp8.out.dim[0] = 40;
    world.fp8_args.a = a;
    world.fp8_args.out = product;
    cr_assert(!world_make(&world, FP8), "%s", tdm_last_error());
    for (world.fp8_args.m = 1; world.fp8_args.m <= 40; world.fp8_args.m++) {
        cr_assert(!world_run(&world, FP8), "%s", tdm_last_error());
        check_choice(&world, FP8, &seen);
        changes += strcmp(first.impl, seen.impl) != 0;
        first = seen;
    }
    cr_expect_eq(changes, 2, "the row changed %d times from M = 1 to 40, want one first row and one change", changes);
    world_close(&world);
}

Test(explain, arguments)
{
    struct world world;
    tdm_kernel rows[2] = {TDM_INIT(tdm_kernel), TDM_INIT(tdm_kernel)};
    int32_t count = -7, all = 0;
    world_open(&world, 1);
    cr_assert(!world_make(&world, GQA));
    tdm_lengths lengths = lengths_of(&world, GQA);
    cr_expect_eq(tdm_explain(world.op, &lengths, NULL, 0, &all), TDM_OK);
    cr_expect_geq(all, 3);
    cr_expect_eq(tdm_explain(world.op, &lengths, rows, 1, &count), TDM_OK);
    cr_expect_eq(count, all);
    cr_expect(*rows[0].name && !rows[1].name, "one row was asked for");

    cr_expect_eq(tdm_explain(NULL, &lengths, rows, 2, &count), TDM_BAD_ARG);
    cr_expect_eq(tdm_explain(world.op, NULL, rows, 2, &count), TDM_BAD_ARG);
    cr_expect_eq(tdm_explain(world.op, &lengths, NULL, 2, &count), TDM_BAD_ARG);
    cr_expect_eq(tdm_explain(world.op, &lengths, rows, 2, NULL), TDM_BAD_ARG);
    cr_expect_eq(tdm_explain(world.op, &lengths, rows, -1, &count), TDM_BAD_ARG);
    rows[1].struct_size = 0;
    count = -7;
    cr_expect_eq(tdm_explain(world.op, &lengths, rows, 2, &count), TDM_BAD_ARG);
    cr_expect(strstr(tdm_last_error(), "choices[1]"), "%s", tdm_last_error());
    cr_expect_eq(count, -7, "count changed in a failed call");
    lengths.struct_size = 1;
    cr_expect_eq(tdm_explain(world.op, &lengths, NULL, 0, &count), TDM_BAD_ARG);
    world_close(&world);
}
