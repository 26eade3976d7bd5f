/* Attention by tiles: one task list over sequences, kv heads, tiles of query rows and parts of the keys.
 *
 * A sequence whose rows fit one tile has its keys split into parts, so that few heads keep many threads busy;
 * whoever finishes the last part of a head merges all of them in order. Tiles and parts are a function of the
 * desc and the sequence's own lengths, so neither threads nor batch neighbours change a bit of the result. */
#include "gqa_flash.h"

#include "gqa_tile.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { PART_KEYS = 512, MAX_PARTS = 64, STATE = 3 };

struct partition {
    int64_t tiles, parts, part_keys;
    int64_t keys; /* that a split sequence's only tile sees */
};

static struct partition partition_of(const struct gqa *g, int64_t batch)
{
    int64_t q_len = g->args->q_len[batch];
    struct partition p = {.tiles = ceil_div(q_len * g->group, TILE_ROWS), .parts = 1};
    if (p.tiles != 1)
        return p;
    p.keys = view_count(view_of_tokens(g, batch, 0, q_len - 1));
    p.parts = max64(1, min64(MAX_PARTS, p.keys / PART_KEYS));
    p.part_keys = ceil_div(ceil_div(p.keys, p.parts), KEY_BLOCK) * KEY_BLOCK;
    if (p.keys)
        p.parts = ceil_div(p.keys, p.part_keys);
    return p;
}

/* ---- workspace ------------------------------------------------------------------ */

struct flash_layout {
    int64_t rows, parts, row_floats; /* of the partial results of one kv head: m, l, unit and o of each row */
    size_t first_task, pending, partials, workers, size;
};

static struct flash_layout lay_out(const tdm_gqa_desc *d, int threads)
{
    int64_t heads = d->cache.k.dim[1], batch = d->q.dim[0], group = d->q.dim[1] / heads;
    struct flash_layout f = {.rows = min64(TILE_ROWS, d->q.dim[2] * group),
                             .parts = max64(1, min64(MAX_PARTS, d->cache.k.dim[2] / PART_KEYS)),
                             .row_floats = d->out.dim[3] + STATE};
    struct layout layout = {0};
    f.first_task = layout_add(&layout, batch + 1, sizeof(int64_t));
    f.pending = layout_add(&layout, batch * heads, sizeof(atomic_int));
    f.partials =
        layout_add(&layout, f.parts > 1 ? batch * heads : 0, (size_t)(f.parts * f.rows * f.row_floats) * sizeof(float));
    f.workers = layout_add(&layout, threads, tile_lay_out(d, TILE_ROWS, KEY_BLOCK).size);
    f.size = layout.size;
    return f;
}

size_t gqa_flash_workspace(const struct tdm_op *op)
{
    return lay_out(&op->desc.gqa, op->services->threads).size;
}

struct flash {
    struct gqa g;
    struct flash_layout layout;
    int64_t *first_task; /* [batch + 1] */
    atomic_int *pending; /* [batch, kv_heads] parts not yet done */
};

static float *partial(const struct flash *f, int64_t batch, int64_t head, int64_t part)
{
    int64_t slot = (batch * f->g.kv_heads + head) * f->layout.parts + part;
    return (float *)at(f->g.scratch, (int64_t)f->layout.partials) + slot * f->layout.rows * f->layout.row_floats;
}

/* ---- parts ------------------------------------------------------------------------ */

static void save_part(const struct flash *f, const struct tile *t, float *to)
{
    int64_t v_dim = f->g.v_dim;
    for (int r = 0; r < t->rows; r++, to += f->layout.row_floats) {
        to[0] = t->m[r];
        to[1] = t->l[r];
        to[2] = t->unit[r];
        memcpy(to + STATE, t->o + r * t->layout.o_stride, (size_t)v_dim * sizeof *to);
    }
}

/* o, m, l and the unit of one row from its parts, in order. A part without a visible key has m = -infinity and does not
 * count. */
static void merge_row(const struct flash *f, struct tile *t, int r, int64_t parts)
{
    float m = -INFINITY, l = 0, unit = 0, *o = t->o + r * t->layout.o_stride;
    int64_t v_dim = f->g.v_dim;
    for (int64_t part = 0; part < parts; part++) {
        const float *p = partial(f, t->batch, t->head, part) + r * f->layout.row_floats;
        m = p[0] > m || isnan(p[0]) ? p[0] : m;
        unit = p[2] > unit ? p[2] : unit;
    }
    memset(o, 0, (size_t)v_dim * sizeof *o);
    for (int64_t part = 0; part < parts; part++) {
        const float *p = partial(f, t->batch, t->head, part) + r * f->layout.row_floats;
        if (p[1] == 0)
            continue;
        float weight = expf(p[0] - m);
        l += weight * p[1];
        weight *= unit > 0 ? p[2] / unit : 0;
        for (int64_t c = 0; c < v_dim; c++)
            o[c] += weight * p[STATE + c];
    }
    t->m[r] = m;
    t->l[r] = l;
    t->unit[r] = unit;
}

static bool finish_part(const struct flash *f, struct tile *t, int64_t parts, int64_t part)
{
    save_part(f, t, partial(f, t->batch, t->head, part));
    atomic_int *pending = &f->pending[t->batch * f->g.kv_heads + t->head];
    if (atomic_fetch_sub_explicit(pending, 1, memory_order_acq_rel) != 1)
        return false;
    for (int r = 0; r < t->rows; r++)
        merge_row(f, t, r, parts);
    return true;
}

/* ---- tasks ------------------------------------------------------------------------- */

static int64_t sequence_of(const struct flash *f, int64_t task)
{
    int64_t low = 0, high = f->g.desc->q.dim[0];
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (f->first_task[middle] <= task)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void flash_task(void *arg, int64_t task, int worker)
{
    const struct flash *f = arg;
    int64_t batch = sequence_of(f, task), local = task - f->first_task[batch];
    struct partition p = partition_of(&f->g, batch);
    int64_t head = local / (p.tiles * p.parts), part = local % p.parts;
    int64_t tile_index = p.tiles - 1 - local / p.parts % p.tiles; /* causal: the longest tiles first */
    int64_t first = tile_index * TILE_ROWS, all_rows = f->g.args->q_len[batch] * f->g.group;
    int rows = (int)min64(TILE_ROWS, all_rows - first);
    struct tile_layout layout = tile_lay_out(f->g.desc, TILE_ROWS, KEY_BLOCK);
    void *scratch = at(f->g.scratch, (int64_t)f->layout.workers + worker * (int64_t)layout.size);

    struct tile t = tile_open(&f->g, batch, head, first, rows, layout, scratch);
    int64_t index = 0, end = view_count(t.view);
    if (p.parts > 1) {
        index = part * p.part_keys;
        end = min64(index + p.part_keys, end);
    }
    tile_attend(&t, index, end);
    if (p.parts == 1 || finish_part(f, &t, p.parts, part)) {
        gqa_store_output(&f->g, batch, head, first, rows, t.o, t.layout.o_stride, t.unit, t.m, t.l, t.shift);
        tile_capture(&t);
    }
}

tdm_status gqa_flash_run(const struct tdm_op *op, const struct run *run, bool integer)
{
    struct flash f = {.g = gqa_open(op, run), .layout = lay_out(&op->desc.gqa, op->services->threads)};
    f.g.integer = integer;
    f.first_task = at(run->scratch, (int64_t)f.layout.first_task);
    f.pending = at(run->scratch, (int64_t)f.layout.pending);
    int64_t tasks = 0, batch = f.g.desc->q.dim[0];
    for (int64_t b = 0; b < batch; b++) {
        struct partition p = partition_of(&f.g, b);
        f.first_task[b] = tasks;
        tasks += f.g.kv_heads * p.tiles * p.parts;
        for (int64_t h = 0; h < f.g.kv_heads; h++)
            atomic_init(&f.pending[b * f.g.kv_heads + h], (int)p.parts);
    }
    f.first_task[batch] = tasks;
    cpu_parallel_for(op, f.g.leaf, tasks, flash_task, &f);
    return TDM_OK;
}

static tdm_status flash_run(const struct tdm_op *op, const struct run *run)
{
    return gqa_flash_run(op, run, false);
}

const struct impl cpu_gqa_flash = {.name = "flash", .op = OP_GQA, .workspace = gqa_flash_workspace, .run = flash_run};
