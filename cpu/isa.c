/* What this CPU can do. cpuinfo gives its name and caches; the features come from CPUID and XCR0, or from the kernel
 * (AArch64): this cpuinfo knows half of them, and none where /proc is missing. */
#define _GNU_SOURCE
#include "isa.h"

#include <cpuinfo.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

extern const struct leaf_table leaf_scalar, leaf_avx2, leaf_avx512, leaf_avx512vnni, leaf_avx512vnni_2,
    leaf_avx512vnni_1, leaf_amx, leaf_neon, leaf_neon_dotprod, leaf_neon_i8mm;
/* clang-format off */
const struct leaf_table *const cpu_leaves[] = {
#if defined(__x86_64__)
    &leaf_amx,
    &leaf_avx512vnni_1, /* approximate: used where they are let in */
    &leaf_avx512vnni_2, /* likewise */
    &leaf_avx512vnni,
    &leaf_avx512,
    &leaf_avx2,
#elif defined(__aarch64__)
    &leaf_neon_i8mm,
    &leaf_neon_dotprod,
    &leaf_neon,
#endif
    &leaf_scalar,
    NULL,
};
/* clang-format on */

static const struct {
    const char *name;
    uint64_t feature;
} names[] = {
    {"avx2", CPU_AVX2},
    {"fma", CPU_FMA},
    {"f16c", CPU_F16C},
    {"avx512f", CPU_AVX512F},
    {"avx512bw", CPU_AVX512BW},
    {"avx512dq", CPU_AVX512DQ},
    {"avx512vl", CPU_AVX512VL},
    {"avx512vbmi", CPU_AVX512VBMI},
    {"avx512vnni", CPU_AVX512VNNI},
    {"avx512bf16", CPU_AVX512BF16},
    {"avx512fp16", CPU_AVX512FP16},
    {"avxvnni", CPU_AVXVNNI},
    {"amx_tile", CPU_AMX_TILE},
    {"amx_int8", CPU_AMX_INT8},
    {"amx_bf16", CPU_AMX_BF16},
    {"neon", CPU_NEON},
    {"dotprod", CPU_DOTPROD},
    {"i8mm", CPU_I8MM},
};

#if defined(__x86_64__)
enum { EAX, EBX, ECX, EDX };
enum { YMM = 0x6, ZMM = 0xe6, TILES = 0x60000 }; /* the bits of XCR0 with which the system saves these registers */

static const struct {
    uint64_t feature;
    unsigned leaf, subleaf, reg, bit;
    uint64_t state;
} cpuid_bits[] = {
    {CPU_AVX2, 7, 0, EBX, 5, YMM},        {CPU_FMA, 1, 0, ECX, 12, YMM},        {CPU_F16C, 1, 0, ECX, 29, YMM},
    {CPU_AVX512F, 7, 0, EBX, 16, ZMM},    {CPU_AVX512BW, 7, 0, EBX, 30, ZMM},   {CPU_AVX512DQ, 7, 0, EBX, 17, ZMM},
    {CPU_AVX512VL, 7, 0, EBX, 31, ZMM},   {CPU_AVX512VBMI, 7, 0, ECX, 1, ZMM},  {CPU_AVX512VNNI, 7, 0, ECX, 11, ZMM},
    {CPU_AVX512BF16, 7, 1, EAX, 5, ZMM},  {CPU_AVX512FP16, 7, 0, EDX, 23, ZMM}, {CPU_AVXVNNI, 7, 1, EAX, 4, YMM},
    {CPU_AMX_TILE, 7, 0, EDX, 24, TILES}, {CPU_AMX_INT8, 7, 0, EDX, 25, TILES}, {CPU_AMX_BF16, 7, 0, EDX, 22, TILES},
};

static bool cpuid_has(unsigned leaf, unsigned subleaf, unsigned reg, unsigned bit)
{
    unsigned regs[4];
    return __get_cpuid_count(leaf, subleaf, &regs[EAX], &regs[EBX], &regs[ECX], &regs[EDX]) && (regs[reg] >> bit & 1);
}

/* The register state the system saves. Linux gives tiles only to a process that asks, and says whether it would. */
static uint64_t saved_state(void)
{
    enum { OSXSAVE = 27, ARCH_GET_XCOMP_SUPPORT = 0x1021 };
    if (!cpuid_has(1, 0, ECX, OSXSAVE))
        return 0;
    uint32_t low, high;
    uint64_t grantable = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if (syscall(SYS_arch_prctl, ARCH_GET_XCOMP_SUPPORT, &grantable) != 0)
        grantable = 0;
    return low & (~(uint64_t)TILES | grantable);
}

static uint64_t detect_features(void)
{
    uint64_t features = 0, state = saved_state();
    for (size_t i = 0; i < sizeof cpuid_bits / sizeof *cpuid_bits; i++)
        if ((state & cpuid_bits[i].state) == cpuid_bits[i].state &&
            cpuid_has(cpuid_bits[i].leaf, cpuid_bits[i].subleaf, cpuid_bits[i].reg, cpuid_bits[i].bit))
            features |= cpuid_bits[i].feature;
    return features;
}

#elif defined(__aarch64__)
static uint64_t detect_features(void)
{
    enum { ASIMDDP = 1 << 20, I8MM = 1 << 13 }; /* of AT_HWCAP and AT_HWCAP2 */
    uint64_t features = CPU_NEON;
    if (getauxval(AT_HWCAP) & ASIMDDP)
        features |= CPU_DOTPROD;
    if (getauxval(AT_HWCAP2) & I8MM)
        features |= CPU_I8MM;
    return features;
}

#else
static uint64_t detect_features(void)
{
    return 0;
}
#endif

static int64_t cpuinfo_cache_size(int level)
{
    const struct cpuinfo_cache *cache = NULL;
    if (level == 1 && cpuinfo_get_l1d_caches_count() > 0)
        cache = cpuinfo_get_l1d_cache(0);
    if (level == 2 && cpuinfo_get_l2_caches_count() > 0)
        cache = cpuinfo_get_l2_cache(0);
    if (level == 3 && cpuinfo_get_l3_caches_count() > 0)
        cache = cpuinfo_get_l3_cache(0);
    return cache ? cache->size : 0;
}

/* The first word of a file about cache `index` of the first core; empty when there is none. */
static void cache_word(int index, const char *what, char word[32])
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, what);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%31s", word) != 1)
        word[0] = '\0';
    if (file)
        fclose(file);
}

static int64_t sysfs_cache_size(int level)
{
    char found[32], type[32], size[32];
    for (int index = 0; index < 10; index++) {
        cache_word(index, "level", found);
        cache_word(index, "type", type);
        cache_word(index, "size", size);
        int here = 0, kilobytes = 0;
        if (sscanf(found, "%d", &here) == 1 && here == level && strcmp(type, "Instruction") != 0 &&
            sscanf(size, "%dK", &kilobytes) == 1)
            return (int64_t)kilobytes * 1024;
    }
    return 0;
}

static int64_t cache_size(int level, bool known)
{
    static const int levels[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
    int64_t size = sysfs_cache_size(level); /* before cpuinfo, which guesses on AArch64 and knows no L2 there */
    if (size <= 0 && known)
        size = cpuinfo_cache_size(level);
    if (size <= 0)
        size = sysconf(levels[level - 1]);
    return size > 0 ? size : 0;
}

static int count_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* more processors than a cpu_set_t holds */
    return online > 0 ? (int)online : 1;
}

void cpu_detect(struct cpu_machine *machine)
{
    /* cpuinfo prints an error of its own where there is no /proc. */
    bool known = access("/proc/cpuinfo", R_OK) == 0 && cpuinfo_initialize();
    memset(machine, 0, sizeof *machine);
    machine->features = detect_features();
    for (int level = 1; level <= 3; level++)
        machine->cache[level - 1] = cache_size(level, known);
    machine->cores = count_cores();
    const char *name = known && cpuinfo_get_packages_count() > 0 ? cpuinfo_get_package(0)->name : "";
    snprintf(machine->name, sizeof machine->name, "%s", name[0] ? name : "unknown");
}

bool cpu_ask_for_tiles(void)
{
#if defined(__x86_64__)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
#else
    return false;
#endif
}

char *cpu_feature_names(uint64_t features, char *text, size_t size)
{
    size_t used = 0;
    if (size > 0)
        text[0] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!(features & names[i].feature) || used >= size)
            continue;
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? " " : "", names[i].name);
    }
    return text;
}

struct leaf_table cpu_leaf_resolve(const struct leaf_table *table)
{
    typedef void slot(void);
    const size_t first = offsetof(struct leaf_table, LEAF_FIRST_SLOT);
    const size_t end = offsetof(struct leaf_table, LEAF_LAST_SLOT) + sizeof(slot *);
    struct leaf_table full = *table;
    for (const struct leaf_table *base = table->base; base; base = base->base) {
        for (size_t at = first; at < end; at += sizeof(slot *)) {
            slot *filled;
            memcpy(&filled, (const char *)&full + at, sizeof filled);
            if (!filled)
                memcpy((char *)&full + at, (const char *)base + at, sizeof filled);
        }
    }
    return full;
}
