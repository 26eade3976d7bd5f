#include "calibration.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t count_of(const calibration *c)
{
    return (size_t)(c->layers * c->kv_heads * c->head_dim);
}

bool calibration_create(calibration *c, const config *cfg, error *err)
{
    *c = (calibration){.layers = cfg->layers, .kv_heads = cfg->kv_heads, .head_dim = cfg->head_dim};
    c->k = calloc(count_of(c), sizeof *c->k);
    c->v = calloc(count_of(c), sizeof *c->v);
    if (c->k == NULL || c->v == NULL) {
        calibration_destroy(c);
        return fail(err, "calibration: no memory");
    }
    return true;
}

void calibration_destroy(calibration *c)
{
    free(c->k);
    free(c->v);
    *c = (calibration){0};
}

static void raise_to(float *largest, const float *values, int64_t rows, int64_t width)
{
    for (int64_t row = 0; row < rows; row++, values += width) {
        for (int64_t i = 0; i < width; i++) {
            largest[i] = fmaxf(largest[i], fabsf(values[i]));
        }
    }
}

void calibration_observe(calibration *c, int64_t layer, const float *k, const float *v, int64_t rows)
{
    const int64_t width = c->kv_heads * c->head_dim;
    raise_to(c->k + layer * width, k, rows, width);
    raise_to(c->v + layer * width, v, rows, width);
}

static bool write_file(const calibration *c, FILE *file)
{
    char header[512];
    const size_t bytes = count_of(c) * sizeof *c->k;
    const long long shape[3] = {(long long)c->layers, (long long)c->kv_heads, (long long)c->head_dim};
    int length = snprintf(header, sizeof header,
                          "{\"k_absmax\":{\"dtype\":\"F32\",\"shape\":[%lld,%lld,%lld],\"data_offsets\":[0,%zu]},"
                          "\"v_absmax\":{\"dtype\":\"F32\",\"shape\":[%lld,%lld,%lld],\"data_offsets\":[%zu,%zu]}}",
                          shape[0], shape[1], shape[2], bytes, shape[0], shape[1], shape[2], bytes, 2 * bytes);
    while (length % 8 != 0) {
        header[length++] = ' ';
    }
    const uint64_t prefix = (uint64_t)length;
    return fwrite(&prefix, sizeof prefix, 1, file) == 1 && fwrite(header, (size_t)length, 1, file) == 1 &&
           fwrite(c->k, bytes, 1, file) == 1 && fwrite(c->v, bytes, 1, file) == 1;
}

bool calibration_write(const calibration *c, const char *path, error *err)
{
    char partial[4096]; /* written whole under another name first */
    if (snprintf(partial, sizeof partial, "%s.part", path) >= (int)sizeof partial) {
        return fail(err, "calibration: the path is too long");
    }
    FILE *file = fopen(partial, "wb");
    if (file == NULL) {
        return fail(err, "%.400s: cannot write the calibration", path);
    }
    bool ok = write_file(c, file);
    ok = fclose(file) == 0 && ok;
    if (!ok || rename(partial, path) != 0) {
        remove(partial);
        return fail(err, "%.400s: cannot write the calibration", path);
    }
    return true;
}

static bool copy_absmax(const safetensors *file, const char *name, const calibration *c, float *out, error *err)
{
    const int64_t dim[3] = {c->layers, c->kv_heads, c->head_dim};
    const st_tensor *tensor = st_require(file, name, ST_F32, 3, dim, err);
    if (tensor == NULL) {
        return false;
    }
    memcpy(out, tensor->data, tensor->bytes);
    for (size_t i = 0; i < count_of(c); i++) {
        if (!(out[i] >= 0 && isfinite(out[i]))) {
            return fail(err, "%s: number %zu is negative or not finite", name, i);
        }
    }
    return true;
}

bool calibration_read(calibration *c, const config *cfg, const char *path, error *err)
{
    safetensors file;
    error why;
    if (!st_open(&file, path, &why)) {
        return fail(err, "%.160s: %.160s; a cache with fixed scales wants a calibration: run --calibrate TEXT first",
                    path, why.text);
    }
    bool ok = calibration_create(c, cfg, &why) && copy_absmax(&file, "k_absmax", c, c->k, &why) &&
              copy_absmax(&file, "v_absmax", c, c->v, &why);
    st_close(&file);
    if (!ok) {
        calibration_destroy(c);
        return fail(err, "%.160s: %.340s", path, why.text);
    }
    return true;
}
