/* The ops by number, for tests that go through all of them. */
#ifndef TESTS_REFERENCE_EACH_OP_H
#define TESTS_REFERENCE_EACH_OP_H

#include "tandem.h"

enum each_op { APPEND, SHIFT, GQA, MERGE, QK, SV, FP8, QUANTIZE, DEQUANTIZE, EACH_OPS };

/* As events and kernel rows name it. */
const char *each_op_name(enum each_op op);

/* desc and args are the op's own structs. */
tdm_status each_op_create(enum each_op op, tdm_ctx *ctx, tdm_device device, const void *desc, tdm_op **made);
tdm_status each_op_run(enum each_op op, const tdm_op *made, tdm_workspace *workspace, const void *args);

#endif
