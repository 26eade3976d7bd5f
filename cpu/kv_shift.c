/* kv_shift: the rows of each head that stay move up in order, values as they are, keys turned to where they go. */
#include "prepare.h"
#include "rows.h"

struct shift {
    const tdm_kv_shift_desc *desc;
    const tdm_kv_shift_args *args;
    const struct leaf_table *leaf;
};

/* Turn n keys back by `drop` positions, from the rows `from` to the rows `to`. */
static void turn_keys(const struct shift *s, int64_t head, int64_t drop, struct head_rows from, struct head_rows to,
                      int64_t n)
{
    const tdm_kv_cache *cache = &s->desc->cache;
    int channels = (int)cache->k.dim[3];
    const float *offset = cache->has_k_offset ? s->args->cache.k_offset + head * channels : NULL;
    for (int64_t i = 0; i < n; i++) {
        float x[MAX_HEAD_DIM];
        rows_load(s->leaf, rows_from(from, i), plain_row(x), 1, channels);
        if (cache->rotate_k)
            row_rotate(s->leaf, x, channels);
        row_offset(offset, true, x, channels);
        row_turn(s->leaf, &s->desc->rotary, s->args->cos, s->args->sin, drop, true, x);
        row_offset(offset, false, x, channels);
        if (cache->rotate_k)
            row_rotate(s->leaf, x, channels);
        rows_store(s->leaf, plain_row(x), rows_from(to, i), 1, channels);
    }
}

static void shift_task(void *arg, int64_t task, int worker)
{
    (void)worker;
    const struct shift *s = arg;
    const tdm_tensor *k = &s->desc->cache.k, *v = &s->desc->cache.v;
    const tdm_kv_data *data = &s->args->cache;
    bool keys = task % 2 == 0;
    int64_t head = task / 2 % k->dim[1], batch = task / 2 / k->dim[1];
    int64_t sinks = s->desc->sinks, drop = s->args->drop[batch], n = s->args->len[batch] - drop - sinks;
    if (drop == 0)
        return;
    struct head_rows to = keys ? head_rows(k, data->k, data->k_scale, batch, head, sinks)
                               : head_rows(v, data->v, data->v_scale, batch, head, sinks);
    if (keys && s->desc->rotary.dtype)
        turn_keys(s, head, drop, rows_from(to, drop), to, n);
    else
        rows_copy(rows_from(to, drop), to, n, keys ? k->dim[3] : v->dim[3]);
}

static tdm_status shift_run(const struct tdm_op *op, const struct run *run)
{
    const tdm_kv_shift_desc *d = &op->desc.kv_shift;
    struct shift s = {d, run->args, cpu_leaf_for(op, &run->lengths)};
    op->services->parallel_for(op->services->ctx, 2 * d->cache.k.dim[0] * d->cache.k.dim[1], shift_task, &s);
    return TDM_OK;
}

const struct impl cpu_kv_shift = {.name = "shift", .op = OP_KV_SHIFT, .run = shift_run};
