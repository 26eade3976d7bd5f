/* The rows of fp8_matmul, in the order in which they are tried. */
#include "fp8_matmul.h"

bool fp8_calls_blas(const struct tdm_op *op)
{
    (void)op;
    return false;
}
