/* qk and sv by tiles of out: up to TILE_ROWS rows by a block of columns, its sums taken block by block of their terms.
 * A row is one query head of a group at one row of a, so that what is stored is converted once for the whole group. */
#include "rows.h"

#include <string.h>

enum { TILE_ROWS = 96, BLOCK = 128, STRIDE = BLOCK | 16 }; /* STRIDE is padded(BLOCK) */

/* Scratch of one worker. */
struct tile_memory {
    float a[TILE_ROWS * STRIDE], sum[TILE_ROWS * STRIDE], spare[TILE_ROWS * STRIDE];
    float panel[BLOCK * STRIDE], scale[BLOCK];
};

struct tile;

struct product {
    const tdm_product_desc *desc;
    const tdm_product_args *args;
    const struct leaf_table *leaf;
    void (*multiply)(const struct tile *tile); /* fills the tile's sums */
    leaf_qk *(*pick)(const struct leaf_table *leaf, enum leaf_type type, int rows, int64_t group);
    int64_t columns, depth; /* of out; the terms of a sum */
    int64_t group, row_tiles, column_tiles;
    struct tile_memory *memory; /* of each worker */
};

struct tile {
    const struct product *p;
    int64_t batch, head, row, column; /* of x; the first of out */
    int rows, columns;
    leaf_qk *on_stored; /* or leaf_sv; NULL: widen each block once and multiply matrices */
    struct head_rows x;
    enum leaf_type type; /* of x */
    struct tile_memory *m;
};

/* Of x: rows [key, key + keys), channels [channel, channel + channels). */
struct part {
    int64_t key, channel;
    int keys, channels;
};

/* ---- rows of a and out ------------------------------------------------------------------------- */

static void *row_of(const struct tile *t, const tdm_tensor *tensor, const void *data, int r, int64_t column)
{
    int64_t row = t->row + r, head = t->head * t->p->group + row % t->p->group;
    return at(cpu_row(tensor, data, t->batch, head, row / t->p->group), column * tensor->stride[3]);
}

static void load(const struct tile *t, const tdm_tensor *tensor, const void *data, int64_t column, int n, float *to)
{
    for (int r = 0; r < t->rows; r++) {
        struct leaf_rows from = {row_of(t, tensor, data, r, column), 0, NULL};
        t->p->leaf->widen[cpu_leaf_type(tensor->dtype)](from, to + r * STRIDE, STRIDE, 1, n);
    }
}

static void scale(const struct tile *t, float *x, const float *by, float factor, int n)
{
    for (int r = 0; r < t->rows; r++)
        t->p->leaf->scale(x + r * STRIDE, by, factor, n);
}

/* The finished sums become out's. */
static void store(const struct tile *t)
{
    const tdm_tensor *out = &t->p->desc->out;
    for (int r = 0; r < t->rows; r++)
        cpu_narrow(t->p->leaf, t->m->sum + r * STRIDE, out->dtype, row_of(t, out, t->p->args->out, r, t->column),
                   t->columns);
}

/* ---- parts of x ---------------------------------------------------------------------------------- */

static struct leaf_rows stored(const struct tile *t, struct part x)
{
    return (struct leaf_rows){at(t->x.data, x.key * t->x.stride + channel_bytes(t->x.dtype, x.channel)), t->x.stride,
                              NULL};
}

static struct leaf_rows panel_of(const struct tile *t)
{
    return (struct leaf_rows){t->m->panel, STRIDE * (int64_t)sizeof(float), NULL};
}

/* Groups of channels of a part, from one with no channels at its beginning on; none without PER_GROUP. */
static bool next_group(const struct tile *t, struct part x, struct part *group)
{
    group->channel += group->channels;
    int64_t left = x.channel + x.channels - group->channel;
    if (!t->x.groups || !left)
        return false;
    group->channels = (int)min64(left, t->x.group - group->channel % t->x.group);
    return true;
}

/* The scales of a group: one for each key. */
static const float *group_scales(const struct tile *t, struct part group)
{
    for (int j = 0; j < group.keys; j++)
        t->m->scale[j] = t->x.scale[(group.key + j) * t->x.groups + group.channel / t->x.group];
    return t->m->scale;
}

#define EACH_GROUP(t, x, group) for (struct part group = {x.key, x.channel, x.keys, 0}; next_group(t, x, &group);)

/* ---- qk ---------------------------------------------------------------------------------------------- */

/* sum (+)= a . x for the part, a's columns being its channels. */
static void dot_part(const struct tile *t, struct part x, bool accumulate)
{
    const struct leaf_table *leaf = t->p->leaf;
    struct tile_memory *m = t->m;
    if (!t->on_stored) {
        leaf->transpose[t->type](stored(t, x), m->panel, STRIDE, x.keys, x.channels);
        EACH_GROUP(t, x, g)
        {
            const float *by = group_scales(t, g);
            for (int64_t c = g.channel - x.channel; c < g.channel - x.channel + g.channels; c++)
                leaf->scale(m->panel + c * STRIDE, by, 1, x.keys);
        }
        leaf->sv[LEAF_F32](m->a, STRIDE, panel_of(t), m->sum, STRIDE, t->rows, x.channels, x.keys, accumulate);
    } else if (t->x.groups) {
        EACH_GROUP(t, x, g)
        {
            const float *by = group_scales(t, g), *a = m->a + (g.channel - x.channel);
            t->on_stored(a, STRIDE, stored(t, g), m->spare, STRIDE, t->rows, g.keys, g.channels, false);
            for (int r = 0; r < t->rows; r++)
                leaf->mul_add(m->spare + r * STRIDE, by, m->sum + r * STRIDE, g.keys, accumulate);
            accumulate = true;
        }
    } else {
        t->on_stored(m->a, STRIDE, stored(t, x), m->sum, STRIDE, t->rows, x.keys, x.channels, accumulate);
    }
}

static void qk_multiply(const struct tile *t)
{
    const struct product *p = t->p;
    float factor = p->args->alpha * (t->x.scaling == TDM_PER_TENSOR ? t->x.scale[0] : 1);
    for (int64_t c = 0; c < p->depth; c += BLOCK) {
        int n = (int)min64(BLOCK, p->depth - c);
        load(t, &p->desc->a, p->args->a, c, n, t->m->a);
        scale(t, t->m->a, t->x.scaling == TDM_PER_CHANNEL ? t->x.scale + c : NULL, factor, n);
        dot_part(t, (struct part){t->column, c, t->columns, n}, c > 0);
    }
    if (t->x.scaling == TDM_PER_TOKEN)
        scale(t, t->m->sum, t->x.scale + t->column, 1, t->columns);
}

/* ---- sv ---------------------------------------------------------------------------------------------- */

/* sum (+)= a x for the part, a's columns being its keys. */
static void mix_part(const struct tile *t, struct part x, bool accumulate)
{
    const struct leaf_table *leaf = t->p->leaf;
    struct tile_memory *m = t->m;
    if (!t->on_stored) {
        leaf->widen[t->type](stored(t, x), m->panel, STRIDE, x.keys, x.channels);
        EACH_GROUP(t, x, g)
        {
            const float *by = group_scales(t, g);
            for (int j = 0; j < x.keys; j++)
                leaf->scale(m->panel + j * STRIDE + (g.channel - x.channel), NULL, by[j], g.channels);
        }
        leaf->sv[LEAF_F32](m->a, STRIDE, panel_of(t), m->sum, STRIDE, t->rows, x.keys, x.channels, accumulate);
    } else if (t->x.groups) {
        EACH_GROUP(t, x, g)
        {
            const float *by = group_scales(t, g);
            float *sum = m->sum + (g.channel - x.channel);
            for (int r = 0; r < t->rows; r++)
                leaf->mul_add(m->a + r * STRIDE, by, m->spare + r * STRIDE, g.keys, false);
            t->on_stored(m->spare, STRIDE, stored(t, g), sum, STRIDE, t->rows, g.keys, g.channels, accumulate);
        }
    } else {
        t->on_stored(m->a, STRIDE, stored(t, x), m->sum, STRIDE, t->rows, x.keys, x.channels, accumulate);
    }
}

static void sv_multiply(const struct tile *t)
{
    const struct product *p = t->p;
    for (int64_t j = 0; j < p->depth; j += BLOCK) {
        int n = (int)min64(BLOCK, p->depth - j);
        load(t, &p->desc->a, p->args->a, j, n, t->m->a);
        if (t->x.scaling == TDM_PER_TOKEN)
            scale(t, t->m->a, t->x.scale + j, 1, n);
        mix_part(t, (struct part){j, t->column, n, t->columns}, j > 0);
    }
    if (t->x.scaling == TDM_PER_TENSOR)
        scale(t, t->m->sum, NULL, t->x.scale[0], t->columns);
    if (t->x.scaling == TDM_PER_CHANNEL)
        scale(t, t->m->sum, t->x.scale + t->column, 1, t->columns);
}

/* ---- tasks ------------------------------------------------------------------------------------------- */

static void add_earlier(const struct tile *t)
{
    load(t, &t->p->desc->out, t->p->args->out, t->column, t->columns, t->m->spare);
    for (int r = 0; r < t->rows; r++)
        for (int c = 0; c < t->columns; c++)
            t->m->sum[r * STRIDE + c] += t->m->spare[r * STRIDE + c];
}

static void product_task(void *arg, int64_t task, int worker)
{
    const struct product *p = arg;
    const tdm_tensor *x = &p->desc->x;
    int64_t head = task / p->column_tiles / p->row_tiles;
    struct tile t = {.p = p,
                     .batch = head / x->dim[1],
                     .head = head % x->dim[1],
                     .row = task / p->column_tiles % p->row_tiles * TILE_ROWS,
                     .column = task % p->column_tiles * BLOCK,
                     .type = cpu_leaf_type(x->dtype),
                     .m = &p->memory[worker]};
    t.rows = (int)min64(TILE_ROWS, p->args->rows * p->group - t.row);
    t.columns = (int)min64(BLOCK, p->columns - t.column);
    if (p->depth) {
        t.x = head_rows(x, p->args->x, p->args->x_scale, t.batch, t.head, 0);
        t.on_stored = p->pick(p->leaf, t.type, t.rows, t.x.groups ? t.x.group : 0);
        p->multiply(&t);
    } else {
        memset(t.m->sum, 0, (size_t)t.rows * STRIDE * sizeof(float));
    }
    if (p->args->accumulate)
        add_earlier(&t);
    store(&t);
}

static void run_tiles(const struct tdm_op *op, const struct run *run, struct product *p)
{
    p->desc = &op->desc.product;
    p->leaf = cpu_leaf_for(op, &run->lengths);
    p->memory = run->scratch;
    int64_t kv_heads = p->desc->x.dim[1];
    if (kv_heads == 0)
        return;
    p->group = p->desc->a.dim[1] / kv_heads;
    p->row_tiles = ceil_div(p->args->rows * p->group, TILE_ROWS);
    p->column_tiles = ceil_div(p->columns, BLOCK);
    cpu_parallel_for(op, p->leaf, p->desc->x.dim[0] * kv_heads * p->row_tiles * p->column_tiles, product_task, p);
}

static tdm_status qk_run(const struct tdm_op *op, const struct run *run)
{
    const tdm_product_args *args = run->args;
    struct product p = {.args = args,
                        .multiply = qk_multiply,
                        .pick = cpu_qk_of,
                        .columns = args->keys,
                        .depth = op->desc.product.x.dim[3]};
    run_tiles(op, run, &p);
    return TDM_OK;
}

static tdm_status sv_run(const struct tdm_op *op, const struct run *run)
{
    const tdm_product_args *args = run->args;
    struct product p = {.args = args,
                        .multiply = sv_multiply,
                        .pick = cpu_sv_of,
                        .columns = op->desc.product.x.dim[3],
                        .depth = args->keys};
    run_tiles(op, run, &p);
    return TDM_OK;
}

static size_t product_workspace(const struct tdm_op *op)
{
    struct layout layout = {0};
    layout_add(&layout, op->services->threads, sizeof(struct tile_memory));
    return layout.size;
}

const struct impl cpu_qk = {.name = "qk", .op = OP_QK, .workspace = product_workspace, .run = qk_run};
const struct impl cpu_sv = {.name = "sv", .op = OP_SV, .workspace = product_workspace, .run = sv_run};
