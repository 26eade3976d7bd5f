/* avx512vnni by one limb: approximate. */
#include "vec_avx512vnni.h"

#define LIMBS 1
#include "body_limbs.inc"

extern const struct leaf_table leaf_avx512vnni_1;
const struct leaf_table leaf_avx512vnni_1 = {
    .name = "avx512vnni_1",
    LIMB_SLOTS,
    .direct_rows = FEW_LIMBS_DIRECT_ROWS,
    .approximate = true,
};
