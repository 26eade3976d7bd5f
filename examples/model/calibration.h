/* calibration.h - how large keys and values get, so that a cache can have fixed scales. */
#ifndef CALIBRATION_H
#define CALIBRATION_H

#include "config.h"

/* The largest magnitudes seen, [layers, kv_heads, head_dim]; the rotary embedding is already in the keys. */
typedef struct calibration {
    int64_t layers, kv_heads, head_dim;
    float *k, *v;
} calibration;

/* All zero. */
bool calibration_create(calibration *c, const config *cfg, error *err);
void calibration_destroy(calibration *c);

/* Take in some rows of keys and values, [rows, kv_heads, head_dim], of one layer. */
void calibration_observe(calibration *c, int64_t layer, const float *k, const float *v, int64_t rows);

/* A safetensors file of two tensors, k_absmax and v_absmax. */
bool calibration_write(const calibration *c, const char *path, error *err);
bool calibration_read(calibration *c, const config *cfg, const char *path, error *err);

#endif
