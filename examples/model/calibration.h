/* calibration.h - what keys and values of a text look like, so that a cache can have fixed scales and an offset. */
#ifndef CALIBRATION_H
#define CALIBRATION_H

#include "config.h"

/* What there is of each layer, [kv_heads, head_dim] each. Magnitudes are the largest of each channel as the cache
 * stores it, so they come in variants. Keys are those after the rotary embedding. */
typedef enum calibration_part {
    K_OFFSET,                /* the mean key */
    K_ABSMAX,                /* + ROTATED + SHIFTED */
    V_ABSMAX = K_ABSMAX + 4, /* + ROTATED */
    CALIBRATION_PARTS = V_ABSMAX + 2
} calibration_part;

/* Variants: K_ABSMAX + ROTATED + SHIFTED is that of keys with the offset subtracted, then rotated. */
enum { ROTATED = 1, SHIFTED = 2 };

typedef struct calibration {
    int64_t layers, kv_heads, head_dim;
    float *data; /* [parts, layers, kv_heads, head_dim] */
} calibration;

/* All zero. */
bool calibration_create(calibration *c, const config *cfg, error *err);
void calibration_destroy(calibration *c);

/* One part of one layer. */
float *calibration_get(const calibration *c, int part, int64_t layer);

/* Take in one layer's f32 cache, [kv_heads, capacity, head_dim], of which `rows` are in use. */
void calibration_observe(calibration *c, int64_t layer, const float *k, const float *v, int64_t capacity, int64_t rows);

/* A safetensors file of one tensor for each part and variant: k_offset, k_absmax, k_absmax+rotate, ... */
bool calibration_write(const calibration *c, const char *path, error *err);
bool calibration_read(calibration *c, const config *cfg, const char *path, error *err);

#endif
