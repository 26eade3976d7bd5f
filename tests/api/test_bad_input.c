/* Bad input: the status, a message that names the field, and nothing written. */
#include "tests/ops/indices.h"
#include "tests/ops/types.h"
#include "world.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

struct bad_row {
    enum each_op op;
    tdm_status status;
    const char *field, *change;
    void (*apply)(struct world *w);
    bool rich; /* of world_enrich */
};

static void group(tdm_tensor *tensor, int64_t rows, int64_t channels)
{
    tensor->scaling = TDM_PER_GROUP;
    tensor->block[0] = rows;
    tensor->block[1] = channels;
}

static tdm_tensor plane(tdm_dtype dtype, int64_t batch, int64_t heads, int64_t rows)
{
    return (tdm_tensor){.dtype = dtype, .rank = 4, .dim = {batch, heads, rows, KEYS}};
}

/* Each table is read twice: for a function a row, then for the rows. */
#define BAD(op, status, field, change)                  \
    static void JOIN(desc_, __LINE__)(struct world * w) \
    {                                                   \
        change;                                         \
    }
#include "bad_descs.inc"
#undef BAD
#define BAD(op, status, field, change) {op, status, field, #change, JOIN(desc_, __LINE__), false},
static const struct bad_row descs[] = {
#include "bad_descs.inc"
};
#undef BAD

#define BAD(op, status, field, change)                  \
    static void JOIN(args_, __LINE__)(struct world * w) \
    {                                                   \
        change;                                         \
    }
#define RICH BAD
#include "bad_args.inc"
#undef BAD
#undef RICH
#define BAD(op, status, field, change) {op, status, field, #change, JOIN(args_, __LINE__), false},
#define RICH(op, status, field, change) {op, status, field, #change, JOIN(args_, __LINE__), true},
static const struct bad_row args[] = {
#include "bad_args.inc"
};
#undef BAD
#undef RICH

/* The message starts with the field's name, or with a longer one that ends in it. */
static void expect(const struct bad_row *row, tdm_status status)
{
    cr_expect_eq(status, row->status, "%s: got %s (%s), want %s", row->change, tdm_status_name(status),
                 status ? tdm_last_error() : "", tdm_status_name(row->status));
    const char *colon = strchr(tdm_last_error(), ':'), *name = strstr(tdm_last_error(), row->field);
    cr_expect(status == TDM_OK || (name && colon && name < colon), "%s: the message '%s' does not name %s", row->change,
              tdm_last_error(), row->field);
}

Test(bad_input, the_world_is_valid)
{
    struct world world;
    world_open(&world, 2);
    cr_expect_eq(world_run_all(&world), TDM_OK, "%s", tdm_last_error());
    world_close(&world);
    world_open(&world, 2);
    world_enrich(&world);
    cr_expect_eq(world_run_all(&world), TDM_OK, "%s", tdm_last_error());
    world_close(&world);
}

static void check_desc(const struct bad_row *row)
{
    struct world world;
    world_open(&world, 1);
    tdm_ctx *ctx = world.ctx;
    row->apply(&world);
    world.op = (tdm_op *)&world; /* not NULL, to see that it becomes so */
    tdm_status status = world_create(&world, row->op);
    expect(row, status);
    cr_expect(status == TDM_OK || !world.op, "%s: op is not NULL after a failure", row->change);
    world.ctx = ctx;
    world_close(&world);
}

static void check_args(const struct bad_row *row)
{
    struct world world, made;
    world_open(&world, 1);
    if (row->rich)
        world_enrich(&world);
    cr_assert(!world_make(&world, row->op), "%s", tdm_last_error());
    made = world;
    row->apply(&world);
    struct memory *before = malloc(sizeof *before);
    memcpy(before, &world.memory, sizeof *before);
    expect(row, world_run(&world, row->op));
    cr_expect(!memcmp(before, &world.memory, sizeof *before), "%s: something was written", row->change);
    free(before);
    world_close(&made);
}

/* One case for eight rows: starting a process costs more than a row. */
enum { ROWS_A_CASE = 8 };

TEST_EACH(bad_input, descs, (COUNT(descs) + ROWS_A_CASE - 1) / ROWS_A_CASE)
{
    for (int i = *at * ROWS_A_CASE; i < COUNT(descs) && i < (*at + 1) * ROWS_A_CASE; i++)
        check_desc(&descs[i]);
}

TEST_EACH(bad_input, args, (COUNT(args) + ROWS_A_CASE - 1) / ROWS_A_CASE)
{
    for (int i = *at * ROWS_A_CASE; i < COUNT(args) && i < (*at + 1) * ROWS_A_CASE; i++)
        check_args(&args[i]);
}

/* ---- what does not fit the tables --------------------------------------------------------- */

Test(bad_input, null_places)
{
    struct world world;
    world_open(&world, 1);
    cr_expect_eq(tdm_gqa_create(world.ctx, world.device, &world.gqa, NULL), TDM_BAD_ARG);
    cr_expect(strstr(tdm_last_error(), "op"));
    cr_expect_eq(tdm_gqa_create(world.ctx, world.device, NULL, &world.op), TDM_BAD_ARG);
    cr_expect(strstr(tdm_last_error(), "desc"));
    cr_expect_eq(tdm_fp8_matmul_create(world.ctx, world.device, NULL, &world.op), TDM_BAD_ARG);
    cr_expect_eq(tdm_workspace_size(NULL, &(size_t){0}), TDM_BAD_ARG);
    cr_expect_eq(tdm_workspace_create(NULL, NULL, 0, &world.workspace), TDM_BAD_ARG);
    tdm_op_destroy(NULL);
    tdm_workspace_destroy(NULL);
    tdm_close(NULL);
    tdm_gqa_desc_init(NULL);
    world_close(&world);
}

/* A struct of a later version: what this library does not know must be zero. */
Test(bad_input, longer_structs)
{
    struct {
        tdm_gqa_desc desc;
        char later[16];
    } desc = {0};
    struct {
        tdm_gqa_args args;
        char later[16];
    } longer = {0};
    struct world world;
    world_open(&world, 1);
    desc.desc = world.gqa;
    desc.desc.struct_size = sizeof desc;
    cr_expect_eq(tdm_gqa_create(world.ctx, world.device, &desc.desc, &world.op), TDM_OK, "%s", tdm_last_error());
    tdm_op_destroy(world.op);
    world.op = NULL;
    desc.later[15] = 1;
    cr_expect_eq(tdm_gqa_create(world.ctx, world.device, &desc.desc, &world.op), TDM_BAD_ARG);
    cr_expect(strstr(tdm_last_error(), "desc"), "%s", tdm_last_error());

    cr_assert(!world_make(&world, GQA));
    longer.args = world.gqa_args;
    longer.args.struct_size = sizeof longer;
    world.args = &longer;
    cr_expect_eq(world_run(&world, GQA), TDM_OK, "%s", tdm_last_error());
    longer.later[0] = 1;
    cr_expect_eq(world_run(&world, GQA), TDM_BAD_ARG);
    cr_expect(strstr(tdm_last_error(), "args"), "%s", tdm_last_error());
    world_close(&world);
}

Test(bad_input, op_of_another_kind)
{
    struct world world;
    world_open(&world, 1);
    cr_assert(!world_make(&world, FP8));
    for (enum each_op op = 0; op < EACH_OPS; op++) {
        struct memory before = world.memory;
        cr_expect(op == FP8 || world_run(&world, op) == TDM_BAD_ARG, "op %d", (int)op);
        cr_expect(op == FP8 || strstr(tdm_last_error(), "op"), "%s", tdm_last_error());
        cr_expect(op == FP8 || !memcmp(&before, &world.memory, sizeof before));
    }
    world_close(&world);
}

/* An unscaled tensor takes no scales, and an op without bias takes none. */
Test(bad_input, unwanted_pointers)
{
    struct world world;
    world_open(&world, 1);
    world.fp8.has_bias = world.fp8.has_a_scale = 0;
    cr_assert(!world_make(&world, FP8));
    world.fp8_args.a_scale = NULL;
    cr_expect_eq(world_run(&world, FP8), TDM_BAD_ARG);
    cr_expect(strstr(tdm_last_error(), "bias"), "%s", tdm_last_error());
    world.fp8_args.bias = NULL;
    world.fp8_args.a_scale = &world.memory.a_scale;
    cr_expect_eq(world_run(&world, FP8), TDM_BAD_ARG);
    cr_expect(strstr(tdm_last_error(), "a_scale"), "%s", tdm_last_error());
    world_close(&world);

    world_open(&world, 1);
    world.quantize.dst.dtype = TDM_F16;
    world.quantize.dst.scaling = TDM_UNSCALED;
    cr_assert(!world_make(&world, QUANTIZE), "%s", tdm_last_error());
    cr_expect_eq(world_run(&world, QUANTIZE), TDM_BAD_ARG);
    cr_expect(strstr(tdm_last_error(), "scale"), "%s", tdm_last_error());
    world_close(&world);
}

/* Nothing to do needs no pointers. */
Test(bad_input, empty_runs)
{
    struct world world;
    world_open(&world, 1);
    cr_assert(!world_make(&world, FP8));
    tdm_fp8_matmul_args nothing = TDM_INIT(tdm_fp8_matmul_args);
    world.args = &nothing;
    cr_expect_eq(world_run(&world, FP8), TDM_OK, "%s", tdm_last_error());
    world_close(&world);
}
