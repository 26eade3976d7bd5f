/* kv_shift, merge_states, qk and sv: the create calls, and runs of what they accept. */
#include "input.h"

#include <stdbool.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SHIFT, MERGE, QK, SV, OPS, MOST_PARTS = 6 };

static size_t describe_product(int op, tdm_dtype dtype, tdm_dtype out, int64_t heads, int64_t rows, tdm_tensor x)
{
    int64_t keys = x.dim[2], channels = x.dim[3];
    desc.product =
        (tdm_product_desc){sizeof desc.product, tensor(dtype, 4, x.dim[0], heads, rows, op == QK ? channels : keys), x,
                           tensor(out, 4, x.dim[0], heads, rows, op == QK ? keys : channels)};
    return sizeof desc.product;
}

static size_t describe(struct input *in, int op)
{
    int64_t batch = dimension(in, 3), heads = dimension(in, 3), rows = dimension(in, 20), keys = dimension(in, 150);
    int64_t channels = dimension(in, 40), group = small(in, 1, 9);
    tdm_dtype dtype = float_type(in), out = float_type(in);
    const int64_t dims[4] = {batch, heads, keys, channels};
    memset(&desc, 0, sizeof desc);
    if (op == MERGE) {
        desc.merge = (tdm_merge_states_desc){sizeof desc.merge, tensor(dtype, 4, batch, heads, rows, channels),
                                             tensor(out, 4, batch, heads, rows, channels), (int32_t)small(in, 1, 5)};
        return sizeof desc.merge;
    }
    if (op != SHIFT)
        return describe_product(op, dtype, out, heads > INT32_MAX || heads < 0 ? heads : heads * group, rows,
                                stored(in, 4, dims));
    uint8_t bits = take(in);
    desc.shift = (tdm_kv_shift_desc){.struct_size = sizeof desc.shift,
                                     .cache = {.k = stored(in, 4, dims),
                                               .v = stored(in, 4, dims),
                                               .rotate_k = bits & 1,
                                               .rotate_v = bits >> 1 & 1,
                                               .has_k_offset = bits >> 2 & 1},
                                     .sinks = (int32_t)small(in, 0, 4)};
    if (bits & 8)
        desc.shift.rotary = rotary(in, channels);
    return sizeof desc.shift;
}

static tdm_status create(int op, tdm_op **made)
{
    switch (op) {
    case SHIFT:
        return tdm_kv_shift_create(ctx, cpu, &desc.shift, made);
    case MERGE:
        return tdm_merge_states_create(ctx, cpu, &desc.merge, made);
    case QK:
        return tdm_qk_create(ctx, cpu, &desc.product, made);
    default:
        return tdm_sv_create(ctx, cpu, &desc.product, made);
    }
}

static void run_shift(struct input *in, const tdm_op *op, tdm_workspace *workspace)
{
    const tdm_kv_shift_desc *d = &desc.shift;
    tdm_kv_shift_args args = {.struct_size = sizeof args,
                              .cache = cache_data(in, &d->cache),
                              .len = lengths(in, dim(&d->cache.k, 3), d->cache.k.dim[2]),
                              .drop = lengths(in, dim(&d->cache.k, 3), 9),
                              .cos = table(in, &d->rotary),
                              .sin = table(in, &d->rotary)};
    tdm_kv_shift_run(op, workspace, NULL, &args);
}

static void run_merge(struct input *in, const tdm_op *op, tdm_workspace *workspace)
{
    const tdm_merge_states_desc *d = &desc.merge;
    double rows = 4 * dim(&d->out, 3) * dim(&d->out, 2) * dim(&d->out, 1);
    const void *part[MOST_PARTS];
    const float *part_lse[MOST_PARTS];
    for (int i = 0; i < MOST_PARTS; i++) {
        part[i] = block(in, tensor_bytes(&d->part));
        part_lse[i] = block(in, rows);
    }
    double bytes = tensor_bytes(&d->out);
    bool in_place = take(in) & 1 && bytes == tensor_bytes(&d->part);
    tdm_merge_states_args args = {.struct_size = sizeof args,
                                  .part = part,
                                  .part_lse = part_lse,
                                  .parts = (int32_t)small(in, -1, MOST_PARTS),
                                  .out = in_place ? (void *)part[0] : block(in, bytes),
                                  .lse = take(in) & 1 ? NULL : block(in, rows)};
    tdm_merge_states_run(op, workspace, NULL, &args);
}

static void run_product(struct input *in, int op, const tdm_op *made, tdm_workspace *workspace)
{
    const tdm_product_desc *d = &desc.product;
    tdm_product_args args = {.struct_size = sizeof args,
                             .a = block(in, tensor_bytes(&d->a)),
                             .x = block(in, tensor_bytes(&d->x)),
                             .x_scale = scales(in, &d->x),
                             .out = block(in, tensor_bytes(&d->out)),
                             .rows = small(in, -1, 21),
                             .keys = small(in, -1, 151),
                             .alpha = 0.5F,
                             .accumulate = op == SV ? take(in) & 1 : 0};
    if (op == QK)
        tdm_qk_run(made, workspace, NULL, &args);
    else
        tdm_sv_run(made, workspace, NULL, &args);
}

static void run(struct input *in, int op, const tdm_op *made, tdm_workspace *workspace)
{
    if (op == SHIFT)
        run_shift(in, made, workspace);
    else if (op == MERGE)
        run_merge(in, made, workspace);
    else
        run_product(in, op, made, workspace);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz(data, size, OPS, describe, create, run);
}
