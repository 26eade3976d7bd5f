/* Checks every leaf of every table this machine can run, and of the AVX-512 and AMX tables compiled without either.
 *
 *   leaf_check [--quick] [--leaf NAME] [--expect FEATURES]
 *
 * --leaf takes a row of `checks` below, or one with its type (qk, qk_i8). --expect fails unless exactly these CPU
 * features are seen ("none" for none of them), so that a run under an emulated CPU shows that it is one; the tables in
 * portable C, which do not depend on the CPU, are left out then. */
#include "check.h"
#include "cpu/isa.h"
#include "stored.h"

#include <signal.h>
#include <stdarg.h>

#ifdef __x86_64__
extern const struct leaf_table leaf_avx512_emulated, leaf_avx512vnni_emulated, leaf_avx512vnni_2_emulated,
    leaf_avx512vnni_1_emulated, leaf_amx_emulated;
static const struct leaf_table *const emulated[] = {&leaf_avx512vnni_1_emulated, &leaf_avx512vnni_2_emulated,
                                                    &leaf_avx512vnni_emulated, &leaf_avx512_emulated,
                                                    &leaf_amx_emulated};
#endif

static const struct {
    const char *name;
    check_function *check;
    bool per_type;
} checks[] = {
    {"qk", check_qk, true},
    {"sv", check_sv, true},
    {"error", check_error, true},
    {"qk_many", check_qk_many, true},
    {"sv_many", check_sv_many, true},
    {"dot_i8", check_dot_i8, false},
    {"widen", check_widen, true},
    {"transpose", check_transpose, true},
    {"to_f16", check_to_f16, false},
    {"to_bf16", check_to_bf16, false},
    {"softmax", check_softmax, false},
    {"score", check_score, false},
    {"mul_add", check_mul_add, false},
    {"rotate", check_rotate, false},
    {"scale", check_scale, false},
    {"absmax", check_absmax, false},
    {"to_i8", check_to_i8, false},
    {"to_i4", check_to_i4, false},
    {"to_f8", check_to_f8, false},
    {"fp8_dot", check_fp8_dot, false},
    {"fp8_many", check_fp8_many, false},
    {"fp8_panel", check_fp8_panel, false},
};

static struct {
    int passed, failed;
} total;
static char running[64];

void expect(struct suite *suite, bool ok, const char *format, ...)
{
    suite->cases++;
    if (ok || ++suite->failed > 5)
        return;
    va_list list;
    va_start(list, format);
    printf("  %s: ", running);
    vprintf(format, list);
    putchar('\n');
    va_end(list);
}

static void count(const char *name, int cases, int failed)
{
    if (failed)
        printf("%s: FAILED, %d of %d cases\n", name, failed, cases);
    else
        printf("%s: ok, %d cases\n", name, cases);
    *(failed ? &total.failed : &total.passed) += 1;
}

/* A leaf that touched a guard page ends the run, but says which it was. */
static void on_fault(int signal)
{
    (void)signal;
    static const char message[] = ": FAILED, memory fault\n";
    if (write(STDOUT_FILENO, running, strlen(running)) < 0 || write(STDOUT_FILENO, message, sizeof message - 1) < 0)
        _exit(2);
    _exit(1);
}

static void check_table(const char *title, const struct leaf_table *table, const char *only, bool quick)
{
    struct leaf_table full = cpu_leaf_resolve(table);
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        for (int type = 0; type < (checks[i].per_type ? LEAF_TYPES : 1); type++) {
            char name[32];
            snprintf(name, sizeof name, checks[i].per_type ? "%s_%s" : "%s", checks[i].name, type_names[type]);
            if (only && strcmp(only, name) != 0 && strcmp(only, checks[i].name) != 0)
                continue;
            struct suite suite = {.table = &full, .quick = quick, .random = 88172645463325252u};
            snprintf(running, sizeof running, "%s %s", title, name);
            fflush(stdout);
            if (full.enter)
                full.enter();
            checks[i].check(&suite, (enum leaf_type)type);
            if (full.leave)
                full.leave();
            if (suite.cases)
                count(running, suite.cases, suite.failed);
        }
}

/* A table with one slot of its own gets all others from its base, and no slot stays empty. */
static void check_resolve(void)
{
    const struct leaf_table *base = NULL;
    for (int i = 0; cpu_leaves[i]; i++)
        base = cpu_leaves[i];
    struct leaf_table best = cpu_leaf_resolve(cpu_leaves[0]);
    struct leaf_table sparse = {.name = "sparse", .base = base, .absmax = best.absmax};
    struct leaf_table full = cpu_leaf_resolve(&sparse);
    int failed = full.absmax != best.absmax || full.softmax != base->softmax || full.dot_i8 != base->dot_i8 ||
                 full.to_i4 != base->to_i4 || full.fp8_dot != base->fp8_dot || strcmp(full.name, "sparse") != 0;
    for (int type = 0; type < LEAF_TYPES; type++)
        failed +=
            full.qk[type] != base->qk[type] || full.sv[type] != base->sv[type] || !full.qk[type] || !full.sv[type];
    count("resolve", LEAF_TYPES + 1, failed);
}

static int usage(void)
{
    puts("usage: leaf_check [--quick] [--leaf NAME] [--expect FEATURES]");
    return 2;
}

int main(int argc, char **argv)
{
    const char *only = NULL, *expected = NULL;
    bool quick = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick"))
            quick = true;
        else if (!strcmp(argv[i], "--leaf") && i + 1 < argc)
            only = argv[++i];
        else if (!strcmp(argv[i], "--expect") && i + 1 < argc)
            expected = argv[++i];
        else
            return usage();
    }
    struct cpu_machine machine;
    char features[256], missing[256];
    cpu_detect(&machine);
    printf("features: %s\n", cpu_feature_names(machine.features, features, sizeof features));
    if (expected && strcmp(expected, features[0] ? features : "none") != 0) {
        printf("expected: %s\n", expected);
        return 1;
    }
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    for (int i = 0; cpu_leaves[i]; i++) {
        uint64_t lacking = cpu_leaves[i]->needs & ~machine.features;
        if (!lacking && cpu_leaves[i]->needs & CPU_AMX_TILE && !cpu_ask_for_tiles())
            printf("%s: skipped, no permission\n", cpu_leaves[i]->name);
        else if (lacking)
            printf("%s: skipped, no %s\n", cpu_leaves[i]->name, cpu_feature_names(lacking, missing, sizeof missing));
        else
            check_table(cpu_leaves[i]->name, cpu_leaves[i], only, quick);
    }
#ifdef __x86_64__
    for (size_t i = 0; !expected && i < sizeof emulated / sizeof *emulated; i++) {
        char title[48];
        snprintf(title, sizeof title, "%s (emulated)", emulated[i]->name);
        check_table(title, emulated[i], only, quick);
    }
#endif
    if (!only)
        check_resolve();
    printf("%d passed, %d failed\n", total.passed, total.failed);
    return total.failed || !total.passed;
}
