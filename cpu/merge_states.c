/* merge_states: for each row the shares of the parts first, then its channels part by part, in order. */
#include "cpu.h"

#include <math.h>
#include <string.h>

enum { GRAIN = 1 << 14, CHUNK = 512 }; /* elements a task reads, channels at a time */

struct merge {
    const tdm_merge_states_desc *desc;
    const tdm_merge_states_args *args;
    const struct leaf_table *leaf;
    int64_t rows, rows_per_task;
};

/* A part that saw no key is not looked at. */
static bool counts(const struct merge *m, int32_t part, int64_t row)
{
    return m->args->part_lse[part][row] != -INFINITY;
}

/* The share of each part that counts; returns the row's lse. */
static float weigh(const struct merge *m, int64_t row, float share[MAX_MERGED])
{
    float top = -INFINITY, total = 0;
    for (int32_t p = 0; p < m->args->parts; p++) {
        float lse = m->args->part_lse[p][row];
        top = lse > top || isnan(lse) ? lse : top;
    }
    if (top == -INFINITY)
        return top;
    for (int32_t p = 0; p < m->args->parts; p++) {
        share[p] = counts(m, p, row) ? expf(m->args->part_lse[p][row] - top) : 0;
        total += share[p];
    }
    for (int32_t p = 0; p < m->args->parts; p++)
        share[p] /= total;
    return top + logf(total);
}

static void *row_of(const tdm_tensor *tensor, const void *data, int64_t row)
{
    int64_t token = row % tensor->dim[2], head = row / tensor->dim[2] % tensor->dim[1];
    return cpu_row(tensor, data, row / tensor->dim[2] / tensor->dim[1], head, token);
}

static void merge_row(const struct merge *m, int64_t row)
{
    const tdm_tensor *part = &m->desc->part, *out = &m->desc->out;
    leaf_sv *add = m->leaf->sv[cpu_leaf_type(part->dtype)];
    float share[MAX_MERGED], sum[CHUNK];
    float lse = weigh(m, row, share);
    for (int64_t c = 0; c < out->dim[3]; c += CHUNK) {
        int n = (int)min64(CHUNK, out->dim[3] - c);
        memset(sum, 0, sizeof sum);
        for (int32_t p = 0; p < m->args->parts; p++) {
            struct leaf_rows x = {at(row_of(part, m->args->part[p], row), c * part->stride[3]), 0, NULL};
            if (counts(m, p, row))
                add(&share[p], 1, x, sum, CHUNK, 1, 1, n, true);
        }
        cpu_narrow(m->leaf, sum, out->dtype, at(row_of(out, m->args->out, row), c * out->stride[3]), n);
    }
    if (m->args->lse)
        m->args->lse[row] = lse;
}

static void merge_task(void *arg, int64_t task, int worker)
{
    (void)worker;
    const struct merge *m = arg;
    for (int64_t row = task * m->rows_per_task; row < min64((task + 1) * m->rows_per_task, m->rows); row++)
        merge_row(m, row);
}

static tdm_status merge_run(const struct tdm_op *op, const struct run *run)
{
    const tdm_merge_states_desc *d = &op->desc.merge_states;
    struct merge m = {d, run->args, cpu_leaf_for(op, &run->lengths), d->out.dim[0] * d->out.dim[1] * d->out.dim[2], 1};
    m.rows_per_task = max64(1, GRAIN / ((m.args->parts + 1) * d->out.dim[3]));
    op->services->parallel_for(op->services->ctx, ceil_div(m.rows, m.rows_per_task), merge_task, &m);
    return TDM_OK;
}

const struct impl cpu_merge_states = {.name = "merge", .op = OP_MERGE_STATES, .run = merge_run};
