/* What this CPU can do, and the leaf tables in the order dispatch prefers them. */
#ifndef CPU_ISA_H
#define CPU_ISA_H

#include "leaf.h"

#include <stddef.h>

enum cpu_feature {
    CPU_AVX2 = 1 << 0,
    CPU_FMA = 1 << 1,
    CPU_F16C = 1 << 2,
    CPU_AVX512F = 1 << 3,
    CPU_AVX512BW = 1 << 4,
    CPU_AVX512DQ = 1 << 5,
    CPU_AVX512VL = 1 << 6,
    CPU_AVX512VBMI = 1 << 7,
    CPU_AVX512VNNI = 1 << 8,
    CPU_AVX512BF16 = 1 << 9,
    CPU_AVX512FP16 = 1 << 10,
    CPU_AVXVNNI = 1 << 11,
    CPU_AMX_TILE = 1 << 12,
    CPU_AMX_INT8 = 1 << 13,
    CPU_AMX_BF16 = 1 << 14,
    CPU_NEON = 1 << 15,
    CPU_DOTPROD = 1 << 16,
    CPU_I8MM = 1 << 17
};

struct cpu_machine {
    uint64_t features; /* what both the processor and the operating system allow */
    int64_t cache[3];  /* data bytes of L1, L2 (one core) and L3; 0 when unknown   */
    int cores;         /* cores this process may run on                           */
    char name[128];
};

void cpu_detect(struct cpu_machine *machine);

/* Ask the system to let this process use the tile registers, as it must once; asking again costs nothing. */
bool cpu_ask_for_tiles(void);

/* Names of the features in `features`, space-separated, into text; returns text. */
char *cpu_feature_names(uint64_t features, char *text, size_t size);

/* The leaf tables of this architecture, best first, ended by NULL; the last is scalar. */
extern const struct leaf_table *const cpu_leaves[];

/* A copy of `table` with every empty slot filled from its bases. */
struct leaf_table cpu_leaf_resolve(const struct leaf_table *table);

#endif
