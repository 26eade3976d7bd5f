/* kv_append and gqa: descs with any of their features, and runs of what they accept. */
#include "input.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { APPEND, GQA, OPS, KEYS = 160 };

static tdm_tensor plane(struct input *in, tdm_dtype dtype, int64_t batch, int64_t heads, int64_t rows)
{
    uint8_t bits = take(in);
    return tensor(dtype, 4, bits & 1 ? batch : 1, bits & 2 ? heads : 1, bits & 4 ? rows : 1, KEYS);
}

static void describe_append(struct input *in, tdm_kv_cache cache, tdm_dtype dtype, int64_t rows)
{
    const int64_t *k = cache.k.dim, *v = cache.v.dim;
    desc.append = (tdm_kv_append_desc){.struct_size = sizeof desc.append,
                                       .k = tensor(dtype, 4, k[0], k[1], rows, k[3]),
                                       .v = tensor(dtype, 4, k[0], k[1], rows, v[3]),
                                       .cache = cache};
    uint8_t bits = take(in);
    if (bits & 1)
        desc.append.k_norm = (tdm_norm){float_type(in), 1e-6F};
    if (bits & 2)
        desc.append.rotary = rotary(in, k[3]);
    if (bits & 4 && !cache.ring) {
        desc.append.past = cache;
        desc.append.past.k.dim[2] = desc.append.past.v.dim[2] = dimension(in, 50);
    }
}

static void describe_gqa(struct input *in, tdm_kv_cache cache, tdm_dtype dtype, int64_t rows)
{
    const int64_t *k = cache.k.dim, *v = cache.v.dim, group = small(in, 1, 3);
    int64_t heads = k[1] > INT32_MAX || k[1] < 0 ? k[1] : k[1] * group;
    tdm_gqa_desc *d = &desc.gqa;
    tdm_gqa_desc_init(d);
    d->q = tensor(dtype, 4, k[0], heads, rows, k[3]);
    d->out = tensor(dtype, 4, k[0], heads, rows, v[3]);
    d->cache = cache;
    d->window_left = (int32_t)small(in, -1, 20);
    d->window_right = (int32_t)small(in, -1, 5);
    uint16_t bits = (uint16_t)(take(in) | take(in) << 8);
    d->sink_tokens = bits & 1 ? (int32_t)small(in, 0, 5) : 0;
    d->q_norm = bits & 2 ? (tdm_norm){float_type(in), 0} : d->q_norm;
    d->rotary = bits & 4 ? rotary(in, k[3]) : d->rotary;
    d->softcap = bits & 8 ? 10 : 0;
    d->has_head_sink = bits >> 4 & 1;
    d->smooth_softmax = bits >> 5 & 1 && !d->has_head_sink;
    d->has_alibi = bits >> 6 & 1;
    d->has_tree = bits >> 7 & 1;
    if (bits & 1 << 8)
        d->bias = plane(in, float_type(in), k[0], heads, rows);
    if (bits & 1 << 9)
        d->mask = plane(in, bits & 1 << 10 ? TDM_BOOL : TDM_BITS, k[0], heads, rows);
    if (bits & 1 << 11) {
        d->scores = tensor(float_type(in), 4, k[0], heads, rows, KEYS);
        d->capture = (tdm_capture)small(in, 1, 2);
    }
}

static size_t describe(struct input *in, int op)
{
    int64_t batch = dimension(in, 3), heads = dimension(in, 3), rows = dimension(in, 9), capacity = dimension(in, 150);
    int64_t k_dim = dimension(in, 40), v_dim = dimension(in, 40);
    tdm_dtype dtype = float_type(in);
    tdm_kv_cache cache = {.k = stored(in, 4, (int64_t[]){batch, heads, capacity, k_dim}),
                          .v = stored(in, 4, (int64_t[]){batch, heads, capacity, v_dim})};
    uint8_t bits = take(in);
    cache.rotate_k = bits & 1;
    cache.rotate_v = bits >> 1 & 1;
    cache.has_k_offset = bits >> 2 & 1;
    cache.ring = bits >> 3 & 1;
    cache.ring_sinks = cache.ring ? (int32_t)small(in, 0, 3) : 0;
    memset(&desc, 0, sizeof desc);
    if (op == APPEND)
        describe_append(in, cache, dtype, rows);
    else
        describe_gqa(in, cache, dtype, rows);
    return op == APPEND ? sizeof desc.append : sizeof desc.gqa;
}

static tdm_status create(int op, tdm_op **made)
{
    return op == APPEND ? tdm_kv_append_create(ctx, cpu, &desc.append, made)
                        : tdm_gqa_create(ctx, cpu, &desc.gqa, made);
}

/* ---- runs ------------------------------------------------------------------------------- */

static const void *norm_weight(struct input *in, const tdm_norm *norm, double channels)
{
    return norm->dtype ? block(in, row_bytes(norm->dtype, channels)) : NULL;
}

/* What some of the inputs leave to the default. */
static const int32_t *positions(struct input *in, const tdm_rotary *rotary, double n)
{
    return rotary->dtype && take(in) & 1 ? lengths(in, n, rotary->positions - 1) : NULL;
}

static void run_append(struct input *in, const tdm_op *op, tdm_workspace *workspace)
{
    const tdm_kv_append_desc *d = &desc.append;
    double batch = dim(&d->k, 3);
    tdm_kv_append_args args = {.struct_size = sizeof args,
                               .k = block(in, tensor_bytes(&d->k)),
                               .v = block(in, tensor_bytes(&d->v)),
                               .cache = cache_data(in, &d->cache),
                               .new_len = lengths(in, batch, d->k.dim[2]),
                               .pos = lengths(in, batch, d->cache.k.dim[2] * (d->cache.ring ? 3 : 1)),
                               .k_norm = norm_weight(in, &d->k_norm, dim(&d->k, 0)),
                               .cos = table(in, &d->rotary),
                               .sin = table(in, &d->rotary),
                               .positions = positions(in, &d->rotary, batch * dim(&d->k, 1))};
    if (d->past.k.rank) {
        args.past = cache_data(in, &d->past);
        args.past.k_offset = NULL;
    }
    tdm_kv_append_run(op, workspace, NULL, &args);
}

static const void *plane_data(struct input *in, const tdm_tensor *plane)
{
    return plane->rank ? block(in, tensor_bytes(plane)) : NULL;
}

static void run_gqa(struct input *in, const tdm_op *op, tdm_workspace *workspace)
{
    const tdm_gqa_desc *d = &desc.gqa;
    double batch = dim(&d->q, 3), heads = dim(&d->q, 2), rows = dim(&d->q, 1);
    tdm_gqa_args args = {.struct_size = sizeof args,
                         .q = block(in, tensor_bytes(&d->q)),
                         .cache = cache_data(in, &d->cache),
                         .q_len = lengths(in, batch, d->q.dim[2]),
                         .kv_len = lengths(in, batch, d->cache.k.dim[2] * (d->cache.ring ? 3 : 1)),
                         .out = block(in, tensor_bytes(&d->out)),
                         .lse = block(in, 4 * batch * heads * rows),
                         .q_norm = norm_weight(in, &d->q_norm, dim(&d->q, 0)),
                         .cos = table(in, &d->rotary),
                         .sin = table(in, &d->rotary),
                         .positions = positions(in, &d->rotary, batch * rows),
                         .bias = plane_data(in, &d->bias),
                         .mask = plane_data(in, &d->mask),
                         .head_sink = d->has_head_sink ? block(in, 4 * heads) : NULL,
                         .alibi = d->has_alibi ? block(in, 4 * heads) : NULL,
                         .tree = d->has_tree ? block(in, 8 * batch * rows) : NULL,
                         .scores = (void *)plane_data(in, &d->scores)};
    tdm_gqa_run(op, workspace, NULL, &args);
}

static void run(struct input *in, int op, const tdm_op *made, tdm_workspace *workspace)
{
    if (op == APPEND)
        run_append(in, made, workspace);
    else
        run_gqa(in, made, workspace);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz(data, size, OPS, describe, create, run);
}
