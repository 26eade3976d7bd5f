#include "calibration.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers.h"

static const char *const names[CALIBRATION_PARTS] = {
    [K_OFFSET] = "k_offset",
    [K_ABSMAX] = "k_absmax",
    [K_ABSMAX + ROTATED] = "k_absmax+rotate",
    [K_ABSMAX + SHIFTED] = "k_absmax+offset",
    [K_ABSMAX + ROTATED + SHIFTED] = "k_absmax+rotate+offset",
    [V_ABSMAX] = "v_absmax",
    [V_ABSMAX + ROTATED] = "v_absmax+rotate",
};

static int64_t width_of(const calibration *c)
{
    return c->kv_heads * c->head_dim;
}

static size_t part_bytes(const calibration *c)
{
    return (size_t)(c->layers * width_of(c)) * sizeof *c->data;
}

bool calibration_create(calibration *c, const config *cfg, error *err)
{
    *c = (calibration){.layers = cfg->layers, .kv_heads = cfg->kv_heads, .head_dim = cfg->head_dim};
    c->data = calloc(CALIBRATION_PARTS, part_bytes(c));
    return c->data != NULL || fail(err, "calibration: no memory");
}

void calibration_destroy(calibration *c)
{
    free(c->data);
    *c = (calibration){0};
}

float *calibration_get(const calibration *c, int part, int64_t layer)
{
    return c->data + (part * c->layers + layer) * width_of(c);
}

/* ---- Measuring ---- */

static void find_mean(const float *rows, int64_t count, int64_t width, float *mean)
{
    for (int64_t i = 0; i < width; i++) {
        double sum = 0;
        for (int64_t row = 0; row < count; row++) {
            sum += rows[row * width + i];
        }
        mean[i] = (float)(sum / (double)count);
    }
}

/* Raise the largest magnitudes of channels to those of some rows, stored without an offset (NULL) or with one. */
static void raise_to(float *absmax, const float *rows, int64_t count, int64_t width, const float *offset, bool rotate)
{
    float stored[MAX_HEAD_DIM];
    for (int64_t row = 0; row < count; row++, rows += width) {
        for (int64_t i = 0; i < width; i++) {
            stored[i] = rows[i] - (offset != NULL ? offset[i] : 0);
        }
        if (rotate) {
            walsh_hadamard(stored, width);
        }
        for (int64_t i = 0; i < width; i++) {
            absmax[i] = fmaxf(absmax[i], fabsf(stored[i]));
        }
    }
}

void calibration_observe(calibration *c, int64_t layer, const float *k, const float *v, int64_t capacity, int64_t rows)
{
    const int64_t width = c->head_dim;
    for (int64_t head = 0; head < c->kv_heads; head++, k += capacity * width, v += capacity * width) {
        float *offset = calibration_get(c, K_OFFSET, layer) + head * width;
        find_mean(k, rows, width, offset);
        for (int variant = 0; variant < 4; variant++) {
            float *k_absmax = calibration_get(c, K_ABSMAX + variant, layer) + head * width;
            raise_to(k_absmax, k, rows, width, variant & SHIFTED ? offset : NULL, variant & ROTATED);
        }
        for (int variant = 0; variant < 2; variant++) {
            raise_to(calibration_get(c, V_ABSMAX + variant, layer) + head * width, v, rows, width, NULL,
                     variant & ROTATED);
        }
    }
}

/* ---- The file ---- */

static bool write_file(const calibration *c, FILE *file)
{
    char header[2048] = "";
    const size_t bytes = part_bytes(c);
    int length = 0;
    for (size_t part = 0; part < CALIBRATION_PARTS; part++) {
        length += snprintf(header + length, sizeof header - (size_t)length,
                           "%c\"%s\":{\"dtype\":\"F32\",\"shape\":[%lld,%lld,%lld],\"data_offsets\":[%zu,%zu]}",
                           part == 0 ? '{' : ',', names[part], (long long)c->layers, (long long)c->kv_heads,
                           (long long)c->head_dim, part * bytes, (part + 1) * bytes);
    }
    length += snprintf(header + length, sizeof header - (size_t)length, "}%*s", 7 - length % 8, "");
    const uint64_t prefix = (uint64_t)length;
    return fwrite(&prefix, sizeof prefix, 1, file) == 1 && fwrite(header, (size_t)length, 1, file) == 1 &&
           fwrite(c->data, bytes, CALIBRATION_PARTS, file) == CALIBRATION_PARTS;
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

static bool read_part(const calibration *c, const safetensors *file, int part, error *err)
{
    const int64_t dim[3] = {c->layers, c->kv_heads, c->head_dim};
    const st_tensor *tensor = st_require(file, names[part], ST_F32, 3, dim, err);
    float *values = calibration_get(c, part, 0);
    if (tensor == NULL) {
        return false;
    }
    memcpy(values, tensor->data, tensor->bytes);
    for (int64_t i = 0; i < c->layers * width_of(c); i++) {
        if (!isfinite(values[i]) || (part != K_OFFSET && values[i] < 0)) {
            return fail(err, "%s: number %lld is not one that was measured", names[part], (long long)i);
        }
    }
    return true;
}

bool calibration_read(calibration *c, const config *cfg, const char *path, error *err)
{
    safetensors file;
    error why;
    if (!st_open(&file, path, &why)) {
        return fail(err,
                    "%.160s: %.160s; a cache with fixed scales or an offset wants a calibration: run --calibrate "
                    "TEXT first",
                    path, why.text);
    }
    bool ok = calibration_create(c, cfg, &why);
    for (int part = 0; ok && part < CALIBRATION_PARTS; part++) {
        ok = read_part(c, &file, part, &why);
    }
    st_close(&file);
    if (!ok) {
        calibration_destroy(c);
        return fail(err, "%.160s: %.340s", path, why.text);
    }
    return true;
}
