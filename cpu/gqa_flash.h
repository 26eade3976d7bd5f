/* Flash attention by either kind of scores: f32 (flash) or integer dots (int8_decode). */
#ifndef CPU_GQA_FLASH_H
#define CPU_GQA_FLASH_H

#include "cpu.h"

size_t gqa_flash_workspace(const struct tdm_op *op);
tdm_status gqa_flash_run(const struct tdm_op *op, const struct run *run, bool integer);

#endif
