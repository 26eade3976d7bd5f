/* AVX-512 F, BW, DQ and VL: x86-64 servers from 2017 on. */
#include "vec_avx512.h"

#include "body.inc"

extern const struct leaf_table leaf_avx2, leaf_avx512;
const struct leaf_table leaf_avx512 = {
    .name = "avx512",
    .needs = CPU_AVX512F | CPU_AVX512BW | CPU_AVX512DQ | CPU_AVX512VL | CPU_AVX2 | CPU_FMA | CPU_F16C,
    .base = &leaf_avx2,
    .direct_rows = SAME_FOR_ALL_TYPES(16),
    .row_step = SV_ROWS,
    ALL_SLOTS,
};
