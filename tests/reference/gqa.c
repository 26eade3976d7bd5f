#include "bounds.h"
#include "reference.h"
#include "tensor.h"

#include <math.h>
#include <stdlib.h>

/* One cache tensor in full, [batch, kv_heads, capacity, channels]: what is stored, and the scale of each element. */
struct plane {
    double *stored, *scale;
    int64_t heads, rows, channels;
};

static struct plane plane_new(const tdm_tensor *tensor, const void *data, const float *scale)
{
    struct plane plane = {tensor_read(tensor, data), NULL, tensor->dim[1], tensor->dim[2], tensor->dim[3]};
    int64_t n = tensor_elements(tensor);
    plane.scale = malloc((size_t)(n + 1) * sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        int64_t c = i % plane.channels, row = i / plane.channels, r = row % plane.rows, head = row / plane.rows;
        plane.scale[i] = tensor_scale(tensor, scale, head / plane.heads, head % plane.heads, r, c);
    }
    return plane;
}

static void plane_free(struct plane *plane)
{
    free(plane->stored);
    free(plane->scale);
}

static int64_t plane_index(const struct plane *plane, int64_t b, int64_t h, int64_t r)
{
    return ((b * plane->heads + h) * plane->rows + r) * plane->channels;
}

/* One query row: the visible keys [first, last), and for each of them what is known so far. */
struct row {
    const double *q;
    double scale;
    int64_t first, last;
    double *score, *error; /* s and the bound on its error                              */
    double *weight, *rate; /* p = exp(s - maximum) and the bound on its error: rate * p */
    double total, drift;   /* their sums: of p and of rate * p                          */
};

static void visible(const tdm_gqa_desc *desc, int64_t position, int64_t kv_len, struct row *row)
{
    row->first = desc->window_left < 0 || position < desc->window_left ? 0 : position - desc->window_left;
    row->last = desc->window_right < 0 || position + desc->window_right + 1 > kv_len
                    ? kv_len
                    : position + desc->window_right + 1;
    if (row->last < row->first)
        row->last = row->first;
}

/* Scores and, by section "Scores" of docs/numerics.md, their errors. */
static void score_row(const struct plane *k, int64_t b, int64_t h, struct row *row)
{
    int64_t depth = k->channels;
    for (int64_t j = row->first; j < row->last; j++) {
        int64_t at = plane_index(k, b, h, j);
        double sum = 0, magnitude = 0, underflow = 1;
        for (int64_t c = 0; c < depth; c++) {
            double stored = k->stored[at + c], scale = k->scale[at + c], product = row->q[c] * (stored * scale);
            sum += product;
            magnitude += fabs(product);
            underflow += (1 + fabs(row->q[c])) * (1 + fabs(stored)) * (1 + fabs(scale));
        }
        row->score[j] = row->scale * sum;
        row->error[j] =
            gamma_of((double)depth + SCORE_ROUNDINGS) * fabs(row->scale) * magnitude + UNDERFLOW * underflow;
    }
}

/* Probabilities and, by section "Probabilities", their errors. Returns the largest e, where a computed p is
 * within a factor of exp(e) of the exact one. */
static double weigh_row(struct row *row, double maximum)
{
    double keys = (double)(row->last - row->first), rescales = ceil(keys / KEY_BLOCK) + 1, worst = 0, largest = 0;
    for (int64_t j = row->first; j < row->last; j++)
        worst = fmax(worst, isinf(row->score[j]) ? 0 : row->error[j]);
    row->total = row->drift = 0;
    for (int64_t j = row->first; j < row->last; j++) {
        double distance = maximum - row->score[j] + 2 * worst;
        double roundings = ROUNDOFF * (keys + rescales + OUTPUT_ROUNDINGS + distance) + EXP_ERROR * (rescales + 1);
        double error = isinf(row->score[j]) ? 0 : row->error[j] + 1.001 * roundings;
        row->weight[j] = exp(row->score[j] - maximum);
        row->rate[j] = expm1(error);
        row->total += row->weight[j];
        row->drift += row->rate[j] * row->weight[j] + TINY;
        largest = fmax(largest, error);
    }
    return largest;
}

/* One channel of the output, by section "Output"; `at` is where the channel of key 0 lies in v. */
static void mix_channel(const struct plane *v, int64_t at, const struct row *row, double *value, double *bound)
{
    double sum = 0, error = 0;
    for (int64_t j = row->first; j < row->last; j++) {
        int64_t i = at + j * v->channels;
        double x = v->stored[i] * v->scale[i];
        sum += row->weight[j] * x;
        error += (row->rate[j] * row->weight[j] + TINY) * fabs(x);
        error += UNDERFLOW * (1 + row->total) * (1 + fabs(v->stored[i])) * (1 + fabs(v->scale[i]));
    }
    double drift = row->drift / row->total;
    *value = sum / row->total;
    *bound = drift < 1 ? (error / row->total + fabs(*value) * drift) / (1 - drift) : INFINITY;
}

static void attend(const struct plane *v, int64_t b, int64_t kv_head, struct row *row, struct expected *out,
                   int64_t out_at, struct expected *lse, int64_t lse_at)
{
    double maximum = -INFINITY;
    for (int64_t j = row->first; j < row->last; j++)
        maximum = isnan(row->score[j]) || row->score[j] > maximum ? row->score[j] : maximum;
    lse->value[lse_at] = -INFINITY;
    if (maximum == -INFINITY)
        return;
    double largest = weigh_row(row, maximum);
    lse->value[lse_at] = maximum + log(row->total);
    lse->bound[lse_at] = largest + LOG_ERROR * log(row->total) + ROUNDOFF * fabs(lse->value[lse_at]) + TINY;
    for (int64_t c = 0; c < v->channels; c++)
        mix_channel(v, plane_index(v, b, kv_head, 0) + c, row, &out->value[out_at + c], &out->bound[out_at + c]);
}

struct gqa_expected reference_gqa(const tdm_gqa_desc *desc, const tdm_gqa_args *args)
{
    int64_t batch = desc->q.dim[0], q_heads = desc->q.dim[1], max_q = desc->q.dim[2], head_dim = desc->q.dim[3];
    int64_t group = q_heads / desc->cache.k.dim[1], v_head_dim = desc->out.dim[3];
    struct gqa_expected expected = {expected_new(tensor_elements(&desc->out)), expected_new(batch * q_heads * max_q)};
    struct plane k = plane_new(&desc->cache.k, args->cache.k, args->cache.k_scale);
    struct plane v = plane_new(&desc->cache.v, args->cache.v, args->cache.v_scale);
    double *q = tensor_read(&desc->q, args->q);
    int64_t keys = desc->cache.k.dim[2];
    double *scratch = malloc((size_t)(4 * keys + 1) * sizeof *scratch);
    struct row row = {.scale = desc->scale != 0 ? desc->scale : 1 / sqrt((double)head_dim),
                      .score = scratch,
                      .error = scratch + keys,
                      .weight = scratch + 2 * keys,
                      .rate = scratch + 3 * keys};
    for (int64_t b = 0; b < batch; b++)
        for (int64_t h = 0; h < q_heads; h++)
            for (int64_t i = 0; i < args->q_len[b]; i++) {
                int64_t at = (b * q_heads + h) * max_q + i;
                row.q = q + at * head_dim;
                visible(desc, args->kv_len[b] - args->q_len[b] + i, args->kv_len[b], &row);
                score_row(&k, b, h / group, &row);
                attend(&v, b, h / group, &row, &expected.out, at * v_head_dim, &expected.lse, at);
            }
    plane_free(&k);
    plane_free(&v);
    free(q);
    free(scratch);
    return expected;
}

void gqa_expected_free(struct gqa_expected *expected)
{
    expected_free(&expected->out);
    expected_free(&expected->lse);
}
