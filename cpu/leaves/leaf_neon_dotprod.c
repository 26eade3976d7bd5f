/* NEON with dot products of bytes: AArch64 from 2018 on. INT8 and INT4 by limbs, all else as NEON. */
#include "vec_neon_dotprod.h"

#include "body_int_dot.inc"

INLINE void finish_panel(int8_t *panel, int terms)
{
    (void)panel, (void)terms;
}

/* dot[l] += the columns of a vector of the panel times limb l, over four terms. */
INLINE void add_four_terms(vi *dot, int8x16_t columns, int8x16_t limbs)
{
    dot[0] = vdotq_laneq_s32(dot[0], columns, limbs, 0);
    dot[1] = vdotq_laneq_s32(dot[1], columns, limbs, 1);
    dot[2] = vdotq_laneq_s32(dot[2], columns, limbs, 2);
    dot[3] = vdotq_laneq_s32(dot[3], columns, limbs, 3);
}

INLINE void limb_sums(const struct limb_row *row, const int8_t *panel, int terms, vi dot[PANEL / VW][EXACT_LIMBS])
{
    UNROLL
    for (int i = 0; i < PANEL / VW * EXACT_LIMBS; i++)
        dot[i / EXACT_LIMBS][i % EXACT_LIMBS] = v_no_sums();
    for (int i = 0; i < terms; i += 4, panel += STEP) {
        int8x16_t limbs = vld1q_s8(row->bytes + EXACT_LIMBS * i);
        UNROLL
        for (int v = 0; v < PANEL / VW; v++)
            add_four_terms(dot[v], vld1q_s8(panel + 16 * v), limbs);
    }
}

#include "body_limbs_neon.inc"

extern const struct leaf_table leaf_neon_dotprod;
const struct leaf_table leaf_neon_dotprod = {
    .name = "neon_dotprod",
    .needs = CPU_DOTPROD | CPU_NEON,
    .base = &leaf_neon,
    .direct_rows = SAME_FOR_ALL_TYPES(16), /* more rows: four limbs take as long as f32 does once it is widened */
    .row_step = SV_ROWS,
    LIMB_SLOTS,
    .dot_i8 = int_dot,
};
