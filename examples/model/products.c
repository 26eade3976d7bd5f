#include "products.h"

static bool is_like(const matrix *a, const matrix *b)
{
    return a->rows == b->rows && a->columns == b->columns && a->scale_dtype == b->scale_dtype &&
           a->block[0] == b->block[0] && a->block[1] == b->block[1];
}

/* The number of a matrix's op, or `count`. */
static int find(const products *p, const matrix *m)
{
    int i = 0;
    while (i < p->count && !is_like(&p->like[i], m)) {
        i++;
    }
    return i;
}

/* Make the op for a matrix, unless there is one already. */
static bool add(products *p, const matrix *m, error *err)
{
    if (find(p, m) < p->count) {
        return true;
    }
    if (p->count == MAX_PRODUCTS) {
        return fail(err, "weights: more than %d different shapes and scales", MAX_PRODUCTS);
    }
    tdm_fp8_matmul_desc desc = TDM_INIT(tdm_fp8_matmul_desc);
    desc.a = (tdm_tensor){.dtype = p->activations, .rank = 2, .dim = {p->max_rows, m->columns}};
    desc.b = (tdm_tensor){
        .dtype = TDM_F8E4M3,
        .scale_dtype = m->scale_dtype,
        .rank = 2,
        .scaling = TDM_PER_BLOCK,
        .dim = {m->rows, m->columns},
        .block = {m->block[0], m->block[1]},
    };
    desc.out = (tdm_tensor){.dtype = p->activations, .rank = 2, .dim = {p->max_rows, m->rows}};
    p->like[p->count] = *m;
    return check(err, tdm_fp8_matmul_create(p->at->ctx, p->at->id, &desc, &p->ops[p->count++]), "fp8_matmul");
}

static bool add_all(products *p, const config *cfg, const weights *w, error *err)
{
    bool ok = add(p, &w->head, err);
    for (int64_t i = 0; ok && i < cfg->layers; i++) {
        const layer_weights *l = &w->layers[i];
        const matrix *const all[] = {&l->q, &l->k, &l->v, &l->o, &l->gate, &l->up, &l->down};
        for (size_t j = 0; ok && j < sizeof all / sizeof *all; j++) {
            ok = add(p, all[j], err);
        }
    }
    return ok;
}

bool products_create(products *p, device *at, const config *cfg, const weights *w, tdm_dtype activations,
                     int64_t max_rows, error *err)
{
    *p = (products){.at = at, .activations = activations, .max_rows = max_rows};
    return add_all(p, cfg, w, err) && device_workspaces(at, p->ops, p->count, p->workspaces, err);
}

void products_destroy(products *p)
{
    for (int i = 0; i < p->count; i++) {
        tdm_workspace_destroy(p->workspaces[i]);
        tdm_op_destroy(p->ops[i]);
    }
    *p = (products){0};
}

bool products_run(const products *p, const matrix *m, const void *in, int64_t rows, void *out, error *err)
{
    const int i = find(p, m);
    tdm_fp8_matmul_args args = TDM_INIT(tdm_fp8_matmul_args);
    args.a = in;
    args.b = m->codes;
    args.b_scale = m->scales;
    args.m = rows;
    args.out = out;
    return check(err, tdm_fp8_matmul_run(p->ops[i], p->workspaces[i], p->at->stream, &args), "fp8_matmul");
}
