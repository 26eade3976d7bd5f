/* AMX, with AVX-512 VBMI and VNNI: x86-64 servers from 2023 on. Tiles where there are rows enough, the base's leaves elsewhere. */
#include "vec_avx512.h"

extern const struct leaf_table leaf_avx512, leaf_avx512vnni, leaf_amx;

#define TYPED(name) CAT(name##_, TYPE)
#define LEAF_f16 LEAF_F16
#define LEAF_bf16 LEAF_BF16
#define LEAF_f8e4m3 LEAF_F8E4M3

#include "tiles_fp8.h"
#include "tiles_limbs.h"

#define TYPE f16
#define LIMBS_OF_TYPE 2
#define TYPE_BITS 16
#include "body_tiles.inc"
#define TYPE bf16
#define LIMBS_OF_TYPE 1
#define TYPE_BITS 16
#include "body_tiles.inc"

const struct leaf_table leaf_amx = {
    .name = "amx",
    .needs = CPU_AMX_TILE | CPU_AMX_INT8 | CPU_AMX_BF16 | CPU_AVX512VNNI | CPU_AVX512VBMI | CPU_AVX512F | CPU_AVX512BW |
             CPU_AVX512DQ | CPU_AVX512VL | CPU_AVX2 | CPU_FMA | CPU_F16C,
    .base = &leaf_avx512vnni,
    .direct_rows = {16, 16, 16, [LEAF_I8] = 4, [LEAF_I4] = 4, [LEAF_F8E4M3] = 16},
    .row_step = 12,
    .fp8_rows = 2,
    .qk_many = {[LEAF_I8] = qk_tiles_i8,
                [LEAF_I4] = qk_tiles_i4,
                [LEAF_F16] = qk_tiles_f16,
                [LEAF_BF16] = qk_tiles_bf16,
                [LEAF_F8E4M3] = qk_tiles_f8e4m3},
    .sv_many =
        {[LEAF_I8] = sv_tiles_i8, [LEAF_I4] = sv_tiles_i4, [LEAF_F16] = sv_tiles_f16, [LEAF_BF16] = sv_tiles_bf16},
    .fp8_many = fp8_tiles,
    .enter = tiles_enter,
    .leave = tiles_leave,
};
