/* NEON: AArch64 from its first processors on. */
#include "vec_neon.h"

#include "body.inc"

extern const struct leaf_table leaf_scalar, leaf_neon;
const struct leaf_table leaf_neon = {
    .name = "neon",
    .needs = CPU_NEON,
    .base = &leaf_scalar,
    .direct_rows = SAME_FOR_ALL_TYPES(16),
    .row_step = SV_ROWS,
    ALL_SLOTS,
};
