/* weights.h - the model's matrices and norms, where they lie in the file. */
#ifndef WEIGHTS_H
#define WEIGHTS_H

#include "config.h"

/* A block-scaled FP8 matrix, as fp8_matmul takes it. */
typedef struct matrix {
    int64_t rows, columns;
    const uint8_t *codes; /* [rows, columns] E4M3 */
    const void *scales;   /* [ceil(rows / block), ceil(columns / block)] */
    tdm_dtype scale_dtype;
    int64_t block[2];
} matrix;

typedef struct layer_weights {
    const float *attention_norm, *ffn_norm;
    matrix q, k, v, o, gate, up, down;
} layer_weights;

typedef struct weights {
    matrix embedding, head;
    const float *final_norm;
    layer_weights *layers;
} weights;

/* Find all weights in the file; they stay there. Refuses NaN codes and scales that are not finite. */
bool weights_open(weights *w, const config *cfg, const safetensors *file, error *err);
void weights_close(weights *w);

size_t matrix_scale_bytes(const matrix *m);

/* One row of a matrix as f32: the embedding of a token. */
void matrix_row(const matrix *m, int64_t row, float *out);

#endif
