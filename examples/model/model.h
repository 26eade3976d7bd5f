/* model.h - a Llama-architecture transformer over one sequence. */
#ifndef MODEL_H
#define MODEL_H

#include "checkpoint.h"
#include "ops.h"
#include "upload.h"

/* The most rows of logits that one call gives. */
enum { LOGIT_ROWS = 16 };

typedef struct model_settings {
    int32_t threads;           /* 0: one per core */
    int64_t chunk;             /* the most tokens of one forward pass */
    int64_t context;           /* the most tokens that the cache holds */
    tdm_dtype activations;     /* what ops take and give: f32, f16 or bf16 */
    tdm_device_kind device;    /* where the weights are and matrix products run */
    tdm_device_kind attention; /* where the cache is: the CPU, or the same */
    const cache_scheme *k, *v;
    const calibration *measured; /* for a calibrated cache, else NULL */
} model_settings;

typedef struct model {
    const checkpoint *from;
    int64_t chunk, context;
    tdm_ctx *ctx;
    device cpu, gpu; /* gpu is open only where something runs on it */
    weights weights; /* the checkpoint's, where matrix products run */
    size_t uploaded; /* bytes of them on the GPU */
    kv_cache cache;
    ops ops;
    /* Rows of one forward pass, [chunk, width]: */
    float *x;      /* the residual stream */
    float *normed; /* its norm, and what a block adds to it */
    float *gate, *up;
} model;

/* The checkpoint must outlive the model. */
bool model_create(model *m, const checkpoint *from, const model_settings *settings, error *err);
void model_destroy(model *m);

/* Run `count` tokens, 1..chunk, that follow `pos` earlier ones; the cache takes them in. */
bool model_forward(model *m, const int32_t *tokens, int64_t count, int64_t pos, error *err);

/* The logits of `count` rows, 1..LOGIT_ROWS, of the last forward pass from row `first` on: [count, vocab]. */
bool model_logits(model *m, int64_t first, int64_t count, float *logits, error *err);

#endif
