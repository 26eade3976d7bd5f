/* products.h - the matrix products of a model: one fp8_matmul for all matrices of the same shape and scales. */
#ifndef PRODUCTS_H
#define PRODUCTS_H

#include "device.h"
#include "weights.h"

enum { MAX_PRODUCTS = 16 };

typedef struct products {
    device *at;
    tdm_dtype activations;
    int64_t max_rows;
    int count;
    matrix like[MAX_PRODUCTS]; /* whose data is not used */
    tdm_op *ops[MAX_PRODUCTS];
    tdm_workspace *workspaces[MAX_PRODUCTS];
} products;

/* at        where they run, and where the weights are
 * max_rows  the most rows of one run */
bool products_create(products *p, device *at, const config *cfg, const weights *w, tdm_dtype activations,
                     int64_t max_rows, error *err);
void products_destroy(products *p);

/* out[rows, m->rows] = in[rows, m->columns] * m^T, both in the type of activations and on the device. */
bool products_run(const products *p, const matrix *m, const void *in, int64_t rows, void *out, error *err);

#endif
