/* Who sees what: windows with sinks, trees, masks, rows that see nothing, and NaN that nobody may see. */
#include "gqa_problem.h"
#include "indices.h"
#include "tests/reference/tensor.h"
#include "types.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct cache_type f32_cache = {TDM_F32, TDM_UNSCALED, TDM_F32, TDM_UNSCALED};

static void finish(struct gqa_problem *problem, const char *label)
{
    gqa_problem_expect(problem);
    EXPECT_NONE(problem_all_variants(&problem->base), label);
    gqa_problem_free(problem);
}

/* ---- windows and sinks ----------------------------------------------------------------------------- */

/* A query of zeros averages what it sees: key j holds the value j, so that the average and, in lse, the number of
 * keys tell the window. */
static void expect_window(struct gqa_problem *p, int64_t row, int64_t position)
{
    double sum = 0, n = 0;
    for (int64_t j = 0; j < p->kv_len[0]; j++) {
        bool right = p->desc.window_right < 0 || j <= position + p->desc.window_right;
        bool left = p->desc.window_left < 0 || j >= position - p->desc.window_left || j < p->desc.sink_tokens;
        n += right && left;
        sum += right && left ? (double)j : 0;
    }
    for (int64_t h = 0; h < 2; h++) {
        int64_t at = h * p->desc.q.dim[2] + row;
        p->expected.out.value[at] = n > 0 ? sum / n : 0;
        p->expected.lse.value[at] = n > 0 ? log(n) : -INFINITY;
    }
}

static const int32_t sinks[] = {0, 1, 4, 130, 1000};

TEST_EACH(gqa_visible, sinks_and_windows, COUNT(sinks) * 2)
{
    static const int32_t windows[][2] = {{-1, 0}, {0, 0}, {10, 0}, {10, 3}, {127, 0}, {-1, -1}, {5, -1}, {40, 7}};
    static const int32_t lengths[][2] = {{1, 300}, {40, 300}, {9, 3}};
    for (int w = 0; w < COUNT(windows); w++)
        for (int n = 0; n < COUNT(lengths); n++) {
            struct gqa_shape shape = {"sinks",       0,    1, 2, 1, 8, 1, lengths[n][0], lengths[n][1], windows[w][0],
                                      windows[w][1], false};
            struct gqa_setup setup = {.shape = &shape, .cache = f32_cache, .dtype = TDM_F32};
            setup.with.sink_tokens = sinks[*at / 2];
            setup.with.ring = *at % 2;
            setup.q_len = &lengths[n][0];
            setup.kv_len = &lengths[n][1];
            struct gqa_problem *p = gqa_problem_new(&setup);
            memset(p->q.data, 0, p->q.bytes);
            for (int64_t j = 0; j < p->kv_len[0]; j++) {
                int64_t capacity = p->desc.cache.k.dim[2], kept = p->desc.cache.ring_sinks;
                bool evicted = setup.with.ring && j >= kept && j + capacity - kept < p->kv_len[0];
                int64_t row = setup.with.ring && j >= kept ? kept + (j - kept) % (capacity - kept) : j;
                for (int64_t c = 0; c < 8 && !evicted; c++)
                    tensor_put(&p->desc.cache.k, p->args.cache.k, 0, 0, row, c, 1);
                if (!evicted)
                    tensor_put(&p->desc.cache.v, p->args.cache.v, 0, 0, row, 0, (double)j);
            }
            gqa_problem_expect(p);
            for (int64_t i = 0; i < p->q_len[0]; i++)
                expect_window(p, i, p->kv_len[0] - p->q_len[0] + i);
            EXPECT_NONE(problem_all_variants(&p->base), gqa_problem_label(&setup));
            gqa_problem_free(p);
        }
}

/* ---- trees -------------------------------------------------------------------------------------------- */

enum { PAST = 140 };

/* The tokens of row `node` of the tree, as a sequence of its own: what its last query gives must be the node's. */
static void expect_path(struct gqa_problem *p, int64_t node)
{
    const tdm_gqa_desc *d = &p->desc;
    tdm_gqa_desc desc = p->desc;
    tdm_gqa_args args = p->args;
    struct guard copies[] = {guard_new(p->q.bytes, 0), guard_new(p->k.bytes, 0), guard_new(p->v.bytes, 0),
                             guard_new(p->k_scale.bytes, 0), guard_new(p->v_scale.bytes, 0)};
    const struct guard *from[] = {&p->q, &p->k, &p->v, &p->k_scale, &p->v_scale};
    for (int i = 0; i < 5; i++)
        memcpy(copies[i].data, from[i]->data, from[i]->bytes);
    int32_t n = 0;
    for (int64_t t = 0; t < p->q_len[0]; t++) {
        if (!(p->args.tree[node] >> t & 1))
            continue;
        for (int64_t h = 0; h < d->q.dim[1]; h++)
            memcpy(tensor_row(&d->q, copies[0].data, 0, h, n), tensor_row(&d->q, p->args.q, 0, h, t),
                   (size_t)tensor_stride(&d->q, 2));
        for (int64_t h = 0; h < d->cache.k.dim[1]; h++) {
            memcpy(tensor_row(&d->cache.k, copies[1].data, 0, h, PAST + n),
                   tensor_row(&d->cache.k, p->args.cache.k, 0, h, PAST + t), (size_t)tensor_stride(&d->cache.k, 2));
            memcpy(tensor_row(&d->cache.v, copies[2].data, 0, h, PAST + n),
                   tensor_row(&d->cache.v, p->args.cache.v, 0, h, PAST + t), (size_t)tensor_stride(&d->cache.v, 2));
            if (copies[3].bytes) {
                int64_t row = h * d->cache.k.dim[2] + PAST;
                ((float *)copies[3].data)[row + n] = p->args.cache.k_scale[row + t];
                ((float *)copies[4].data)[row + n] = p->args.cache.v_scale[row + t];
            }
        }
        n++;
    }
    int32_t kv_len = PAST + n;
    desc.has_tree = 0;
    args.tree = NULL;
    args.q = copies[0].data;
    args.cache.k = copies[1].data;
    args.cache.v = copies[2].data;
    args.cache.k_scale = copies[3].bytes ? copies[3].data : NULL;
    args.cache.v_scale = copies[4].bytes ? copies[4].data : NULL;
    args.q_len = &n;
    args.kv_len = &kv_len;
    struct gqa_expected path = reference_gqa(&desc, &args);
    int64_t channels = d->out.dim[3];
    for (int64_t h = 0; h < d->q.dim[1]; h++) {
        int64_t last = h * d->q.dim[2] + n - 1, at = h * d->q.dim[2] + node;
        p->expected.lse.value[at] = path.lse.value[last];
        memcpy(p->expected.out.value + at * channels, path.out.value + last * channels,
               (size_t)channels * sizeof(double));
    }
    gqa_expected_free(&path);
    for (int i = 0; i < 5; i++)
        guard_free(&copies[i]);
}

TEST_EACH(gqa_visible, tree_equals_paths, 6)
{
    static const struct cache_type caches[] = {{TDM_F32, TDM_UNSCALED, TDM_F32, TDM_UNSCALED},
                                               {TDM_I8, TDM_PER_TOKEN, TDM_I4, TDM_PER_TOKEN}};
    static const struct gqa_features features[] = {
        {.tree = true},
        {.tree = true, .alibi = true, .sink_tokens = 3, .softcap = 8},
        {.tree = true, .rotary = {.dtype = TDM_F32, .dim = 32}, .q_norm = TDM_F32, .smooth_softmax = true}};
    for (int32_t nodes = 2; nodes <= 64; nodes = nodes * 3 + 1) {
        int32_t q_len = nodes > 60 ? 64 : nodes;
        struct gqa_shape shape = {"tree", 0, 1, 4, 2, 32, 24, q_len, PAST + q_len, *at / 3 ? 70 : -1, 0, false};
        struct gqa_setup setup = {.shape = &shape,
                                  .cache = caches[*at % 2],
                                  .with = features[*at % 3],
                                  .dtype = float_types[*at % 3],
                                  .seed = (uint64_t)q_len};
        struct gqa_problem *p = gqa_problem_new(&setup);
        gqa_problem_expect(p);
        for (int64_t node = 0; node < q_len; node++)
            expect_path(p, node);
        EXPECT_NONE(problem_all_variants(&p->base), gqa_problem_label(&setup));
        gqa_problem_free(p);
    }
}

/* ---- a few tokens at once --------------------------------------------------------------------------------- */

TEST_EACH(gqa_visible, speculative, 15)
{
    static const int32_t kv_lens[] = {20, 260, 1300};
    int32_t q_len = *at + 2;
    for (int i = 0; i < COUNT(kv_lens) * 2; i++) {
        const struct stored_type *k = &stored_types[(*at + i) % COUNT(stored_types)];
        const struct stored_type *v = &stored_types[(*at * 2 + i + 5) % COUNT(stored_types)];
        struct gqa_shape shape = {"speculative", 0, 2, 6, 2, 48, 40, q_len, kv_lens[i / 2], -1, 0, false};
        struct gqa_setup setup = {.shape = &shape,
                                  .cache = {k->dtype, k->scaling, v->dtype, v->scaling},
                                  .k_group = k->group,
                                  .v_group = v->group,
                                  .with = {.tree = i % 2},
                                  .dtype = float_types[i % 3],
                                  .interleaved = *at % 2};
        EXPECT_NONE(gqa_problem_check(&setup), gqa_problem_label(&setup));
    }
}

/* ---- rows that see nothing ---------------------------------------------------------------------------------- */

static void hide_query(struct gqa_problem *p, int64_t i)
{
    for (int64_t j = 0; j < p->desc.mask.dim[3]; j++)
        tensor_put(&p->desc.mask, p->args.mask, 0, 0, i, j, 0);
}

TEST_EACH(gqa_visible, nothing, 3)
{
    static const struct gqa_shape shape = {"nothing", 0, 1, 4, 2, 16, 16, 7, 200, -1, -1, false};
    for (int capture = TDM_CAPTURE_SCORES; capture <= TDM_CAPTURE_PROBABILITIES; capture++) {
        struct gqa_setup setup = {.shape = &shape, .cache = f32_cache, .dtype = TDM_F32};
        setup.with = (struct gqa_features){.mask = {*at % 2 ? TDM_BITS : TDM_BOOL, true, true, false},
                                           .smooth_softmax = *at == 1,
                                           .head_sink = *at == 2,
                                           .rotate_k = true,
                                           .rotate_v = true,
                                           .offset = true,
                                           .capture = (tdm_capture)capture,
                                           .scores = TDM_F32};
        struct gqa_problem *p = gqa_problem_new(&setup);
        hide_query(p, 0);
        hide_query(p, 5);
        for (int64_t h = 0; h < 4; h++)
            tensor_put(&p->desc.q, p->args.q, 0, h, 5, 3, NAN); /* of a query that looks at nothing */
        gqa_problem_expect(p);
        for (int64_t row = 0; row < 4 * 7; row++) {
            if (row % 7 != 0 && row % 7 != 5)
                continue;
            double sink = *at == 2 ? (double)p->args.head_sink[row / 7] : *at == 1 ? 0 : -INFINITY;
            p->expected.lse.value[row] = sink;
            p->expected.lse.bound[row] = 0;
            for (int64_t c = 0; c < 16; c++)
                p->expected.out.value[row * 16 + c] = p->expected.out.bound[row * 16 + c] = 0;
            for (int64_t j = 0; j < p->desc.scores.dim[3]; j++) {
                p->expected.scores.value[row * p->desc.scores.dim[3] + j] =
                    capture == TDM_CAPTURE_SCORES ? -INFINITY : 0;
                p->expected.scores.bound[row * p->desc.scores.dim[3] + j] = 0;
            }
        }
        EXPECT_NONE(problem_all_variants(&p->base), "rows that see nothing");
        gqa_problem_free(p);
    }
}

/* ---- NaN ------------------------------------------------------------------------------------------------------ */

/* What hides keys from some rows and not from others. */
static const struct gqa_features hiding[] = {
    {.sink_tokens = 3},
    {.mask = {TDM_BOOL, false, false, false}},
    {.mask = {TDM_BITS, true, true, false}, .rotate_v = true},
    {.bias = {TDM_F16, false, false, false}},
    {.tree = true, .rotate_k = true},
    {.ring = true, .sink_tokens = 2, .head_sink = true},
};
static const int64_t nan_keys[] = {1, 60, 120, 127, 131};

/* A NaN in a stored number, else in its scale; in one channel, else in all of them. */
static void spoil(const tdm_tensor *half, void *data, float *scale, int64_t h, int64_t row, bool whole)
{
    int64_t groups = tensor_groups(half);
    if (is_dynamic(half))
        scale[(h * half->dim[2] + row) * groups + groups / 2] = NAN;
    else if (!is_quantized(half->dtype))
        for (int64_t c = whole ? 0 : half->dim[3] / 2; c < half->dim[3]; c += whole ? 1 : half->dim[3])
            tensor_put(half, data, 0, h, row, c, NAN);
}

/* The reference has NaN exactly where a row sees the key. */
TEST_EACH(gqa_visible, nan, COUNT(stored_types) * COUNT(hiding))
{
    static const struct gqa_shape shape = {"nan", 0, 1, 4, 2, 40, 40, 30, 140, 105, 0, false};
    const struct stored_type *type = &stored_types[*at / COUNT(hiding)];
    if (is_quantized(type->dtype) && type->scaling != TDM_PER_TOKEN && type->scaling != TDM_PER_GROUP)
        return; /* holds no NaN */
    for (int i = 0; i < COUNT(nan_keys); i++) {
        bool key = (i + *at) % 2, whole = (i + *at) / 2 % 2;
        struct gqa_setup setup = {.shape = &shape,
                                  .cache = {type->dtype, type->scaling, type->dtype, type->scaling},
                                  .k_group = type->group,
                                  .v_group = type->group,
                                  .with = hiding[*at % COUNT(hiding)],
                                  .dtype = TDM_F32,
                                  .interleaved = i % 2};
        struct gqa_problem *p = gqa_problem_new(&setup);
        int64_t row = nan_keys[i] % p->desc.cache.k.dim[2];
        if (key)
            spoil(&p->desc.cache.k, p->args.cache.k, p->args.cache.k_scale, 1, row, whole);
        else
            spoil(&p->desc.cache.v, p->args.cache.v, p->args.cache.v_scale, 1, row, whole);
        finish(p, gqa_problem_label(&setup));
    }
}
