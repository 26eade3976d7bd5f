/* A product on the device under test, with pinned memory of its input and output. */
#ifndef TESTS_DEVICE_PRODUCT_H
#define TESTS_DEVICE_PRODUCT_H

#include "device_world.h"

enum { COLUMNS = 24, CHANNELS = 64, FEW = 2, MANY = 20 /* rows: of a GEMV, and of cuBLAS */ };

struct product {
    int rows;
    tdm_op *op;
    tdm_workspace *workspace;
    float *a, *scale, *out, *in, *result;
    void *b;
    tdm_fp8_matmul_args args;
};

void product_new(struct product *p, tdm_ctx *ctx, void *stream, int rows);
void product_free(struct product *p, tdm_ctx *ctx);

/* Enqueue a copy in, the product, and a copy out. */
void product_enqueue(struct product *p, tdm_ctx *ctx, void *stream);

/* Rows of equal numbers, x for the first, whose products are exact; and expect these. */
void product_set(struct product *p, float x);
void product_expect(const struct product *p, float x, const char *when);

#endif
