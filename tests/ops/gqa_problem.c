#include "gqa_problem.h"

#include "gqa_inputs.h"
#include "tests/reference/formats.h"
#include "tests/reference/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { UNUSED = 0xFF, SPARE_SLOTS = 3 };

/* The first `rows` rows of sequence b. */
static tdm_tensor sequence(const tdm_tensor *tensor, int64_t rows)
{
    tdm_tensor view = *tensor;
    for (int axis = 0; axis < 3; axis++)
        view.stride[axis] = tensor_stride(tensor, axis);
    view.dim[0] = 1;
    view.dim[2] = rows < tensor->dim[2] ? rows : tensor->dim[2];
    return view;
}

static double largest_code(tdm_dtype dtype)
{
    return dtype == TDM_I8 ? 127 : dtype == TDM_I4 ? 7 : 448;
}

static struct guard filled(const tdm_tensor *tensor, const int32_t *rows, double magnitude, struct random *random)
{
    struct guard guard = guard_new((size_t)tensor_bytes(tensor), UNUSED);
    double largest = tensor->scaling == TDM_UNSCALED ? magnitude : largest_code(tensor->dtype);
    for (int64_t b = 0; b < tensor->dim[0]; b++) {
        tdm_tensor view = sequence(tensor, rows[b]);
        random_fill(&view, tensor_row(tensor, guard.data, b, 0, 0), largest, random);
    }
    return guard;
}

/* Scales that bring the codes to `magnitude`; those of slots not reached yet are NaN. */
static struct guard scales_of(const tdm_tensor *tensor, const int32_t *rows, double magnitude, struct random *random)
{
    int64_t n = tensor_scales(tensor);
    struct guard guard = guard_new((size_t)n * sizeof(float), UNUSED);
    float *scale = guard.data;
    random_scales(scale, n, magnitude / largest_code(tensor->dtype), random);
    for (int64_t i = 0; is_dynamic(tensor) && i < n; i++) {
        int64_t row = i / tensor_groups(tensor);
        if (row % tensor->dim[2] >= rows[row / tensor->dim[2] / tensor->dim[1]])
            scale[i] = NAN;
    }
    return guard;
}

/* ---- results ------------------------------------------------------------------------------- */

static const char *check_output(const char *name, const tdm_tensor *tensor, const void *data,
                                const struct expected *expected, const int32_t *rows)
{
    static char text[300];
    const char *bad = compare_tensor(tensor, data, expected, rows);
    if (!bad)
        bad = compare_untouched(tensor, data, rows, OUTPUT_FILL);
    snprintf(text, sizeof text, "%s %s", name, bad ? bad : "");
    return bad ? text : NULL;
}

static const char *check(const struct problem *base)
{
    const struct gqa_problem *p = (const struct gqa_problem *)base;
    tdm_tensor lse = tensor4(TDM_F32, p->desc.q.dim[0], p->desc.q.dim[1], p->desc.q.dim[2], 1);
    const char *bad = check_output("out", &p->desc.out, p->args.out, &p->expected.out, p->q_len);
    if (!bad && p->args.lse)
        bad = check_output("lse", &lse, p->args.lse, &p->expected.lse, p->q_len);
    if (!bad && p->args.scores)
        bad = check_output("scores", &p->desc.scores, p->args.scores, &p->expected.scores, p->q_len);
    return bad;
}

/* ---- problems ------------------------------------------------------------------------------- */

/* Rows of the cache: in a ring as few as the window allows. */
static int64_t capacity_of(const struct gqa_setup *setup)
{
    const struct gqa_shape *shape = setup->shape;
    if (!setup->with.ring)
        return shape->kv_len + SPARE_SLOTS;
    if (shape->window_left >= 0)
        return setup->with.sink_tokens + shape->window_left + shape->q_len;
    return setup->with.sink_tokens + shape->kv_len + SPARE_SLOTS;
}

static tdm_tensor half_of(const struct gqa_setup *setup, tdm_dtype dtype, tdm_scaling scaling, int64_t group,
                          int64_t channels)
{
    tdm_tensor half = tensor_in_layout(dtype, setup->interleaved, setup->shape->batch, setup->shape->kv_heads,
                                       capacity_of(setup), channels);
    half.scaling = scaling;
    if (scaling == TDM_PER_GROUP) {
        half.block[0] = 1;
        half.block[1] = group;
    }
    return half;
}

static void describe(struct gqa_problem *p, const struct gqa_setup *setup)
{
    const struct gqa_shape *shape = setup->shape;
    const struct cache_type *cache = &setup->cache;
    tdm_gqa_desc_init(&p->desc);
    p->desc.q =
        tensor_in_layout(setup->dtype, setup->interleaved, shape->batch, shape->q_heads, shape->q_len, shape->head_dim);
    p->desc.out = tensor_in_layout(setup->dtype, setup->interleaved, shape->batch, shape->q_heads, shape->q_len,
                                   shape->v_head_dim);
    p->desc.cache.k = half_of(setup, cache->k, cache->k_scaling, setup->k_group, shape->head_dim);
    p->desc.cache.v = half_of(setup, cache->v, cache->v_scaling, setup->v_group, shape->v_head_dim);
    p->desc.scale = setup->scale;
    p->desc.window_left = shape->window_left;
    p->desc.window_right = shape->window_right;
    gqa_describe_features(p, setup);
}

static void set_lengths(struct gqa_problem *p, const struct gqa_setup *setup)
{
    const struct gqa_shape *shape = setup->shape;
    p->q_len = calloc((size_t)shape->batch, sizeof(int32_t));
    p->kv_len = calloc((size_t)shape->batch, sizeof(int32_t));
    for (int64_t b = 0; b < shape->batch; b++) {
        gqa_shape_lengths(shape, b, &p->q_len[b], &p->kv_len[b]);
        p->q_len[b] = setup->q_len ? setup->q_len[b] : p->q_len[b];
        p->kv_len[b] = setup->kv_len ? setup->kv_len[b] : p->kv_len[b];
    }
}

struct gqa_problem *gqa_problem_new(const struct gqa_setup *setup)
{
    struct gqa_problem *p = calloc(1, sizeof *p);
    const struct gqa_shape *shape = setup->shape;
    struct random random = {setup->seed + 1};
    double magnitude = setup->magnitude > 0 ? setup->magnitude : 2;
    describe(p, setup);
    set_lengths(p, setup);
    p->q = filled(&p->desc.q, p->q_len, magnitude, &random);
    p->k = filled(&p->desc.cache.k, p->kv_len, magnitude, &random);
    p->v = filled(&p->desc.cache.v, p->kv_len, magnitude, &random);
    p->k_scale = scales_of(&p->desc.cache.k, p->kv_len, magnitude, &random);
    p->v_scale = scales_of(&p->desc.cache.v, p->kv_len, magnitude, &random);
    p->base = (struct problem){.op = GQA, .desc = &p->desc, .args = &p->args, .check = check};
    p->args = (tdm_gqa_args){.struct_size = sizeof p->args,
                             .q = p->q.data,
                             .cache = {.k = p->k.data,
                                       .v = p->v.data,
                                       .k_scale = p->k_scale.bytes ? p->k_scale.data : NULL,
                                       .v_scale = p->v_scale.bytes ? p->v_scale.data : NULL},
                             .q_len = p->q_len,
                             .kv_len = p->kv_len};
    p->args.out = problem_output(&p->base, tensor_bytes(&p->desc.out));
    if (!setup->with.no_lse)
        p->args.lse = problem_output(&p->base, shape->batch * shape->q_heads * shape->q_len * (int64_t)sizeof(float));
    if (p->desc.scores.rank)
        p->args.scores = problem_output(&p->base, tensor_bytes(&p->desc.scores));
    gqa_fill_features(p, setup, &random);
    gqa_hide(p);
    return p;
}

void gqa_problem_expect(struct gqa_problem *p)
{
    gqa_expected_free(&p->expected);
    p->expected = reference_gqa(&p->desc, &p->args);
    const struct guard *data[] = {&p->q, &p->k, &p->v, &p->k_scale, &p->v_scale};
    for (int i = 0; i < 5; i++)
        guard_read_only(data[i]);
    for (int i = 0; i < p->inputs; i++)
        guard_read_only(&p->input[i]);
}

void gqa_problem_free(struct gqa_problem *p)
{
    struct guard *data[] = {&p->q, &p->k, &p->v, &p->k_scale, &p->v_scale};
    for (int i = 0; i < 5; i++)
        guard_free(data[i]);
    for (int i = 0; i < p->inputs; i++)
        guard_free(&p->input[i]);
    problem_free_outputs(&p->base);
    gqa_expected_free(&p->expected);
    free(p->q_len);
    free(p->kv_len);
    free(p);
}

const char *gqa_problem_check(const struct gqa_setup *setup)
{
    struct gqa_problem *problem = gqa_problem_new(setup);
    gqa_problem_expect(problem);
    const char *bad = problem_all_variants(&problem->base);
    gqa_problem_free(problem);
    return bad;
}

const char *gqa_problem_label(const struct gqa_setup *setup)
{
    static char text[160];
    const struct cache_type *cache = &setup->cache;
    snprintf(text, sizeof text, "%s, %s, cache %s %s / %s %s%s", setup->shape->name, format_name(setup->dtype),
             format_name(cache->k), scaling_text(cache->k_scaling), format_name(cache->v),
             scaling_text(cache->v_scaling), setup->interleaved ? ", interleaved" : "");
    return text;
}
