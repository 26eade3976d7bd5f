/* cpu/isa.c as on a machine that has AVX-512 and AMX: the leaf rows are those in portable C, under their own names. A suite that
 * is linked with this runs every op on them. */
#define cpu_leaves rows_of_this_machine
#define cpu_detect detect_this_machine
#define cpu_ask_for_tiles ask_this_machine
#include "cpu/isa.c"
#undef cpu_leaves
#undef cpu_detect
#undef cpu_ask_for_tiles

extern const struct leaf_table leaf_avx512_emulated, leaf_avx512vnni_emulated, leaf_avx512vnni_2_emulated,
    leaf_avx512vnni_1_emulated, leaf_amx_emulated;
extern const struct leaf_table *const cpu_leaves[];
const struct leaf_table *const cpu_leaves[] = {
    &leaf_amx_emulated,
    &leaf_avx512vnni_1_emulated,
    &leaf_avx512vnni_2_emulated,
    &leaf_avx512vnni_emulated,
    &leaf_avx512_emulated,
    &leaf_scalar,
    NULL,
};

void cpu_detect(struct cpu_machine *machine);
void cpu_detect(struct cpu_machine *machine)
{
    detect_this_machine(machine);
    for (int i = 0; cpu_leaves[i]; i++)
        machine->features |= cpu_leaves[i]->needs;
}

bool cpu_ask_for_tiles(void);
bool cpu_ask_for_tiles(void)
{
    return true;
}
