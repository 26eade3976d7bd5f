/* What a warp's operation gives, when all lanes have brought their words. */
#ifndef TESTS_SHIM_WARP_H
#define TESTS_SHIM_WARP_H

#include "block.h"

namespace shim
{

/* The matrix product of mma.m16n8k16, operands as PTX lays them out over the lanes: in[0..4) of a, in[4..6) of b,
 * in[6..10) of the addend; out is the sum. */
void multiply(warp_words *const *lanes, bool is_bf16, bool coarse);

} // namespace shim
#endif
