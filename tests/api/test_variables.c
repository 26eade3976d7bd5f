/* The variables that users of other libraries know: each on, off and odd. None of them makes tdm_open fail. */
#include "common/context.h"
#include "tests/ops/indices.h"
#include "tests/ops/types.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

/* Warnings that name the variable, and all others. */
struct heard {
    const char *name;
    int about_it, others;
};

static void hear(void *user, tdm_log_level level, const char *message)
{
    struct heard *heard = user;
    if (level != TDM_LOG_WARN)
        return;
    bool about_it = !strncmp(message, heard->name, strlen(heard->name)) && strstr(message, "want");
    heard->about_it += about_it;
    heard->others += !about_it;
}

static tdm_ctx *open_with(const char *const *environment, struct heard *heard)
{
    tdm_options options = TDM_INIT(tdm_options);
    tdm_ctx *ctx = NULL;
    options.env = environment;
    options.log = hear;
    options.user = heard;
    options.threads = 1;
    cr_assert(!tdm_open(TDM_VERSION, &options, &ctx), "%s: %s", environment[0], tdm_last_error());
    return ctx;
}

/* ---- switches --------------------------------------------------------------------------- */

static const struct {
    const char *variable, *row;
    bool approximate; /* the row is: off unless let in */
    bool left_out, odd;
} switches[] = {
    {"ORT_GQA_DISABLE_FLASH_ATTENTION=1", "flash", false, true, false},
    {"ORT_GQA_DISABLE_FLASH_ATTENTION=true", "flash", false, true, false},
    {"ORT_GQA_DISABLE_FLASH_ATTENTION=True", "flash", false, true, false},
    {"ORT_GQA_DISABLE_FLASH_ATTENTION=0", "flash", false, false, false},
    {"ORT_GQA_DISABLE_FLASH_ATTENTION=false", "flash", false, false, false},
    {"ORT_GQA_DISABLE_FLASH_ATTENTION=False", "flash", false, false, false},
    {"ORT_GQA_DISABLE_FLASH_ATTENTION=", "flash", false, false, false},
    {"ORT_GQA_DISABLE_FLASH_ATTENTION=TRUE", "flash", false, false, true},
    {"ORT_GQA_DISABLE_FLASH_ATTENTION=yes", "flash", false, false, true},
    {"ORT_GQA_DISABLE_FLASH_ATTENTION=1 ", "flash", false, false, true},
    {"ORT_GQA_DISABLE_FLASH_ATTENTION=1", "naive", false, false, false},
    {"ORT_MLAS_QKGEMM_S8_APPROX_VNNI=1", "int8_decode", true, false, false},
    {"ORT_MLAS_QKGEMM_S8_APPROX_VNNI=0", "int8_decode", true, true, false},
    {"ORT_MLAS_QKGEMM_S8_APPROX_VNNI=", "int8_decode", true, true, false},
    {"ORT_MLAS_QKGEMM_S8_APPROX_VNNI=true", "int8_decode", true, true, true},
    {"ORT_MLAS_QKGEMM_S8_APPROX_VNNI=11", "int8_decode", true, true, true},
    {"ORT_MLAS_QKGEMM_S8_APPROX_VNNI=1", "another", true, true, false},
    {"ORT_FP8_GEMV_MMA=0", "mma_gemv", false, true, false},
    {"ORT_FP8_GEMV_MMA=false", "mma_gemv", false, true, false},
    {"ORT_FP8_GEMV_MMA=False", "mma_gemv", false, true, false},
    {"ORT_FP8_GEMV_MMA=1", "mma_gemv", false, false, false},
    {"ORT_FP8_GEMV_MMA=true", "mma_gemv", false, false, false},
    {"ORT_FP8_GEMV_MMA=", "mma_gemv", false, false, false},
    {"ORT_FP8_GEMV_MMA=off", "mma_gemv", false, false, true},
    {"ORT_FP8_GEMV_MMA=0", "gemv", false, false, false},
    {"ORT_FP8_GEMV_MMAS=0", "mma_gemv", false, false, false},
    {"ort_fp8_gemv_mma=0", "mma_gemv", false, false, false},
};

TEST_EACH(variables, switches, COUNT(switches))
{
    char name[64] = "", reason[REASON_SIZE] = "";
    const char *variable = switches[*at].variable;
    memcpy(name, variable, strcspn(variable, "="));
    struct heard heard = {.name = name};
    tdm_ctx *ctx = open_with((const char *const[]){variable, NULL}, &heard);
    bool left_out = ctx->services.left_out(ctx, switches[*at].row, switches[*at].approximate, reason);
    cr_expect_eq(left_out, switches[*at].left_out, "%s: %s", variable, reason);
    cr_expect(!left_out || strstr(reason, switches[*at].approximate ? "TANDEM_ALLOW" : name), "%s: %s", variable,
              reason);
    cr_expect_eq(heard.about_it, switches[*at].odd, "%s: %d warnings", variable, heard.about_it);
    cr_expect_eq(heard.others, 0);
    tdm_close(ctx);
}

/* A row that TANDEM_SKIP names stays out, whatever lets it in; TANDEM_SKIP and a switch agree on who is named. */
Test(variables, skip_comes_first)
{
    char reason[REASON_SIZE] = "";
    struct heard heard = {.name = ""};
    tdm_ctx *ctx =
        open_with((const char *const[]){"ORT_GQA_DISABLE_FLASH_ATTENTION=0", "TANDEM_SKIP=flash", NULL}, &heard);
    cr_expect(ctx->services.left_out(ctx, "flash", false, reason) && strstr(reason, "TANDEM_SKIP"), "%s", reason);
    tdm_close(ctx);
}

/* ---- what runs ---------------------------------------------------------------------------- */

static void see(void *user, const tdm_event *event)
{
    *(tdm_event *)user = *event;
}

static tdm_event run_gqa(const char *variable)
{
    struct world world;
    tdm_event event = {0};
    tdm_options options = TDM_INIT(tdm_options);
    world_init(&world);
    options.env = (const char *const[]){variable, NULL};
    options.trace = see;
    options.user = &event;
    cr_assert(!tdm_open(TDM_VERSION, &options, &world.ctx), "%s", tdm_last_error());
    cr_assert(!world_make(&world, GQA) && !world_run(&world, GQA), "%s", tdm_last_error());
    world_close(&world);
    return event;
}

Test(variables, rows_that_run)
{
    cr_expect_str_eq(run_gqa("ORT_GQA_DISABLE_FLASH_ATTENTION=0").impl, "flash");
    cr_expect_str_eq(run_gqa("ORT_GQA_DISABLE_FLASH_ATTENTION=1").impl, "naive");
    cr_expect_str_eq(run_gqa("CA_CPU_ISA=scalar").leaf, "scalar");
    cr_expect_str_eq(run_gqa("CA_CPU_ISA=nonsense").leaf, run_gqa(NULL).leaf);
}

Test(variables, a_row_let_in)
{
    for (int let_in = 0; let_in < 2; let_in++) {
        struct heard heard = {.name = ""};
        tdm_kernel row = TDM_INIT(tdm_kernel);
        tdm_ctx *ctx = open_with(
            (const char *const[]){let_in ? "ORT_MLAS_QKGEMM_S8_APPROX_VNNI=1" : "ORT_MLAS_QKGEMM_S8_APPROX_VNNI=0",
                                  NULL},
            &heard);
        for (int i = 0; !tdm_kernel_get(ctx, (tdm_device){TDM_CPU, 0}, i, &row); i++)
            cr_expect(strcmp(row.name, "int8_decode") || row.usable == let_in, "%s: %s", row.name, row.reason);
        tdm_close(ctx);
    }
}

Test(variables, the_process_environment)
{
    tdm_kernel row = TDM_INIT(tdm_kernel);
    tdm_ctx *ctx;
    setenv("CA_CPU_ISA", "scalar", 1);
    cr_assert(!tdm_open(TDM_VERSION, NULL, &ctx), "%s", tdm_last_error());
    int leaves = 0;
    for (int i = 0; !tdm_kernel_get(ctx, (tdm_device){TDM_CPU, 0}, i, &row); i++) {
        leaves += row.is_leaf;
        cr_expect(!row.is_leaf || row.usable == !strcmp(row.name, "scalar"), "%s", row.name);
        cr_expect(row.usable || !row.is_leaf || strstr(row.reason, "CA_CPU_ISA") || strstr(row.reason, "no "), "%s: %s",
                  row.name, row.reason);
    }
    cr_expect_geq(leaves, 1);
    tdm_close(ctx);
}

/* ---- CA_CPU_ISA ------------------------------------------------------------------------------ */

static const char *const x86[] = {"amx",    "avx512vnni_1", "avx512vnni_2", "avx512vnni",
                                  "avx512", "avx2",         "scalar",       NULL};
static const char *const today[] = {"avx512", "avx2", "scalar", NULL};
static const char *const arm[] = {"neon_i8mm", "neon_dotprod", "neon", "scalar", NULL};

/* How many of the leaf rows a tier or a row's name takes away. */
static const struct {
    const char *variable;
    const char *const *rows;
    int count;
    bool odd;
} tiers[] = {
    {"CA_CPU_ISA=vnni", x86, 1, false},       {"CA_CPU_ISA=avx512", x86, 4, false},
    {"CA_CPU_ISA=avx2", x86, 5, false},       {"CA_CPU_ISA=scalar", x86, 6, false},
    {"CA_CPU_ISA=amx", x86, 0, false},        {"CA_CPU_ISA=vnni", today, 0, false},
    {"CA_CPU_ISA=avx2", today, 1, false},     {"CA_CPU_ISA=scalar", today, 2, false},
    {"CA_CPU_ISA=sdot", today, 0, false},     {"CA_CPU_ISA=neon", today, 0, false},
    {"CA_CPU_ISA=sdot", arm, 1, false},       {"CA_CPU_ISA=neon", arm, 2, false},
    {"CA_CPU_ISA=scalar", arm, 3, false},     {"CA_CPU_ISA=avx2", arm, 0, false},
    {"CA_CPU_ISA=neon_i8mm", arm, 0, false},  {"CA_CPU_ISA=", x86, 0, false},
    {"CA_CPU_ISA=AVX2", x86, 0, true},        {"CA_CPU_ISA=avx", x86, 0, true},
    {"CA_CPU_ISA=avx2,scalar", x86, 0, true}, {"CA_CPU_ISA=neon_dotprod", x86, 0, true},
};

TEST_EACH(variables, tiers, COUNT(tiers))
{
    char reason[REASON_SIZE] = "";
    const char *variable = tiers[*at].variable;
    struct heard heard = {.name = "CA_CPU_ISA"};
    tdm_ctx *ctx = open_with((const char *const[]){variable, NULL}, &heard);
    heard.about_it = 0; /* about the rows of this machine */
    cr_expect_eq(ctx->services.demoted(ctx, tiers[*at].rows, reason), tiers[*at].count, "%s", variable);
    cr_expect(strstr(reason, "CA_CPU_ISA"), "%s", reason);
    cr_expect_eq(heard.about_it, tiers[*at].odd, "%s: %d warnings", variable, heard.about_it);
    cr_expect_eq(heard.others, 0);
    tdm_close(ctx);
}

Test(variables, an_odd_tier_is_warned_of_once)
{
    struct heard heard = {.name = "CA_CPU_ISA"};
    tdm_close(open_with((const char *const[]){"CA_CPU_ISA=sse2", NULL}, &heard));
    cr_expect_eq(heard.about_it, 1);
}
