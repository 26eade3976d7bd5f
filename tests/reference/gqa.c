/* Attention by its formula; the bounds are those of docs/numerics.md, section "gqa". */
#include "bounds.h"
#include "gqa_row.h"
#include "tensor.h"
#include "visible.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- probabilities ------------------------------------------------------------------------------ */

/* How far exp(s - maximum) may be off, where s is off by `error` and the row has `keys` of them. */
static double weight_error(const struct row *row, double s, double error, double kv_len)
{
    if (!isfinite(s))
        return 0;
    double distance = row->maximum - s, rescales = ceil(kv_len / KEY_BLOCK) + MERGES;
    double roundings =
        ROUNDOFF * ((double)row->keys + 1 + rescales + OUTPUT_ROUNDINGS + distance + error + row->spread);
    error += 1.001 * (roundings + EXP_ERROR * (rescales + 1));
    return error < 1 ? exp(-distance) * expm1(error) : exp(error - distance);
}

static void weigh_row(const struct attention *a, struct row *row, double sink)
{
    double kv_len = a->args->kv_len[row->b];
    row->spread = 0;
    for (int64_t t = 0; t < row->keys; t++)
        row->spread = fmax(row->spread, row->score[t] + row->error[t] - row->maximum);
    row->total = exp(sink - row->maximum);
    row->drift = sink == -INFINITY ? 0 : weight_error(row, sink, 0, kv_len) + TINY;
    for (int64_t t = 0; t < row->keys; t++) {
        row->weight[t] = exp(row->score[t] - row->maximum);
        row->weight_error[t] = weight_error(row, row->score[t], row->error[t], kv_len) + TINY;
        row->total += row->weight[t];
        row->drift += row->weight_error[t];
    }
    row->drift /= row->total;
}

/* The bound on a quotient whose numerator is off by `error` and whose denominator is off by its drift. */
static double quotient_bound(const struct row *row, double quotient, double error)
{
    if (!(row->drift < 1))
        return isnan(row->drift) ? NAN : INFINITY;
    return (error / row->total + fabs(quotient) * row->drift) / (1 - row->drift);
}

/* ---- results --------------------------------------------------------------------------------------- */

/* One channel of the output, of keys as they are stored. */
static void mix_channel(const struct attention *a, struct row *row, int64_t c)
{
    double sum = 0, error = 0, largest = 0, magnitude = 0;
    for (int64_t t = 0; t < row->keys; t++) {
        int64_t i = plane_index(&a->v, row->b, row->kv_head, cache_row(&a->desc->cache, row->key[t])) + c;
        double x = a->v.stored[i] * a->v.scale[i];
        largest = fmax(largest, (row->weight[t] + row->weight_error[t]) * fabs(a->v.scale[i]));
        magnitude += fabs(a->v.stored[i]);
        sum += row->weight[t] * x;
        error += row->weight_error[t] * fabs(x);
        error += UNDERFLOW * (1 + row->total) * (1 + fabs(a->v.stored[i])) * (1 + fabs(a->v.scale[i]));
    }
    if (a->desc->cache.v.dtype == TDM_I8 || a->desc->cache.v.dtype == TDM_I4)
        error += FIXED_POINT * largest * magnitude;
    row->out.value[c] = sum / row->total;
    row->out.error[c] = quotient_bound(row, row->out.value[c], error);
}

static void expect_output(struct attention *a, struct row *row)
{
    int64_t n = a->v.channels;
    for (int64_t c = 0; c < n; c++)
        mix_channel(a, row, c);
    if (a->desc->cache.rotate_v)
        uncertain_rotation(row->out, n);
    memcpy(a->expected.out.value + row->at * n, row->out.value, (size_t)n * sizeof(double));
    memcpy(a->expected.out.bound + row->at * n, row->out.error, (size_t)n * sizeof(double));
}

static void expect_lse(struct attention *a, struct row *row)
{
    double part = log(row->total), lse = row->maximum + part, *bound = &a->expected.lse.bound[row->at];
    a->expected.lse.value[row->at] = lse;
    *bound = row->drift < 1 ? -log1p(-row->drift) : INFINITY;
    *bound += LOG_ERROR * (fabs(part) + row->spread + *bound) + TINY;
    *bound += ROUNDOFF * (fabs(lse) + *bound + (row->shift != 0 ? fabs(lse) + fabs(part) + fabs(row->shift) : 0));
}

static void expect_scores(struct attention *a, struct row *row)
{
    int64_t keys = a->desc->scores.dim[3];
    bool scores = a->desc->capture == TDM_CAPTURE_SCORES;
    double *value = a->expected.scores.value + row->at * keys, *bound = a->expected.scores.bound + row->at * keys;
    for (int64_t j = 0; j < keys; j++)
        value[j] = scores ? -INFINITY : 0;
    for (int64_t t = 0; t < row->keys; t++) {
        int64_t j = row->key[t];
        if (scores) {
            value[j] = row->score[t];
            bound[j] = row->error[t];
        } else if (row->maximum != -INFINITY) {
            value[j] = row->weight[t] / row->total;
            bound[j] = quotient_bound(row, value[j], row->weight_error[t]) + TINY;
        }
    }
}

static void attend(struct attention *a, struct row *row)
{
    const tdm_gqa_desc *d = a->desc;
    double sink = d->has_head_sink ? (double)a->args->head_sink[row->h] : d->smooth_softmax ? 0 : -INFINITY;
    score_row(a, row);
    row->maximum = sink;
    for (int64_t t = 0; t < row->keys; t++)
        row->maximum = isnan(row->score[t]) || row->score[t] > row->maximum ? row->score[t] : row->maximum;
    a->expected.lse.value[row->at] = -INFINITY;
    if (row->maximum != -INFINITY) {
        weigh_row(a, row, sink);
        expect_output(a, row);
        expect_lse(a, row);
    }
    if (d->capture != TDM_CAPTURE_NONE)
        expect_scores(a, row);
}

static double *numbers(int64_t n)
{
    return malloc((size_t)(n + 1) * sizeof(double));
}

static struct uncertain uncertain_new(int64_t n)
{
    return (struct uncertain){numbers(n), numbers(n)};
}

static struct row row_new(int64_t keys, int64_t k_channels, int64_t v_channels)
{
    return (struct row){.q = uncertain_new(k_channels),
                        .plain = uncertain_new(k_channels),
                        .key = malloc((size_t)(keys + 1) * sizeof(int64_t)),
                        .score = numbers(keys),
                        .error = numbers(keys),
                        .weight = numbers(keys),
                        .weight_error = numbers(keys),
                        .out = uncertain_new(v_channels)};
}

static void row_free(struct row *row)
{
    double *all[] = {row->q.value, row->q.error, row->plain.value,  row->plain.error, row->score,
                     row->error,   row->weight,  row->weight_error, row->out.value,   row->out.error};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(row->key);
}

struct gqa_expected reference_gqa(const tdm_gqa_desc *desc, const tdm_gqa_args *args)
{
    int64_t batch = desc->q.dim[0], q_heads = desc->q.dim[1], max_q = desc->q.dim[2], head_dim = desc->q.dim[3];
    int64_t longest = 0;
    for (int64_t b = 0; b < batch; b++)
        longest = args->kv_len[b] > longest ? args->kv_len[b] : longest;
    struct attention a = {.desc = desc,
                          .args = args,
                          .k = plane_new(&desc->cache.k, args->cache.k, args->cache.k_scale),
                          .v = plane_new(&desc->cache.v, args->cache.v, args->cache.v_scale),
                          .q = tensor_read(&desc->q, args->q),
                          .scale = desc->scale != 0 ? desc->scale : 1 / sqrt((double)head_dim)};
    a.expected.out = expected_new(tensor_elements(&desc->out));
    a.expected.lse = expected_new(batch * q_heads * max_q);
    a.expected.scores = expected_new(desc->scores.rank ? tensor_elements(&desc->scores) : 0);
    struct row row = row_new(longest, head_dim, desc->out.dim[3]);
    for (row.b = 0; row.b < batch; row.b++)
        for (row.h = 0; row.h < q_heads; row.h++)
            for (row.i = 0; row.i < args->q_len[row.b]; row.i++) {
                row.kv_head = row.h / (q_heads / a.k.heads);
                row.at = (row.b * q_heads + row.h) * max_q + row.i;
                attend(&a, &row);
            }
    row_free(&row);
    plane_free(&a.k);
    plane_free(&a.v);
    free(a.q);
    return a.expected;
}

void gqa_expected_free(struct gqa_expected *expected)
{
    expected_free(&expected->out);
    expected_free(&expected->lse);
    expected_free(&expected->scores);
}
