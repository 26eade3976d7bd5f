/* qk and sv against their references: every stored type and scaling, groups of heads, few and many rows, odd
 * lengths. */
#include "indices.h"
#include "problem.h"
#include "tests/reference/formats.h"
#include "tests/reference/random.h"
#include "tests/reference/reference.h"
#include "tests/reference/tensor.h"
#include "types.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct stored_type types[] = {
    {TDM_F32, TDM_UNSCALED, 0},     {TDM_F16, TDM_UNSCALED, 0},      {TDM_BF16, TDM_UNSCALED, 0},
    {TDM_F8E4M3, TDM_UNSCALED, 0},  {TDM_F8E4M3, TDM_PER_TENSOR, 0}, {TDM_F8E4M3, TDM_PER_CHANNEL, 0},
    {TDM_F8E4M3, TDM_PER_TOKEN, 0}, {TDM_F8E4M3, TDM_PER_GROUP, 32}, {TDM_I8, TDM_PER_TENSOR, 0},
    {TDM_I8, TDM_PER_CHANNEL, 0},   {TDM_I8, TDM_PER_TOKEN, 0},      {TDM_I8, TDM_PER_GROUP, 16},
    {TDM_I8, TDM_PER_GROUP, 48},    {TDM_I4, TDM_PER_TENSOR, 0},     {TDM_I4, TDM_PER_CHANNEL, 0},
    {TDM_I4, TDM_PER_TOKEN, 0},     {TDM_I4, TDM_PER_GROUP, 16},     {TDM_I4, TDM_PER_GROUP, 128},
};

struct shape {
    int64_t batch, kv_heads, group, max_rows, max_keys, channels;
    int64_t rows, keys; /* of the run */
};

struct product_setup {
    enum each_op op; /* QK or SV */
    int type;
    tdm_dtype a, out;
    struct shape shape;
    bool interleaved, accumulate;
    float alpha;
};

struct product_problem {
    struct problem base;
    tdm_product_desc desc;
    tdm_product_args args;
    struct guard a, x, scale;
    struct expected expected;
};

/* Out's rows and columns that the run writes. */
static tdm_tensor written(const struct product_problem *p)
{
    tdm_tensor view = p->desc.out;
    for (int axis = 0; axis < 3; axis++)
        view.stride[axis] = tensor_stride(&p->desc.out, axis);
    view.dim[2] = p->args.rows;
    view.dim[3] = p->base.op == QK ? p->args.keys : p->desc.out.dim[3];
    return view;
}

/* The results, and that everything else is as it was. */
static const char *check(const struct problem *base)
{
    const struct product_problem *p = (const struct product_problem *)base;
    if (!base->outputs)
        return NULL;
    tdm_tensor view = written(p);
    const char *bad = compare_tensor(&view, p->args.out, &p->expected, NULL);
    size_t bytes = base->output[0].memory.bytes, row = (size_t)format_bytes(view.dtype, view.dim[3]);
    char *rest = memcpy(malloc(bytes), base->output[0].initial, bytes);
    for (int64_t b = 0; b < view.dim[0]; b++)
        for (int64_t h = 0; h < view.dim[1]; h++)
            for (int64_t r = 0; r < view.dim[2]; r++)
                memcpy(tensor_row(&view, rest, b, h, r), tensor_row(&view, p->args.out, b, h, r), row);
    if (!bad)
        bad = compare_bytes("a byte that is no result", p->args.out, rest, bytes);
    free(rest);
    return bad;
}

static void describe(struct product_problem *p, const struct product_setup *setup)
{
    const struct shape *s = &setup->shape;
    int64_t heads = s->kv_heads * s->group, depth = setup->op == QK ? s->channels : s->max_keys;
    int64_t columns = setup->op == QK ? s->max_keys : s->channels;
    p->desc = TDM_INIT(tdm_product_desc);
    p->desc.a = tensor_in_layout(setup->a, setup->interleaved, s->batch, heads, s->max_rows, depth);
    p->desc.x =
        tensor_in_layout(types[setup->type].dtype, setup->interleaved, s->batch, s->kv_heads, s->max_keys, s->channels);
    p->desc.out = tensor_in_layout(setup->out, setup->interleaved, s->batch, heads, s->max_rows, columns);
    p->desc.x.scaling = types[setup->type].scaling;
    p->desc.x.block[0] = types[setup->type].group ? 1 : 0;
    p->desc.x.block[1] = types[setup->type].group;
}

static struct product_problem *product_new(const struct product_setup *setup)
{
    struct product_problem *p = calloc(1, sizeof *p);
    struct random random = {(uint64_t)(setup->type * 64 + setup->shape.keys)};
    describe(p, setup);
    p->a = guard_new((size_t)tensor_bytes(&p->desc.a), 0xFF);
    p->x = guard_new((size_t)tensor_bytes(&p->desc.x), 0xFF);
    p->scale = guard_new((size_t)tensor_scales(&p->desc.x) * sizeof(float), 0);
    random_fill(&p->desc.a, p->a.data, 2, &random);
    random_fill(&p->desc.x, p->x.data, 2, &random);
    random_scales(p->scale.data, tensor_scales(&p->desc.x), 0.05, &random);
    p->base = (struct problem){.op = setup->op, .desc = &p->desc, .args = &p->args, .check = check};
    p->args = (tdm_product_args){.struct_size = sizeof p->args,
                                 .a = p->a.data,
                                 .x = p->x.data,
                                 .x_scale = p->desc.x.scaling ? p->scale.data : NULL,
                                 .out = problem_output(&p->base, tensor_bytes(&p->desc.out)),
                                 .rows = setup->shape.rows,
                                 .keys = setup->shape.keys,
                                 .alpha = setup->op == QK ? setup->alpha : NAN,
                                 .accumulate = setup->accumulate};
    if (setup->accumulate) {
        random_fill(&p->desc.out, p->args.out, 5, &random);
        problem_keep(&p->base);
    }
    return p;
}

static void product_free(struct product_problem *p)
{
    guard_free(&p->a);
    guard_free(&p->x);
    guard_free(&p->scale);
    problem_free_outputs(&p->base);
    expected_free(&p->expected);
    free(p);
}

static void finish(struct product_problem *p, const struct product_setup *setup)
{
    char label[160];
    const struct shape *s = &setup->shape;
    snprintf(label, sizeof label, "%s, %s by %s %s to %s, %d rows of %d heads a group, %d keys, %d channels%s",
             each_op_name(setup->op), format_name(setup->a), format_name(types[setup->type].dtype),
             scaling_text(types[setup->type].scaling), format_name(setup->out), (int)s->rows, (int)s->group,
             (int)s->keys, (int)s->channels, setup->accumulate ? ", accumulated" : "");
    p->expected = setup->op == QK ? reference_qk(&p->desc, &p->args) : reference_sv(&p->desc, &p->args);
    guard_read_only(&p->a);
    guard_read_only(&p->x);
    guard_read_only(&p->scale);
    EXPECT_NONE(problem_all_variants(&p->base), label);
    product_free(p);
}

static void run(const struct product_setup *setup)
{
    finish(product_new(setup), setup);
}

/* ---- types and shapes ---------------------------------------------------------------------------- */

static const struct shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 1, 1},        {2, 2, 3, 2, 40, 64, 1, 40},     {1, 2, 4, 9, 150, 37, 8, 131},
    {2, 1, 2, 70, 33, 129, 67, 33},  {1, 3, 1, 3, 300, 260, 2, 277},  {1, 1, 16, 2, 129, 96, 1, 129},
    {1, 1, 17, 1, 128, 128, 1, 128}, {1, 1, 5, 40, 257, 16, 39, 256},
};

TEST_EACH(product, types, COUNT(types) * 2)
{
    for (int i = 0; i < COUNT(shapes); i++) {
        struct product_setup setup = {.op = *at % 2 ? SV : QK,
                                      .type = *at / 2,
                                      .a = float_types[(*at / 2 + i) % 3],
                                      .out = float_types[(*at / 2 + i / 3) % 3],
                                      .shape = shapes[i],
                                      .interleaved = i % 2,
                                      .accumulate = *at % 2 && i % 3 == 1,
                                      .alpha = i % 2 ? 0.125F : -1.7F};
        run(&setup);
    }
}

/* Every output type after each way to scale, few rows and many. */
TEST_EACH(product, outputs, 9 * 2)
{
    for (int type = 0; type < COUNT(types); type += 3) {
        struct product_setup setup = {.op = *at % 2 ? SV : QK,
                                      .type = type,
                                      .a = float_types[*at / 2 % 3],
                                      .out = float_types[*at / 6],
                                      .shape = {1, 2, 2, 20, 50, 70, type % 2 ? 2 : 20, 50},
                                      .accumulate = *at % 2,
                                      .alpha = 1};
        run(&setup);
    }
}

/* No rows, no keys, no channels, no heads, an empty batch: what remains is 0, or as it was. */
TEST_EACH(product, empty, COUNT(types) * 2)
{
    static const struct shape empty[] = {
        {1, 2, 2, 3, 20, 17, 0, 20}, {1, 2, 2, 3, 20, 17, 3, 0},  {2, 1, 3, 4, 20, 0, 4, 20},
        {1, 2, 2, 3, 0, 17, 3, 0},   {0, 2, 2, 3, 20, 17, 3, 20}, {1, 0, 0, 3, 20, 17, 3, 20},
    };
    for (int i = 0; i < COUNT(empty) * 2; i++) {
        struct product_setup setup = {.op = *at % 2 ? SV : QK,
                                      .type = *at / 2,
                                      .a = TDM_F32,
                                      .out = float_types[i % 3],
                                      .shape = empty[i / 2],
                                      .accumulate = *at % 2 && i % 2,
                                      .alpha = 2};
        run(&setup);
    }
}

/* ---- values -------------------------------------------------------------------------------------- */

static const struct shape rows_of[] = {{1, 2, 2, 3, 30, 40, 2, 29}, {1, 2, 2, 30, 30, 40, 29, 29}};

/* NaN and infinities reach the sums that they are terms of and no others; those beyond the run's rows and keys none. */
TEST_EACH(product, not_finite, COUNT(types) * 4)
{
    struct product_setup setup = {.op = *at % 2 ? SV : QK,
                                  .type = *at / 4,
                                  .a = float_types[*at / 4 % 3],
                                  .out = TDM_F32,
                                  .shape = rows_of[*at / 2 % 2],
                                  .alpha = 1};
    struct product_problem *p = product_new(&setup);
    int64_t last_row = setup.shape.rows - 1, last_key = setup.shape.keys - 1;
    format_encode(setup.a, tensor_row(&p->desc.a, p->a.data, 0, 1, 0), 3, NAN);
    format_encode(setup.a, tensor_row(&p->desc.a, p->a.data, 0, 2, last_row), 5, INFINITY);
    format_encode(setup.a, tensor_row(&p->desc.a, p->a.data, 0, 0, setup.shape.rows), 0, NAN);
    if (!is_quantized(types[setup.type].dtype)) {
        format_encode(p->desc.x.dtype, tensor_row(&p->desc.x, p->x.data, 0, 0, last_key), 39, NAN);
        format_encode(p->desc.x.dtype, tensor_row(&p->desc.x, p->x.data, 0, 1, 4), 17, -INFINITY);
        format_encode(p->desc.x.dtype, tensor_row(&p->desc.x, p->x.data, 0, 0, last_key + 1), 0, NAN);
    }
    finish(p, &setup);
}

/* Scales of 0, of NaN and very large ones, each for what it covers. */
TEST_EACH(product, odd_scales, COUNT(types) * 4)
{
    static const float odd[] = {0, NAN, 1e30F, -1e-30F, 1};
    struct product_setup setup = {.op = *at % 2 ? SV : QK,
                                  .type = *at / 4,
                                  .a = TDM_F32,
                                  .out = TDM_F32,
                                  .shape = rows_of[*at / 2 % 2],
                                  .alpha = 1};
    if (!types[setup.type].scaling)
        return;
    for (int i = 0; i < COUNT(odd); i++) {
        struct product_problem *p = product_new(&setup);
        for (int64_t j = 0; j < tensor_scales(&p->desc.x); j += 3)
            ((float *)p->scale.data)[j] = odd[(i + j / 3) % COUNT(odd)];
        finish(p, &setup);
    }
}

TEST_EACH(product, alphas, 5)
{
    static const float alphas[] = {0, 1, -1, 1e-20F, 3e10F};
    for (int type = 0; type < COUNT(types); type++) {
        struct product_setup setup = {
            .op = QK, .type = type, .a = TDM_F32, .out = TDM_F32, .shape = rows_of[type % 2], .alpha = alphas[*at]};
        run(&setup);
    }
}

/* Small integers: every sum is exact, in whatever order it is taken. */
TEST_EACH(product, exact, COUNT(types) * 2)
{
    struct product_setup setup = {.op = *at % 2 ? SV : QK,
                                  .type = *at / 2,
                                  .a = TDM_F32,
                                  .out = TDM_F32,
                                  .shape = {1, 2, 3, 10, 200, 200, *at / 2 % 2 ? 10 : 2, 200},
                                  .accumulate = *at % 2,
                                  .alpha = 0.5F};
    struct product_problem *p = product_new(&setup);
    tdm_tensor *tensors[] = {&p->desc.a, &p->desc.x, &p->desc.out};
    void *data[] = {p->a.data, p->x.data, p->args.out};
    for (int t = 0; t < 3; t++)
        for (int64_t i = 0; i < tensor_elements(tensors[t]); i++) {
            int64_t columns = tensors[t]->dim[3], row = i / columns;
            void *to = tensor_row(tensors[t], data[t], 0, row / tensors[t]->dim[2], row % tensors[t]->dim[2]);
            format_encode(tensors[t]->dtype, to, i % columns, (double)(i * 7 % 15 - 7));
        }
    for (int64_t i = 0; i < tensor_scales(&p->desc.x); i++)
        ((float *)p->scale.data)[i] = (float)(1 << i % 3);
    problem_keep(&p->base);
    p->expected = setup.op == QK ? reference_qk(&p->desc, &p->args) : reference_sv(&p->desc, &p->args);
    memset(p->expected.bound, 0, (size_t)(p->desc.out.dim[1] * setup.shape.rows * 200) * sizeof(double));
    EXPECT_NONE(problem_all_variants(&p->base), "exact");
    product_free(p);
}

/* ---- bits ------------------------------------------------------------------------------------------ */

/* Each sequence alone gives the bits that it has in the batch. */
static const char *alone_body(struct problem *problem, tdm_ctx *ctx, void *arg)
{
    const struct product_problem *p = arg;
    const struct guard *out = &problem->output[0].memory;
    struct guard all = guard_new(out->bytes, 0);
    memcpy(all.data, out->data, out->bytes);
    memcpy(out->data, problem->output[0].initial, out->bytes);
    const char *bad = NULL;
    for (int64_t b = 0; b < p->desc.a.dim[0] && !bad; b++) {
        tdm_product_desc desc = p->desc;
        tdm_product_args args = p->args;
        desc.a.dim[0] = desc.x.dim[0] = desc.out.dim[0] = 1;
        args.a = tensor_row(&p->desc.a, p->args.a, b, 0, 0);
        args.x = tensor_row(&p->desc.x, p->args.x, b, 0, 0);
        args.out = tensor_row(&p->desc.out, p->args.out, b, 0, 0);
        if (is_dynamic(&p->desc.x))
            args.x_scale += b * tensor_scales(&desc.x);
        struct problem one = {.op = problem->op, .desc = &desc, .args = &args};
        bad = problem_run(&one, ctx) ? tdm_last_error() : NULL;
    }
    if (!bad)
        bad = compare_bytes("sequences alone", out->data, all.data, out->bytes);
    guard_free(&all);
    return bad;
}

TEST_EACH(product, batch_neighbours, COUNT(types) * 2)
{
    struct product_setup setup = {.op = *at % 2 ? SV : QK,
                                  .type = *at / 2,
                                  .a = TDM_F32,
                                  .out = TDM_F32,
                                  .shape = {3, 2, 3, 12, 140, 70, *at / 2 % 2 ? 12 : 1, 133},
                                  .accumulate = *at % 2,
                                  .alpha = 0.3F};
    struct product_problem *p = product_new(&setup);
    EXPECT_NONE(problem_each_variant(&p->base, 2, alone_body, p), "batch neighbours");
    product_free(p);
}
