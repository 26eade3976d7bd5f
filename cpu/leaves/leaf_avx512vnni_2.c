/* avx512vnni by two limbs: approximate. */
#include "vec_avx512vnni.h"

#define LIMBS 2
#include "body_limbs.inc"

extern const struct leaf_table leaf_avx512vnni_2;
const struct leaf_table leaf_avx512vnni_2 = {
    .name = "avx512vnni_2",
    LIMB_SLOTS,
    .direct_rows = FEW_LIMBS_DIRECT_ROWS,
    .approximate = true,
};
