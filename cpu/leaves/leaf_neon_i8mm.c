/* NEON with matrix products of bytes: AArch64 servers from 2020 on. INT8 and INT4 by limbs with half as many products as
 * dots take, and so for any number of rows; all else as NEON with dot products. */
#include "vec_neon_dotprod.h"

#include <limits.h>

/* Two columns by eight terms a vector: dwords of a step and of the next one by turns. */
INLINE void finish_panel(int8_t *panel, int terms)
{
    for (int i = 0; i < terms; i += 8, panel += 2 * STEP)
        UNROLL
    for (int v = 0; v < PANEL; v += VW) {
        int32_t *first = (int32_t *)(void *)(panel + 4 * v), *second = first + STEP / 4;
        int32x4x2_t pairs = vzipq_s32(vld1q_s32(first), vld1q_s32(second));
        vst1q_s32(first, pairs.val[0]);
        vst1q_s32(second, pairs.val[1]);
    }
}

/* acc[2 * v + w][h]: limbs 2 * h and 2 * h + 1 of columns 4 * v + 2 * w and 4 * v + 2 * w + 1. */
INLINE void limb_sums(const struct limb_row *row, const int8_t *panel, int terms, vi dot[PANEL / VW][EXACT_LIMBS])
{
    vi acc[PANEL / 2][2];
    UNROLL
    for (int i = 0; i < PANEL; i++)
        acc[i / 2][i % 2] = v_no_sums();
    for (int i = 0; i < terms; i += 8, panel += 2 * STEP) {
        int8x16_t first = vld1q_s8(row->bytes + EXACT_LIMBS * i), second = vld1q_s8(row->bytes + EXACT_LIMBS * (i + 4));
        int32x4x2_t limbs = vzipq_s32(vreinterpretq_s32_s8(first), vreinterpretq_s32_s8(second));
        UNROLL
        for (int p = 0; p < PANEL / 2; p++) {
            int8x16_t columns = vld1q_s8(panel + p % 2 * STEP + p / 2 * 16);
            acc[p][0] = vmmlaq_s32(acc[p][0], columns, vreinterpretq_s8_s32(limbs.val[0]));
            acc[p][1] = vmmlaq_s32(acc[p][1], columns, vreinterpretq_s8_s32(limbs.val[1]));
        }
    }
    UNROLL
    for (int v = 0; v < PANEL / VW; v++)
        UNROLL
    for (int h = 0; h < 2; h++) {
        dot[v][2 * h] = vuzp1q_s32(acc[2 * v][h], acc[2 * v + 1][h]);
        dot[v][2 * h + 1] = vuzp2q_s32(acc[2 * v][h], acc[2 * v + 1][h]);
    }
}

#include "body_limbs_neon.inc"

extern const struct leaf_table leaf_neon_dotprod, leaf_neon_i8mm;
const struct leaf_table leaf_neon_i8mm = {
    .name = "neon_i8mm",
    .needs = CPU_I8MM | CPU_DOTPROD | CPU_NEON,
    .base = &leaf_neon_dotprod,
    .direct_rows = {[LEAF_F32] = 16,
                    [LEAF_F16] = 16,
                    [LEAF_BF16] = 16,
                    [LEAF_I8] = INT_MAX,
                    [LEAF_I4] = INT_MAX,
                    [LEAF_F8E4M3] = 16},
    .row_step = SV_ROWS,
    LIMB_SLOTS,
};
