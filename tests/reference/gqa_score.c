/* Scores of gqa by their formula, and bounds on their errors. */
#include "bounds.h"
#include "gqa_row.h"
#include "tensor.h"
#include "visible.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct plane plane_new(const tdm_tensor *tensor, const void *data, const float *scale)
{
    struct plane plane = {tensor_read(tensor, data), NULL, tensor->dim[1], tensor->dim[2], tensor->dim[3],
                          tensor_groups(tensor)};
    int64_t n = tensor_elements(tensor);
    plane.scale = malloc((size_t)(n + 1) * sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        int64_t c = i % plane.channels, row = i / plane.channels, r = row % plane.rows, head = row / plane.rows;
        plane.scale[i] = tensor_scale(tensor, scale, head / plane.heads, head % plane.heads, r, c);
    }
    return plane;
}

void plane_free(struct plane *plane)
{
    free(plane->stored);
    free(plane->scale);
}

int64_t plane_index(const struct plane *plane, int64_t b, int64_t h, int64_t r)
{
    return ((b * plane->heads + h) * plane->rows + r) * plane->channels;
}

static void load_query(const struct attention *a, struct row *row)
{
    const tdm_gqa_desc *d = a->desc;
    int64_t n = d->q.dim[3], token = row->b * d->q.dim[2] + row->i;
    memcpy(row->q.value, a->q + row->at * n, (size_t)n * sizeof(double));
    memset(row->q.error, 0, (size_t)n * sizeof(double));
    if (d->q_norm.dtype)
        uncertain_norm(&d->q_norm, a->args->q_norm, row->q, n);
    if (d->rotary.dtype)
        uncertain_rotary(&d->rotary, a->args->cos, a->args->sin,
                         a->args->positions ? a->args->positions[token] : position_of_query(d, a->args, row->b, row->i),
                         row->q);
    memcpy(row->plain.value, row->q.value, (size_t)n * sizeof(double));
    memcpy(row->plain.error, row->q.error, (size_t)n * sizeof(double));
    if (d->cache.rotate_k)
        uncertain_rotation(row->q, n);
}

/* scale * x . key, where key[c] = stored[c] * by[c]; by NULL: 1. */
static double dot(double scale, struct uncertain x, const double *stored, const double *by, int64_t n, double roundings,
                  double *error)
{
    double sum = 0, magnitude = 0, inherited = 0, underflow = 1;
    for (int64_t c = 0; c < n; c++) {
        double factor = by ? by[c] : 1, key = stored[c] * factor;
        sum += x.value[c] * key;
        magnitude += (fabs(x.value[c]) + x.error[c]) * fabs(key);
        inherited += x.error[c] * fabs(key);
        underflow += (1 + fabs(x.value[c])) * (1 + fabs(stored[c])) * (1 + fabs(factor));
    }
    *error = fabs(scale) * (gamma_of(roundings) * magnitude + inherited) + UNDERFLOW * underflow;
    return scale * sum;
}

static void shift_row(const struct attention *a, struct row *row)
{
    int64_t n = a->k.channels;
    row->shift = row->shift_error = 0;
    if (!a->desc->cache.has_k_offset)
        return;
    double *offset = malloc((size_t)n * sizeof *offset);
    for (int64_t c = 0; c < n; c++)
        offset[c] = a->args->cache.k_offset[row->kv_head * n + c];
    row->shift = dot(a->scale, row->plain, offset, NULL, n, (double)n + SCORE_ROUNDINGS, &row->shift_error);
    free(offset);
}

static double capped(double cap, double x)
{
    return cap * tanh(x / cap);
}

/* What is done to a finished dot: softcap, bias, slope. */
static double finish_score(const struct attention *a, const struct row *row, int64_t j, double s, double *error)
{
    const tdm_gqa_desc *d = a->desc;
    double terms = 0, roundings = 0;
    if (d->softcap > 0) {
        double low = capped(d->softcap, s - *error), high = capped(d->softcap, s + *error);
        s = capped(d->softcap, s);
        *error = fmax(high - s, s - low);
        *error += (gamma_of(3) + TANH_ERROR) * (fabs(s) + *error) + UNDERFLOW * (1 + d->softcap);
    }
    terms = fabs(s) + *error;
    if (d->bias.rank) {
        double bias = plane_value(&d->bias, a->args->bias, row->b, row->h, row->i, j);
        s += bias;
        terms += fabs(bias);
        roundings += 1;
    }
    if (d->has_alibi) {
        int64_t distance = position_of_query(d, a->args, row->b, row->i) - position_of_key(d, a->args, row->b, j);
        double penalty = a->args->alibi[row->h] * fabs((double)distance);
        s -= penalty;
        terms += fabs(penalty);
        roundings += 2;
    }
    *error += gamma_of(roundings) * terms + (d->has_alibi ? UNDERFLOW : 0);
    return s;
}

void score_row(const struct attention *a, struct row *row)
{
    load_query(a, row);
    shift_row(a, row);
    double roundings = (double)a->k.channels + SCORE_ROUNDINGS;
    if (a->k.groups > 1)
        roundings += (double)a->k.groups;
    row->keys = 0;
    for (int64_t j = 0; j < a->args->kv_len[row->b]; j++) {
        if (!key_visible(a->desc, a->args, row->b, row->h, row->i, j))
            continue;
        int64_t t = row->keys++, at = plane_index(&a->k, row->b, row->kv_head, cache_row(&a->desc->cache, j));
        double s = dot(a->scale, row->q, a->k.stored + at, a->k.scale + at, a->k.channels, roundings, &row->error[t]);
        if (a->desc->cache.has_k_offset) {
            s += row->shift;
            row->error[t] += row->shift_error;
            row->error[t] += ROUNDOFF * (fabs(s) + row->error[t]);
        }
        row->key[t] = j;
        row->score[t] = finish_score(a, row, j, s, &row->error[t]);
        if (!isfinite(row->score[t]))
            row->error[t] = 0;
    }
}
