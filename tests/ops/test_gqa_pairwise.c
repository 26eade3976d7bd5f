/* gqa with all its features together: every pair of values of two factors occurs in some configuration, each run in
 * every variant and compared with the reference. */
#include "gqa_problem.h"
#include "indices.h"
#include "pairs.h"
#include "tests/reference/tensor.h"
#include "types.h"

#include <stdio.h>

#define KEYS_ROTATED 1
#define VALUES_ROTATED 2

enum { BATCH = 3, LONGEST = 1100 };

/* ---- what there is to combine ------------------------------------------------------------------ */

enum extent { WHOLE, HALF }; /* of the head, that is turned */
static const struct {
    tdm_dtype dtype;
    int interleaved;
    enum extent extent;
    bool positions;
} rotaries[] = {{0, 0, WHOLE, false},
                {TDM_F32, 0, WHOLE, false},
                {TDM_F16, 1, WHOLE, true},
                {TDM_BF16, 0, HALF, true},
                {TDM_F32, 1, HALF, false}};

static const struct plane_type biases[] = {{0, false, false, false},
                                           {TDM_F32, false, false, false},
                                           {TDM_F16, true, false, false},
                                           {TDM_BF16, false, true, true},
                                           {TDM_F32, true, true, false}};
static const struct plane_type masks[] = {{0, false, false, false},
                                          {TDM_BOOL, false, false, false},
                                          {TDM_BITS, false, false, false},
                                          {TDM_BOOL, false, true, true},
                                          {TDM_BITS, true, true, false}};

static const float softcaps[] = {0, 20, 0.5F};
static const int32_t sink_tokens[] = {0, 4, 200};
static const int32_t windows[][2] = {{-1, 0}, {16, 0}, {16, 5}, {-1, -1}, {0, 0}, {130, 0}};
static const struct {
    tdm_capture what;
    tdm_dtype dtype;
} captures[] = {{TDM_CAPTURE_NONE, 0},
                {TDM_CAPTURE_SCORES, TDM_F32},
                {TDM_CAPTURE_SCORES, TDM_BF16},
                {TDM_CAPTURE_PROBABILITIES, TDM_F32},
                {TDM_CAPTURE_PROBABILITIES, TDM_F16}};
static const int64_t groups[] = {1, 2, 3, 8};
static const int64_t head_dims[][2] = {{1, 1},     {7, 5},   {64, 64},   {80, 80},   {96, 96},
                                       {128, 128}, {33, 20}, {192, 128}, {1024, 40}, {16, 1024}};
enum { SMALLEST_HEAD = 0, WIDE_HEADS = 7 };

enum phase { DECODE, SPECULATE_2, SPECULATE_5, SPECULATE_16, CHUNK, PREFILL, CROSS, PHASES };
static const int32_t kv_lens[] = {1, 127, 128, 129, 300, LONGEST};
enum { LONG = 4 }; /* from here on, too many queries for a prefill */
enum batch { ALONE, ALL_EQUAL, DIFFERENT, BATCHES };
enum sink { NO_SINK, SMOOTH, PER_HEAD, SINKS };

/* ---- factors ------------------------------------------------------------------------------------- */

enum {
    K_TYPE,
    V_TYPE,
    HEAD_DIMS,
    WINDOW,
    PHASE,
    KV_LEN,
    ROTARY,
    BIAS,
    MASK,
    CAPTURE,
    ROTATION,
    GROUP,
    Q_NORM,
    Q_TYPE,
    SINK,
    SINK_TOKENS,
    SOFTCAP,
    BATCH_KIND,
    OFFSET,
    ALIBI,
    RING,
    TREE,
    LSE,
    LAYOUT,
    FACTORS
};

static const struct factor factors[FACTORS] = {
    [K_TYPE] = {"K type", COUNT(stored_types)},
    [V_TYPE] = {"V type", COUNT(stored_types)},
    [HEAD_DIMS] = {"head dims", COUNT(head_dims)},
    [WINDOW] = {"window", COUNT(windows)},
    [PHASE] = {"phase", PHASES},
    [KV_LEN] = {"kv_len", COUNT(kv_lens)},
    [ROTARY] = {"rotary", COUNT(rotaries)},
    [BIAS] = {"bias", COUNT(biases)},
    [MASK] = {"mask", COUNT(masks)},
    [CAPTURE] = {"capture", COUNT(captures)},
    [ROTATION] = {"rotation", 4},
    [GROUP] = {"group", COUNT(groups)},
    [Q_NORM] = {"q norm", 4},
    [Q_TYPE] = {"q type", COUNT(float_types)},
    [SINK] = {"sink", SINKS},
    [SINK_TOKENS] = {"sink tokens", COUNT(sink_tokens)},
    [SOFTCAP] = {"softcap", COUNT(softcaps)},
    [BATCH_KIND] = {"batch", BATCHES},
    [OFFSET] = {"offset", 2},
    [ALIBI] = {"alibi", 2},
    [RING] = {"ring", 2},
    [TREE] = {"tree", 2},
    [LSE] = {"lse", 2},
    [LAYOUT] = {"layout", 2},
};

/* Whether level a of factor f and level b of factor g, in either order, are these. */
struct pair {
    int f, a, g, b;
};

static bool has(const struct pair *p, int f, int a, int g, int b)
{
    return (p->f == f && p->a == a && p->g == g && p->b == b) || (p->f == g && p->a == b && p->g == f && p->b == a);
}

static bool excluded(int f, int a, int g, int b)
{
    const struct pair p = {f, a, g, b};
    for (int kv = LONG; kv < COUNT(kv_lens); kv++)
        if (has(&p, PHASE, PREFILL, KV_LEN, kv) || has(&p, PHASE, CROSS, KV_LEN, kv))
            return true; /* too slow for a reference */
    for (int rotary = 1; rotary < COUNT(rotaries); rotary++)
        if (has(&p, HEAD_DIMS, SMALLEST_HEAD, ROTARY, rotary) ||                    /* no pair of channels to turn */
            (!rotaries[rotary].positions && has(&p, PHASE, CROSS, ROTARY, rotary))) /* positions below 0 */
            return true;
    /* A tree has at most 64 tokens, all of them in the cache. */
    return has(&p, PHASE, PREFILL, TREE, 1) || has(&p, PHASE, CROSS, TREE, 1);
}

/* ---- configurations ------------------------------------------------------------------------------- */

static int32_t queries_of(enum phase phase, int32_t kv_len)
{
    static const int32_t most[] = {1, 2, 5, 16, 33};
    if (phase == PREFILL)
        return kv_len;
    if (phase == CROSS)
        return kv_len + 3;
    return most[phase] < kv_len ? most[phase] : kv_len;
}

/* The setup that a configuration stands for, and what it points at. */
struct combination {
    struct gqa_shape shape;
    int32_t q_len[BATCH], kv_len[BATCH];
    struct gqa_setup setup;
};

static void set_shape(const int *level, struct combination *c)
{
    int64_t head_dim = head_dims[level[HEAD_DIMS]][0], kv_heads = level[HEAD_DIMS] >= WIDE_HEADS ? 1 : 2;
    int32_t n = kv_lens[level[KV_LEN]];
    const int32_t lengths[BATCH] = {n, level[BATCH_KIND] == DIFFERENT ? (n + 1) / 2 : n, 0};
    for (int b = 0; b < BATCH; b++) {
        c->kv_len[b] = lengths[b];
        c->q_len[b] = queries_of((enum phase)level[PHASE], lengths[b]);
    }
    c->shape = (struct gqa_shape){.name = "pairwise",
                                  .batch = level[BATCH_KIND] == ALONE       ? 1
                                           : level[BATCH_KIND] == ALL_EQUAL ? 2
                                                                            : 3,
                                  .q_heads = groups[level[GROUP]] * kv_heads,
                                  .kv_heads = kv_heads,
                                  .head_dim = head_dim,
                                  .v_head_dim = head_dims[level[HEAD_DIMS]][1],
                                  .q_len = c->q_len[0],
                                  .kv_len = n,
                                  .window_left = windows[level[WINDOW]][0],
                                  .window_right = windows[level[WINDOW]][1]};
}

static void set_features(const int *level, struct combination *c)
{
    struct gqa_features *with = &c->setup.with;
    int32_t turned = (int32_t)c->shape.head_dim & ~1;
    with->rotate_k = level[ROTATION] & KEYS_ROTATED;
    with->rotate_v = level[ROTATION] & VALUES_ROTATED;
    with->offset = level[OFFSET];
    with->q_norm = level[Q_NORM] ? float_types[level[Q_NORM] - 1] : 0;
    if (rotaries[level[ROTARY]].dtype) {
        with->rotary.dtype = rotaries[level[ROTARY]].dtype;
        with->rotary.interleaved = rotaries[level[ROTARY]].interleaved;
        with->rotary.dim = rotaries[level[ROTARY]].extent == HALF ? (turned / 2 & ~1) + 2 * (turned < 4) : turned;
        with->positions = rotaries[level[ROTARY]].positions;
    }
    with->bias = biases[level[BIAS]];
    with->mask = masks[level[MASK]];
    with->alibi = level[ALIBI];
    with->softcap = softcaps[level[SOFTCAP]];
    with->smooth_softmax = level[SINK] == SMOOTH;
    with->head_sink = level[SINK] == PER_HEAD;
    with->sink_tokens = sink_tokens[level[SINK_TOKENS]];
    with->ring = level[RING];
    with->tree = level[TREE];
    with->capture = captures[level[CAPTURE]].what;
    with->scores = captures[level[CAPTURE]].dtype;
    with->no_lse = level[LSE];
}

static void combine(const struct config *config, int index, struct combination *c)
{
    const int *level = config->level;
    const struct stored_type *k = &stored_types[level[K_TYPE]], *v = &stored_types[level[V_TYPE]];
    *c = (struct combination){0};
    set_shape(level, c);
    set_features(level, c);
    c->setup.shape = &c->shape;
    c->setup.cache = (struct cache_type){k->dtype, k->scaling, v->dtype, v->scaling};
    c->setup.k_group = k->group;
    c->setup.v_group = v->group;
    c->setup.dtype = float_types[level[Q_TYPE]];
    c->setup.q_len = c->q_len;
    c->setup.kv_len = c->kv_len;
    c->setup.interleaved = level[LAYOUT];
    c->setup.seed = (uint64_t)index;
}

static const char *config_label(const struct config *config, int index)
{
    static char text[600];
    int used = snprintf(text, sizeof text, "config %d", index);
    for (int f = 0; f < FACTORS; f++)
        used += snprintf(text + used, sizeof text - (size_t)used, ", %s %d", factors[f].name, config->level[f]);
    return text;
}

static struct config configs[MAX_CONFIGS];

Test(gqa_pairwise, every_pair_occurs)
{
    int count = pairs_cover(factors, FACTORS, excluded, configs), wanted = pairs_wanted(factors, FACTORS, excluded);
    cr_assert_gt(count, 0, "a pair that is not excluded goes with nothing");
    printf("gqa_pairwise: %d pairs in %d configurations\n", wanted, count);
    cr_expect_eq(pairs_missing(factors, FACTORS, excluded, configs, count), 0);
    cr_expect_gt(pairs_missing(factors, FACTORS, excluded, configs, count / 2), 0, "half of them would do");
    for (int i = 0; i < count; i++)
        for (int f = 0; f < FACTORS; f++)
            for (int g = f + 1; g < FACTORS; g++)
                cr_expect(!excluded(f, configs[i].level[f], g, configs[i].level[g]), "config %d: %s with %s", i,
                          factors[f].name, factors[g].name);
}

/* A share of the configurations each; where a sanitizer makes them slow, one in EACH. */
#ifdef TANDEM_SANITIZE
enum { SHARES = 16, EACH = 4 };
#else
enum { SHARES = 16, EACH = 1 };
#endif

TEST_EACH(gqa_pairwise, configurations, SHARES)
{
    int count = pairs_cover(factors, FACTORS, excluded, configs);
    for (int i = *at * EACH; i < count; i += SHARES * EACH) {
        struct combination c;
        combine(&configs[i], i, &c);
        EXPECT_NONE(gqa_problem_check(&c.setup), config_label(&configs[i], i));
    }
}
