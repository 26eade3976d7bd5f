/* Plain C: runs everywhere and fills what the other tables leave empty. */
#include "vec_scalar.h"

#include "body.inc"

extern const struct leaf_table leaf_scalar;
const struct leaf_table leaf_scalar = {
    .name = "scalar", .direct_rows = SAME_FOR_ALL_TYPES(8), .row_step = SV_ROWS, ALL_SLOTS};
