/* AVX2, FMA and F16C: x86-64 from 2013 on. */
#include "vec_avx2.h"

#include "body.inc"

extern const struct leaf_table leaf_scalar, leaf_avx2;
const struct leaf_table leaf_avx2 = {
    .name = "avx2",
    .needs = CPU_AVX2 | CPU_FMA | CPU_F16C,
    .base = &leaf_scalar,
    .direct_rows = SAME_FOR_ALL_TYPES(16),
    .row_step = SV_ROWS,
    ALL_SLOTS,
};
