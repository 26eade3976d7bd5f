#include "bounds.h"
#include "reference.h"
#include "tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct gqa_expected reference_part(const tdm_merge_states_desc *desc, const void *part, const float *part_lse)
{
    int64_t n = tensor_elements(&desc->part), rows = n / desc->part.dim[3];
    struct gqa_expected known = {.out = expected_new(n), .lse = expected_new(rows)};
    double *x = tensor_read(&desc->part, part);
    memcpy(known.out.value, x, (size_t)n * sizeof *x);
    for (int64_t row = 0; row < rows; row++)
        known.lse.value[row] = part_lse[row];
    free(x);
    return known;
}

/* One row, by section "merge_states" of docs/numerics.md: of each part that counts its weight a = exp(lse - maximum),
 * how far the logarithm of the computed weight may be off, and the sum of the weights. */
struct merged {
    const struct gqa_expected *part;
    int32_t parts;
    int64_t row;
    double *weight, *error;
    double total, drift;
};

static bool counts(const struct merged *m, int32_t p)
{
    return m->part[p].lse.value[m->row] != -INFINITY;
}

/* Returns the largest lse of a part, and the largest error of a weight before the shares are taken of it. */
static double weigh(struct merged *m, double *largest)
{
    double top = -INFINITY, worst = 0, counted = 0;
    for (int32_t p = 0; p < m->parts; p++) {
        double lse = m->part[p].lse.value[m->row];
        top = isnan(lse) || lse > top ? lse : top;
        worst = fmax(worst, counts(m, p) ? m->part[p].lse.bound[m->row] : 0);
        counted += counts(m, p);
    }
    m->total = m->drift = *largest = 0;
    for (int32_t p = 0; p < m->parts; p++) {
        if (!counts(m, p))
            continue;
        double lse = m->part[p].lse.value[m->row], distance = top - lse + 2 * worst;
        double error = m->part[p].lse.bound[m->row] + 1.001 * (ROUNDOFF * (distance + counted) + EXP_ERROR);
        *largest = fmax(*largest, error);
        m->weight[p] = exp(lse - top);
        m->error[p] = expm1(error + 1.001 * ROUNDOFF * (counted + MERGE_ROUNDINGS)) * m->weight[p] + TINY;
        m->total += m->weight[p];
        m->drift += m->error[p];
    }
    return top;
}

static void mix(const struct merged *m, int64_t at, double *value, double *bound)
{
    double sum = 0, error = 0, underflow = 0, drift = m->drift / m->total;
    for (int32_t p = 0; p < m->parts; p++) {
        if (!counts(m, p))
            continue;
        double x = m->part[p].out.value[at], off = m->part[p].out.bound[at];
        sum += m->weight[p] * x;
        error += m->error[p] * (fabs(x) + off) + m->weight[p] * off;
        underflow += UNDERFLOW * (1 + fabs(x) + off);
    }
    *value = sum / m->total;
    *bound = drift < 1 ? (error / m->total + fabs(*value) * drift) / (1 - drift) + underflow : INFINITY;
}

struct gqa_expected reference_merge_states(const tdm_merge_states_desc *desc, const struct gqa_expected *part,
                                           int32_t parts)
{
    int64_t n = tensor_elements(&desc->out), channels = desc->out.dim[3];
    struct gqa_expected expected = {.out = expected_new(n), .lse = expected_new(n / channels)};
    double *scratch = malloc((size_t)(2 * parts + 1) * sizeof *scratch);
    struct merged m = {.part = part, .parts = parts, .weight = scratch, .error = scratch + parts};
    for (m.row = 0; m.row < n / channels; m.row++) {
        double largest, top = weigh(&m, &largest);
        double *lse = &expected.lse.value[m.row];
        *lse = top;
        if (top == -INFINITY)
            continue;
        *lse = top + log(m.total);
        expected.lse.bound[m.row] =
            largest + LOG_ERROR * fabs(log(m.total)) + ROUNDOFF * fabs(*lse) + TINY * (double)parts;
        for (int64_t i = m.row * channels; i < (m.row + 1) * channels; i++)
            mix(&m, i, &expected.out.value[i], &expected.out.bound[i]);
    }
    free(scratch);
    return expected;
}
