#include "upload.h"

#include <stdlib.h>
#include <string.h>

static bool upload_matrix(matrix *m, device *d, error *err)
{
    void *codes, *scales;
    if (!device_place(d, m->codes, (size_t)(m->rows * m->columns), "weights", &codes, err) ||
        !device_place(d, m->scales, matrix_scale_bytes(m), "weights", &scales, err)) {
        return false;
    }
    m->codes = codes;
    m->scales = scales;
    return true;
}

static bool upload_layer(layer_weights *l, device *d, error *err)
{
    matrix *const all[] = {&l->q, &l->k, &l->v, &l->o, &l->gate, &l->up, &l->down};
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof all / sizeof *all; i++) {
        ok = upload_matrix(all[i], d, err);
    }
    return ok;
}

bool upload(weights *placed, const weights *w, const config *cfg, device *d, size_t *bytes, error *err)
{
    const size_t before = d->bytes, layer_bytes = (size_t)cfg->layers * sizeof *w->layers;
    *placed = *w;
    placed->layers = malloc(layer_bytes);
    if (placed->layers == NULL) {
        return fail(err, "weights: no memory");
    }
    memcpy(placed->layers, w->layers, layer_bytes);
    bool ok = d->id.kind == TDM_CPU || upload_matrix(&placed->head, d, err);
    for (int64_t i = 0; ok && d->id.kind != TDM_CPU && i < cfg->layers; i++) {
        ok = upload_layer(&placed->layers[i], d, err);
    }
    *bytes = d->bytes - before;
    return ok;
}

void upload_close(weights *placed)
{
    free(placed->layers);
    *placed = (weights){0};
}
