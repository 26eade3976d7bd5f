/* What the bits of a result may depend on: not on the other sequences of a batch, not on repetition, not on
 * whether lse is asked for. And steps give what one prefill gives, within the bound. */
#include "gqa_problem.h"
#include "indices.h"
#include "tests/reference/device.h"
#include "tests/reference/tensor.h"
#include "types.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct cache_type caches[] = {{TDM_F32, TDM_UNSCALED, TDM_F16, TDM_UNSCALED},
                                           {TDM_I8, TDM_PER_TOKEN, TDM_I8, TDM_PER_TOKEN},
                                           {TDM_I8, TDM_PER_CHANNEL, TDM_I4, TDM_PER_TOKEN},
                                           {TDM_I4, TDM_PER_TENSOR, TDM_BF16, TDM_UNSCALED}};

static const struct gqa_shape shapes[] = {{"ragged prefill", 0, 5, 4, 2, 40, 40, 50, 300, -1, 0, RAGGED},
                                          {"ragged decode", 0, 5, 6, 2, 64, 64, 1, 1100, -1, 0, RAGGED},
                                          {"ragged window", 0, 4, 4, 4, 33, 20, 70, 200, 40, 5, RAGGED}};

/* The same problem for one of its sequences alone, in the same memory. */
struct alone {
    tdm_gqa_desc desc;
    tdm_gqa_args args;
};

static float *scale_of(const tdm_tensor *tensor, float *scale, int64_t b)
{
    return tensor->scaling == TDM_PER_TOKEN ? scale + b * tensor->dim[1] * tensor->dim[2] : scale;
}

static void isolate(const struct gqa_problem *p, int64_t b, struct alone *alone)
{
    alone->desc = p->desc;
    alone->args = p->args;
    tdm_tensor *tensors[] = {&alone->desc.q, &alone->desc.out, &alone->desc.cache.k, &alone->desc.cache.v};
    for (int i = 0; i < 4; i++)
        tensors[i]->dim[0] = 1;
    alone->args.q = tensor_row(&p->desc.q, p->args.q, b, 0, 0);
    alone->args.out = tensor_row(&p->desc.out, p->args.out, b, 0, 0);
    alone->args.lse += b * p->desc.q.dim[1] * p->desc.q.dim[2];
    alone->args.cache.k = tensor_row(&p->desc.cache.k, p->args.cache.k, b, 0, 0);
    alone->args.cache.v = tensor_row(&p->desc.cache.v, p->args.cache.v, b, 0, 0);
    alone->args.cache.k_scale = scale_of(&p->desc.cache.k, p->args.cache.k_scale, b);
    alone->args.cache.v_scale = scale_of(&p->desc.cache.v, p->args.cache.v_scale, b);
    alone->args.q_len += b;
    alone->args.kv_len += b;
}

/* The outputs as they are now, to compare with later. */
struct kept {
    struct guard out, lse;
};

static struct kept keep(const struct problem *problem)
{
    struct kept kept = {guard_new(problem->output[0].memory.bytes, 0), guard_new(problem->output[1].memory.bytes, 0)};
    memcpy(kept.out.data, problem->output[0].memory.data, kept.out.bytes);
    memcpy(kept.lse.data, problem->output[1].memory.data, kept.lse.bytes);
    return kept;
}

static const char *compare_kept(const struct problem *problem, struct kept *kept)
{
    const char *bad = compare_bytes("out", problem->output[0].memory.data, kept->out.data, kept->out.bytes);
    if (!bad)
        bad = compare_bytes("lse", problem->output[1].memory.data, kept->lse.data, kept->lse.bytes);
    guard_free(&kept->out);
    guard_free(&kept->lse);
    return bad;
}

static void clear(struct problem *problem)
{
    for (int i = 0; i < 2; i++)
        memset(problem->output[i].memory.data, OUTPUT_FILL, problem->output[i].memory.bytes);
}

static const char *alone_body(struct problem *problem, tdm_ctx *ctx, void *arg)
{
    (void)arg;
    const struct gqa_problem *p = (const struct gqa_problem *)problem;
    struct kept batch = keep(problem);
    clear(problem);
    for (int64_t b = 0; b < p->desc.q.dim[0]; b++) {
        struct alone alone;
        isolate(p, b, &alone);
        struct problem one = {.op = GQA, .desc = &alone.desc, .args = &alone.args};
        if (problem_run(&one, ctx))
            return tdm_last_error();
    }
    return compare_kept(problem, &batch);
}

TEST_EACH(gqa_bits, batch_neighbours, COUNT(shapes) * COUNT(caches))
{
    struct gqa_setup setup = {.shape = &shapes[*at / COUNT(caches)],
                              .cache = caches[*at % COUNT(caches)],
                              .dtype = TDM_F32,
                              .interleaved = *at % 2};
    struct gqa_problem *p = gqa_problem_new(&setup);
    EXPECT_NONE(problem_each_variant(&p->base, 2, alone_body, NULL), gqa_problem_label(&setup));
    gqa_problem_free(p);
}

/* Long caches, whose keys are split into parts, under different numbers of queries. */
TEST_EACH(gqa_bits, split_neighbours, COUNT(caches))
{
    static const struct gqa_shape shape = {"split", 0, 4, 6, 2, 40, 40, 12, 1500, -1, 0, false};
    static const int32_t q_len[] = {3, 12, 1, 7}, kv_len[] = {1100, 1500, 700, 1300};
    struct gqa_setup setup = {
        .shape = &shape, .cache = caches[*at], .dtype = TDM_F32, .q_len = q_len, .kv_len = kv_len};
    struct gqa_problem *p = gqa_problem_new(&setup);
    EXPECT_NONE(problem_each_variant(&p->base, 2, alone_body, NULL), gqa_problem_label(&setup));
    gqa_problem_free(p);
}

/* The same call with one sequence at a time, the others empty. */
static const char *one_by_one_body(struct problem *problem, tdm_ctx *ctx, void *arg)
{
    struct gqa_problem *p = arg;
    int64_t batch = p->desc.q.dim[0];
    struct guard kept[MAX_OUTPUTS];
    for (int i = 0; i < problem->outputs; i++) {
        kept[i] = guard_new(problem->output[i].memory.bytes, 0);
        memcpy(kept[i].data, problem->output[i].memory.data, kept[i].bytes);
        memset(problem->output[i].memory.data, OUTPUT_FILL, kept[i].bytes);
    }
    const char *bad = NULL;
    for (int64_t b = 0; b < batch && !bad; b++) {
        int32_t q_len[8] = {0}, kv_len[8] = {0};
        tdm_gqa_args args = p->args;
        q_len[b] = p->q_len[b];
        kv_len[b] = p->kv_len[b];
        args.q_len = q_len;
        args.kv_len = kv_len;
        struct problem one = {.op = GQA, .desc = &p->desc, .args = &args};
        bad = problem_run(&one, ctx) ? tdm_last_error() : NULL;
    }
    for (int i = 0; i < problem->outputs; i++) {
        if (!bad)
            bad = compare_bytes("output", problem->output[i].memory.data, kept[i].data, kept[i].bytes);
        guard_free(&kept[i]);
    }
    return bad;
}

static const struct gqa_features features[] = {
    {.tree = true, .bias = {TDM_F32, false, false, false}, .capture = TDM_CAPTURE_SCORES, .scores = TDM_F32},
    {.ring = true, .sink_tokens = 4, .rotate_k = true, .rotate_v = true, .offset = true, .smooth_softmax = true},
    {.mask = {TDM_BITS, false, true, false}, .softcap = 20, .head_sink = true, .alibi = true},
    {.q_norm = TDM_F32,
     .rotary = {.dtype = TDM_F32, .dim = 32},
     .sink_tokens = 4,
     .capture = TDM_CAPTURE_PROBABILITIES,
     .scores = TDM_F16}};

TEST_EACH(gqa_bits, neighbours_with_features, COUNT(features) * COUNT(caches))
{
    static const int32_t q_len[] = {5, 40, 1, 0}, kv_len[] = {1100, 1500, 60, 9};
    static const struct gqa_shape shape = {"features", 0, 4, 6, 2, 40, 40, 40, 1500, 700, 0, false};
    struct gqa_setup setup = {.shape = &shape,
                              .cache = caches[*at % COUNT(caches)],
                              .with = features[*at / COUNT(caches)],
                              .dtype = TDM_F32,
                              .q_len = q_len,
                              .kv_len = kv_len};
    struct gqa_problem *p = gqa_problem_new(&setup);
    EXPECT_NONE(problem_each_variant(&p->base, 2, one_by_one_body, p), gqa_problem_label(&setup));
    gqa_problem_free(p);
}

/* ---- what nobody sees ---------------------------------------------------------------------------------------- */

/* Make every stored NaN, which only keys that no query sees hold, a number. */
static void fill_hidden(const tdm_tensor *half, struct guard *memory, struct guard *scale)
{
    for (size_t i = 0; i < scale->bytes / sizeof(float); i++)
        if (isnan(((float *)scale->data)[i]))
            ((float *)scale->data)[i] = 3;
    double *stored = tensor_read(half, memory->data), *value = stored;
    for (int64_t b = 0; b < half->dim[0]; b++)
        for (int64_t h = 0; h < half->dim[1]; h++)
            for (int64_t r = 0; r < half->dim[2]; r++)
                for (int64_t c = 0; c < half->dim[3]; c++, value++)
                    if (isnan(*value))
                        tensor_put(half, memory->data, b, h, r, c, -3);
    free(stored);
}

static const char *hidden_body(struct problem *problem, tdm_ctx *ctx, void *arg)
{
    struct gqa_problem *p = arg;
    struct guard *memory[] = {&p->k, &p->v, &p->k_scale, &p->v_scale}, before[4];
    for (int i = 0; i < 4; i++) {
        before[i] = guard_new(memory[i]->bytes, 0);
        memcpy(before[i].data, memory[i]->data, memory[i]->bytes);
    }
    struct kept with_nan = keep(problem);
    fill_hidden(&p->desc.cache.k, &p->k, &p->k_scale);
    fill_hidden(&p->desc.cache.v, &p->v, &p->v_scale);
    clear(problem);
    const char *bad = problem_run(problem, ctx) ? tdm_last_error() : NULL;
    const char *differs = compare_kept(problem, &with_nan);
    for (int i = 0; i < 4; i++) {
        memcpy(memory[i]->data, before[i].data, memory[i]->bytes);
        guard_free(&before[i]);
    }
    return bad ? bad : differs;
}

/* Keys hidden from all queries between keys that are seen: whether they hold NaN or numbers changes no bit. */
TEST_EACH(gqa_bits, hidden_contents, COUNT(stored_types) * 2)
{
    static const struct gqa_shape shape = {"hidden", 0, 2, 6, 2, 40, 40, 9, 700, 600, 0, true};
    static const struct gqa_features hiding[] = {
        {.mask = {TDM_BITS, true, true, true}, .sink_tokens = 2, .rotate_v = true},
        {.bias = {TDM_F32, true, true, true}, .ring = true, .sink_tokens = 3, .alibi = true}};
    const struct stored_type *type = &stored_types[*at / 2];
    for (int32_t q_len = 1; q_len <= 9; q_len += 8) {
        int32_t q_lens[] = {q_len, q_len}, kv_lens[] = {700, 333};
        struct gqa_setup setup = {.shape = &shape,
                                  .cache = {type->dtype, type->scaling, type->dtype, type->scaling},
                                  .k_group = type->group,
                                  .v_group = type->group,
                                  .with = hiding[*at % 2],
                                  .dtype = TDM_F32,
                                  .q_len = q_lens,
                                  .kv_len = kv_lens};
        struct gqa_problem *p = gqa_problem_new(&setup);
        EXPECT_NONE(problem_each_variant(&p->base, 2, hidden_body, p), gqa_problem_label(&setup));
        gqa_problem_free(p);
    }
}

/* ---- repetition ---------------------------------------------------------------------------------------------- */

static const char *repeat_body(struct problem *problem, tdm_ctx *ctx, void *arg)
{
    (void)arg;
    struct kept first = keep(problem);
    tdm_op *op = NULL;
    tdm_workspace *workspace = NULL;
    const char *bad = test_lend_guards(ctx);
    if (!bad &&
        (tdm_gqa_create(ctx, test_device(), problem->desc, &op) || tdm_workspace_create(op, NULL, 0, &workspace)))
        bad = tdm_last_error();
    for (int i = 0; i < 3 && !bad; i++)
        bad = tdm_gqa_run(op, workspace, NULL, problem->args) ? tdm_last_error() : NULL;
    if (!bad && tdm_stream_sync(ctx, test_device(), NULL))
        bad = tdm_last_error();
    test_take_guards_back(ctx);
    tdm_workspace_destroy(workspace);
    tdm_op_destroy(op);
    const char *differs = compare_kept(problem, &first);
    return bad ? bad : differs;
}

TEST_EACH(gqa_bits, repetition, COUNT(shapes))
{
    struct gqa_setup setup = {.shape = &shapes[*at], .cache = caches[*at], .dtype = TDM_BF16};
    struct gqa_problem *p = gqa_problem_new(&setup);
    EXPECT_NONE(problem_each_variant(&p->base, 7, repeat_body, NULL), gqa_problem_label(&setup));
    gqa_problem_free(p);
}

static const char *without_lse_body(struct problem *problem, tdm_ctx *ctx, void *arg)
{
    tdm_gqa_args *args = arg;
    struct kept with = keep(problem);
    float *lse = args->lse;
    args->lse = NULL;
    tdm_status status = problem_run(problem, ctx);
    args->lse = lse;
    memcpy(problem->output[1].memory.data, with.lse.data, with.lse.bytes);
    const char *differs = compare_kept(problem, &with);
    return status ? tdm_last_error() : differs;
}

TEST_EACH(gqa_bits, without_lse, COUNT(shapes))
{
    struct gqa_setup setup = {.shape = &shapes[*at], .cache = caches[*at], .dtype = TDM_F16};
    struct gqa_problem *p = gqa_problem_new(&setup);
    EXPECT_NONE(problem_each_variant(&p->base, 2, without_lse_body, &p->args), gqa_problem_label(&setup));
    gqa_problem_free(p);
}

/* ---- steps ------------------------------------------------------------------------------ */

/* Run the prefill's queries `step` at a time, each time over the keys that were there then. */
static const char *run_steps(struct gqa_problem *p, tdm_ctx *ctx, int64_t step)
{
    int64_t tokens = p->desc.q.dim[2];
    for (int64_t start = 0; start < tokens; start += step) {
        struct alone alone = {p->desc, p->args};
        int32_t q_len = (int32_t)(tokens - start < step ? tokens - start : step);
        int32_t kv_len = (int32_t)start + q_len;
        tdm_tensor *tensors[] = {&alone.desc.q, &alone.desc.out};
        for (int i = 0; i < 2; i++) {
            for (int axis = 0; axis < 3; axis++)
                tensors[i]->stride[axis] = tensor_stride(&p->desc.q, axis);
            tensors[i]->dim[2] = step;
        }
        alone.args.q = tensor_row(&p->desc.q, p->args.q, 0, 0, start);
        alone.args.out = tensor_row(&p->desc.out, p->args.out, 0, 0, start);
        alone.args.lse = NULL;
        alone.args.q_len = &q_len;
        alone.args.kv_len = &kv_len;
        struct problem one = {.op = GQA, .desc = &alone.desc, .args = &alone.args};
        if (problem_run(&one, ctx))
            return tdm_last_error();
    }
    return NULL;
}

static const char *steps_body(struct problem *problem, tdm_ctx *ctx, void *arg)
{
    static const int64_t steps[] = {1, 2, 3, 5, 8};
    struct gqa_problem *p = arg;
    struct guard lse = guard_new(problem->output[1].memory.bytes, 0);
    memcpy(lse.data, problem->output[1].memory.data, lse.bytes);
    const char *bad = problem->check(problem);
    for (int i = 0; i < COUNT(steps) && !bad; i++) {
        clear(problem);
        memcpy(problem->output[1].memory.data, lse.data, lse.bytes);
        bad = run_steps(p, ctx, steps[i]);
        if (!bad)
            bad = problem->check(problem);
    }
    guard_free(&lse);
    return bad;
}

TEST_EACH(gqa_bits, steps_equal_prefill, COUNT(caches) * 2)
{
    struct gqa_shape shape = {"steps", 0, 1, 4, 2, 40, 40, 75, 75, *at % 2 ? 20 : -1, 0, false};
    struct gqa_setup setup = {.shape = &shape, .cache = caches[*at / 2], .dtype = TDM_F32};
    struct gqa_problem *p = gqa_problem_new(&setup);
    gqa_problem_expect(p);
    EXPECT_NONE(problem_each_variant(&p->base, 2, steps_body, p), gqa_problem_label(&setup));
    gqa_problem_free(p);
}
