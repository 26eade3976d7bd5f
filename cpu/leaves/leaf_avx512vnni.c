/* AVX-512 with VBMI and VNNI: x86-64 servers from 2019 on. INT8 and INT4 by exact 8-bit limbs, all else as AVX-512. */
#include "vec_avx512vnni.h"

#include "body_int_dot.inc"

#define LIMBS EXACT_LIMBS
#include "body_limbs.inc"

extern const struct leaf_table leaf_avx512vnni;
const struct leaf_table leaf_avx512vnni = {
    .name = "avx512vnni",
    LIMB_SLOTS,
    .direct_rows = SAME_FOR_ALL_TYPES(16), /* more rows: four limbs take as long as f32 does once it is widened */
    .dot_i8 = int_dot,
};
