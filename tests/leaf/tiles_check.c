/* The tile registers must be asked for. Without permission, or where nobody wants them, the AMX row says why it is out and
 * the others go on. Detection and the question are wrapped by the linker: no machine at hand need have tiles. */
#define _GNU_SOURCE
#include "cpu/isa.h"
#include "tandem.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

void __real_cpu_detect(struct cpu_machine *machine);
void __wrap_cpu_detect(struct cpu_machine *machine);
bool __real_cpu_ask_for_tiles(void);
bool __wrap_cpu_ask_for_tiles(void);

static uint64_t features;
static bool granted;
static int asked, failed;

void __wrap_cpu_detect(struct cpu_machine *machine)
{
    __real_cpu_detect(machine);
    machine->features = features;
}

bool __wrap_cpu_ask_for_tiles(void)
{
    asked++;
    return granted;
}

static void expect(bool ok, const char *what)
{
    printf("%s: %s\n", what, ok ? "ok" : "FAILED");
    failed += !ok;
}

static bool find_row(tdm_ctx *ctx, const char *name, tdm_kernel *row)
{
    tdm_device cpu = {TDM_CPU, 0};
    for (int i = 0;; i++) {
        *row = TDM_INIT(tdm_kernel);
        if (tdm_kernel_get(ctx, cpu, i, row))
            return false;
        if (row->is_leaf && !strcmp(row->name, name))
            return true;
    }
}

struct expected {
    bool usable, others;
    int asked;
    const char *reason;
};

/* The row in a context of such a machine; `others`: whether the row below is usable. */
static void check(const char *what, uint64_t has, bool grant, const char *variable, struct expected want)
{
    const char *const environment[] = {variable, NULL};
    tdm_options options = TDM_INIT(tdm_options);
    options.env = environment;
    options.threads = 1;
    features = has, granted = grant, asked = 0;
    tdm_ctx *ctx;
    tdm_kernel amx, below;
    if (tdm_open(TDM_VERSION, &options, &ctx)) {
        expect(false, what);
        return;
    }
    bool found = find_row(ctx, "amx", &amx) && find_row(ctx, "avx512", &below);
    expect(found && amx.usable == want.usable && below.usable == want.others && asked == want.asked &&
               strstr(amx.reason, want.reason),
           what);
    if (found)
        printf("  amx: %s\n", amx.usable ? "usable" : amx.reason);
    tdm_close(ctx);
}

/* From now on the kernel refuses every arch_prctl. */
static bool forbid(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int main(void)
{
    const uint64_t all = ~(uint64_t)0, no_tiles = ~(uint64_t)(CPU_AMX_TILE | CPU_AMX_INT8 | CPU_AMX_BF16);
    check("granted", all, true, NULL, (struct expected){true, true, 1, ""});
    check("refused", all, false, NULL, (struct expected){false, true, 1, "the system does not let this process use"});
    check("no tiles", no_tiles, true, NULL, (struct expected){false, true, 0, "no amx_tile amx_int8 amx_bf16"});
    check("left out", all, true, "TANDEM_SKIP=amx", (struct expected){false, true, 0, "TANDEM_SKIP"});
    check("nothing", 0, true, NULL, (struct expected){false, false, 0, "this machine has no"});

    struct cpu_machine machine;
    __real_cpu_detect(&machine);
    bool has_tiles = machine.features & CPU_AMX_TILE;
    expect(__real_cpu_ask_for_tiles() == has_tiles, has_tiles ? "the system grants tiles" : "the system has none");
    if (forbid())
        expect(!__real_cpu_ask_for_tiles(), "a refusal by the system");
    return failed != 0;
}
