/* merge_states: parts with any number of rows that saw nothing, against the reference; and attention in parts. */
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

enum { BATCH = 2, HEADS = 3, TOKENS = 5, ROWS = BATCH * HEADS * TOKENS, MOST_PARTS = 65 };

struct merge_setup {
    tdm_dtype part, out;
    int64_t channels;
    int32_t parts;
    bool interleaved;
    int64_t empty; /* one row in so many of each part saw no key and holds NaN; 0: none, 1: all */
    double spread; /* of the lse of parts */
};

struct merge_problem {
    struct problem base;
    tdm_merge_states_desc desc;
    tdm_merge_states_args args;
    struct guard part[MOST_PARTS], lse[MOST_PARTS];
    const void *parts[MOST_PARTS];
    const float *lses[MOST_PARTS];
    struct gqa_expected expected;
};

static const char *check(const struct problem *base)
{
    const struct merge_problem *p = (const struct merge_problem *)base;
    tdm_tensor lse = tensor4(TDM_F32, BATCH, HEADS, TOKENS, 1);
    const char *bad = compare_tensor(&p->desc.out, p->args.out, &p->expected.out, NULL);
    if (!bad && p->args.lse)
        bad = compare_tensor(&lse, p->args.lse, &p->expected.lse, NULL);
    return bad ? bad : compare_untouched(&p->desc.out, p->args.out, NULL, OUTPUT_FILL);
}

static void fill_part(struct merge_problem *p, int i, const struct merge_setup *setup, struct random *random)
{
    p->part[i] = guard_new((size_t)tensor_bytes(&p->desc.part), OUTPUT_FILL);
    p->lse[i] = guard_new(ROWS * sizeof(float), 0);
    random_fill(&p->desc.part, p->part[i].data, 3, random);
    for (int row = 0; row < ROWS; row++) {
        float *lse = (float *)p->lse[i].data + row;
        *lse = (float)(setup->spread * random_unit(random));
        if (!setup->empty || random_below(random, setup->empty))
            continue;
        *lse = -INFINITY;
        for (int64_t c = 0; c < setup->channels; c++)
            format_encode(
                setup->part,
                tensor_row(&p->desc.part, p->part[i].data, row / TOKENS / HEADS, row / TOKENS % HEADS, row % TOKENS), c,
                NAN);
    }
    p->parts[i] = p->part[i].data;
    p->lses[i] = p->lse[i].data;
}

static struct merge_problem *merge_new(const struct merge_setup *setup)
{
    struct merge_problem *p = calloc(1, sizeof *p);
    struct random random = {(uint64_t)(setup->channels * 100 + setup->parts)};
    p->desc = TDM_INIT(tdm_merge_states_desc);
    p->desc.part = tensor_in_layout(setup->part, setup->interleaved, BATCH, HEADS, TOKENS, setup->channels);
    p->desc.out = tensor_in_layout(setup->out, setup->interleaved, BATCH, HEADS, TOKENS, setup->channels);
    p->desc.max_parts = setup->parts + 2;
    for (int i = 0; i < setup->parts; i++)
        fill_part(p, i, setup, &random);
    p->base = (struct problem){.op = MERGE, .desc = &p->desc, .args = &p->args, .check = check};
    p->args = (tdm_merge_states_args){.struct_size = sizeof p->args,
                                      .part = p->parts,
                                      .part_lse = p->lses,
                                      .parts = setup->parts,
                                      .out = problem_output(&p->base, tensor_bytes(&p->desc.out)),
                                      .lse = problem_output(&p->base, ROWS * (int64_t)sizeof(float))};
    return p;
}

static void merge_expect(struct merge_problem *p)
{
    struct gqa_expected known[MOST_PARTS];
    for (int i = 0; i < p->args.parts; i++)
        known[i] = reference_part(&p->desc, p->parts[i], p->lses[i]);
    p->expected = reference_merge_states(&p->desc, known, p->args.parts);
    for (int i = 0; i < p->args.parts; i++)
        gqa_expected_free(&known[i]);
}

static void merge_free(struct merge_problem *p)
{
    for (int i = 0; i < MOST_PARTS; i++) {
        if (p->part[i].map)
            guard_free(&p->part[i]);
        if (p->lse[i].map)
            guard_free(&p->lse[i]);
    }
    problem_free_outputs(&p->base);
    gqa_expected_free(&p->expected);
    free(p);
}

static void finish(struct merge_problem *p)
{
    char label[96];
    snprintf(label, sizeof label, "%d parts of %s to %s, %d channels", p->args.parts, format_name(p->desc.part.dtype),
             format_name(p->desc.out.dtype), (int)p->desc.out.dim[3]);
    merge_expect(p);
    EXPECT_NONE(problem_all_variants(&p->base), label);
    merge_free(p);
}

/* ---- types, shapes, empty parts ------------------------------------------------------------ */

static const int64_t channel_counts[] = {1, 5, 16, 37, 64, 511, 1030};
static const int32_t part_counts[] = {0, 1, 2, 3, 7, MOST_PARTS};

TEST_EACH(merge_states, types, COUNT(float_types) * COUNT(float_types))
{
    for (int i = 0; i < COUNT(channel_counts) * COUNT(part_counts); i++) {
        struct merge_setup setup = {.part = float_types[*at / COUNT(float_types)],
                                    .out = float_types[*at % COUNT(float_types)],
                                    .channels = channel_counts[i / COUNT(part_counts)],
                                    .parts = part_counts[i % COUNT(part_counts)],
                                    .interleaved = i % 2,
                                    .empty = i % 4,
                                    .spread = i % 3 ? 4 : 60};
        finish(merge_new(&setup));
    }
}

static const struct merge_setup few = {TDM_F32, TDM_F32, 40, 4, false, 0, 2};

/* Without a part, and with parts that all saw nothing, every row is 0 and its lse minus infinity. */
TEST_EACH(merge_states, nothing_to_merge, 2)
{
    struct merge_setup setup = few;
    setup.empty = 1;
    setup.parts = *at ? 4 : 0;
    struct merge_problem *p = merge_new(&setup);
    p->expected = (struct gqa_expected){.out = expected_new(ROWS * 40), .lse = expected_new(ROWS)};
    for (int row = 0; row < ROWS; row++)
        p->expected.lse.value[row] = -INFINITY;
    EXPECT_NONE(problem_all_variants(&p->base), "nothing to merge");
    merge_free(p);
}

Test(merge_states, lse_is_optional)
{
    struct merge_setup setup = few;
    setup.empty = 2;
    struct merge_problem *p = merge_new(&setup);
    p->args.lse = NULL;
    finish(p);
}

/* ---- values ----------------------------------------------------------------------------------- */

/* A part as it is comes out as it is: its share is exactly 1. */
Test(merge_states, one_part_is_itself)
{
    struct merge_setup setup = few;
    setup.parts = 1;
    struct merge_problem *p = merge_new(&setup);
    p->expected = reference_part(&p->desc, p->parts[0], p->lses[0]);
    EXPECT_NONE(problem_all_variants(&p->base), "one part");
    merge_free(p);
}

/* Four parts of equal lse have shares of exactly 1/4, and their sum is taken in order: 1e8 swallows the first 1. */
Test(merge_states, parts_merge_in_order)
{
    static const float values[] = {4e8F, 4, -4e8F, 4};
    struct merge_problem *p = merge_new(&few);
    p->expected = (struct gqa_expected){.out = expected_new(ROWS * 40), .lse = expected_new(ROWS)};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < ROWS * 40; j++) {
            ((float *)p->part[i].data)[j] = values[i];
            ((float *)p->lse[i].data)[j / 40] = 3;
            p->expected.out.value[j] = 1;
        }
    for (int row = 0; row < ROWS; row++) {
        p->expected.lse.value[row] = 3 + log(4);
        p->expected.lse.bound[row] = 0x1p-21;
    }
    EXPECT_NONE(problem_all_variants(&p->base), "in order");
    merge_free(p);
}

/* lse far apart, equal, large and small: the shift by the largest keeps every weight in range. */
TEST_EACH(merge_states, far_apart, 6)
{
    static const float lses[][4] = {{0, -200, 80, -1e4F},    {1e5F, 0, -1e5F, 1},    {-1e30F, -1e30F, -1e30F, -1e30F},
                                    {88, 88.5F, 89, 1e-40F}, {0, -87, -88, -103.5F}, {-0.0F, 0, 1e-20F, -1e-20F}};
    struct merge_problem *p = merge_new(&few);
    for (int i = 0; i < 4; i++)
        for (int row = 0; row < ROWS; row++)
            ((float *)p->lse[i].data)[row] = lses[*at][(i + row) % 4];
    finish(p);
}

/* NaN in one channel of one part spoils that channel of its row, NaN in one lse its row; infinities likewise. */
TEST_EACH(merge_states, not_finite, COUNT(float_types) * 3)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY};
    struct merge_setup setup = few;
    setup.part = float_types[*at / 3];
    struct merge_problem *p = merge_new(&setup);
    format_encode(setup.part, tensor_row(&p->desc.part, p->part[1].data, 0, 1, 2), 7, odd[*at % 3]);
    format_encode(setup.part, tensor_row(&p->desc.part, p->part[3].data, 1, 2, 4), 39, odd[(*at + 1) % 3]);
    ((float *)p->lse[2].data)[3] = NAN;
    ((float *)p->lse[0].data)[8] = INFINITY;
    for (int i = 0; i < 4; i++) /* NaN beside parts that saw nothing */
        ((float *)p->lse[i].data)[11] = i == 2 ? NAN : -INFINITY;
    finish(p);
}

/* ---- in place -------------------------------------------------------------------------------- */

/* out takes the place of one part and lse that of another: nothing is read after it was overwritten. */
TEST_EACH(merge_states, in_place, 4 * 2)
{
    struct merge_setup setup = few;
    setup.empty = 3;
    setup.channels = 600;
    setup.interleaved = *at / 4;
    struct merge_problem *p = merge_new(&setup);
    int part = *at % 4, lse = (*at + 1) % 4;
    merge_expect(p);
    memcpy(p->args.out, p->parts[part], p->part[part].bytes);
    memcpy(p->args.lse, p->lses[lse], p->lse[lse].bytes);
    problem_keep(&p->base);
    p->parts[part] = p->args.out;
    p->lses[lse] = p->args.lse;
    EXPECT_NONE(problem_all_variants(&p->base), "in place");
    merge_free(p);
}

/* ---- attention in parts ------------------------------------------------------------------------ */

enum { DIM = 24, KEYS = 300, QUERIES = 4, GROUP = 2 };

struct attention {
    tdm_gqa_desc desc;
    tdm_gqa_args args;
    float q[BATCH * HEADS * GROUP * QUERIES * DIM];
    float k[BATCH * HEADS * KEYS * DIM], v[BATCH * HEADS * KEYS * DIM];
    int32_t q_len[BATCH], kv_len[BATCH];
};

static void describe(struct attention *a)
{
    struct random random = {5};
    tdm_gqa_desc_init(&a->desc);
    a->desc.q = a->desc.out = tensor4(TDM_F32, BATCH, HEADS * GROUP, QUERIES, DIM);
    a->desc.cache.k = a->desc.cache.v = tensor4(TDM_F32, BATCH, HEADS, KEYS, DIM);
    a->desc.window_right = -1;
    random_fill(&a->desc.q, a->q, 2, &random);
    random_fill(&a->desc.cache.k, a->k, 2, &random);
    random_fill(&a->desc.cache.v, a->v, 2, &random);
    a->args = TDM_INIT(tdm_gqa_args);
    a->args.q = a->q;
    a->args.cache.k = a->k;
    a->args.cache.v = a->v;
    a->args.q_len = a->q_len;
    a->args.kv_len = a->kv_len;
    for (int b = 0; b < BATCH; b++) {
        a->q_len[b] = QUERIES - b;
        a->kv_len[b] = KEYS;
    }
}

/* The keys [first, end) alone: a view of the cache. */
static void narrow(const struct attention *a, int first, int end, struct attention *part)
{
    *part = *a;
    tdm_tensor *halves[] = {&part->desc.cache.k, &part->desc.cache.v};
    for (int i = 0; i < 2; i++) {
        for (int axis = 0; axis < 3; axis++)
            halves[i]->stride[axis] = tensor_stride(&a->desc.cache.k, axis);
        halves[i]->dim[2] = end > first ? end - first : 1;
    }
    int row = first < KEYS ? first : KEYS - 1; /* a cache has a row, even for no keys */
    part->args.cache.k = (float *)a->k + row * DIM;
    part->args.cache.v = (float *)a->v + row * DIM;
    part->args.kv_len = part->kv_len;
    part->kv_len[0] = part->kv_len[1] = end - first;
}

/* Attention over ranges of keys, some of them empty, merged: within the bound of what all keys must give. A sink is in
 * the first part alone. */
TEST_EACH(merge_states, equals_the_whole, 6)
{
    static const int cuts[][6] = {{0, 150, 300, 300, 300, 300}, {0, 0, 1, 200, 299, 300}, {0, 128, 256, 256, 290, 300}};
    enum { RANGES = 5, ROWS_HERE = BATCH * HEADS * GROUP * QUERIES };
    static struct attention whole, part;
    static float out[RANGES][ROWS_HERE * DIM], lse[RANGES][ROWS_HERE], merged[ROWS_HERE * DIM], merged_lse[ROWS_HERE];
    const char *bad = NULL;
    struct gqa_expected known[RANGES], all;
    tdm_merge_states_desc desc = TDM_INIT(tdm_merge_states_desc);
    tdm_merge_states_args args = TDM_INIT(tdm_merge_states_args);
    const void *parts[RANGES];
    const float *lses[RANGES];
    tdm_options options = TDM_INIT(tdm_options);
    tdm_ctx *ctx;
    options.env = (const char *const[]){NULL};
    cr_assert(!tdm_open(TDM_VERSION, &options, &ctx), "%s", tdm_last_error());

    describe(&whole);
    whole.desc.smooth_softmax = *at / 3;
    all = reference_gqa(&whole.desc, &whole.args);
    for (int i = 0; i < RANGES; i++) {
        narrow(&whole, cuts[*at % 3][i], cuts[*at % 3][i + 1], &part);
        part.desc.smooth_softmax = whole.desc.smooth_softmax && i == 0;
        part.args.out = out[i];
        part.args.lse = lse[i];
        struct problem one = {.op = GQA, .desc = &part.desc, .args = &part.args};
        cr_assert(!problem_run(&one, ctx), "%s", tdm_last_error());
        known[i] = reference_gqa(&part.desc, &part.args);
        parts[i] = out[i];
        lses[i] = lse[i];
    }
    desc.part = desc.out = whole.desc.out;
    desc.max_parts = RANGES;
    args.part = parts;
    args.part_lse = lses;
    args.parts = RANGES;
    args.out = merged;
    args.lse = merged_lse;
    struct problem merge = {.op = MERGE, .desc = &desc, .args = &args};
    cr_assert(!problem_run(&merge, ctx), "%s", tdm_last_error());
    struct gqa_expected expected = reference_merge_states(&desc, known, RANGES);
    for (int64_t i = 0; i < tensor_elements(&desc.out); i++)
        all.out.bound[i] = expected.out.bound[i] + 1e-12 * fabs(all.out.value[i]); /* two references in double */
    for (int64_t i = 0; i < ROWS_HERE; i++)
        all.lse.bound[i] = expected.lse.bound[i] + 1e-12 * fabs(all.lse.value[i]);
    tdm_tensor rows = tensor4(TDM_F32, BATCH, HEADS * GROUP, QUERIES, 1);
    bad = compare_tensor(&desc.out, merged, &all.out, whole.q_len);
    EXPECT_NONE(bad, "out");
    EXPECT_NONE(compare_tensor(&rows, merged_lse, &all.lse, whole.q_len), "lse");
    for (int i = 0; i < RANGES; i++)
        gqa_expected_free(&known[i]);
    gqa_expected_free(&all);
    gqa_expected_free(&expected);
    tdm_close(ctx);
}
