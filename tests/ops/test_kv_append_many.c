/* kv_append of more sequences, and more rotary positions, than reach a GPU's kernel at once. */
#include "indices.h"
#include "problem.h"
#include "tests/reference/formats.h"
#include "tests/reference/random.h"
#include "tests/reference/reference.h"
#include "tests/reference/tensor.h"
#include "types.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 75, LONGEST = 640, ROWS = 650, CHANNELS = 16, TABLE = 700 };

struct many {
    struct problem base;
    tdm_kv_append_desc desc;
    tdm_kv_append_args args;
    struct guard k, v, tables, positions;
    int32_t new_len[SEQUENCES], pos[SEQUENCES];
};

/* One long sequence among short and empty ones. */
static void set_lengths(struct many *m, struct random *random)
{
    for (int b = 0; b < SEQUENCES; b++) {
        m->new_len[b] = b == 40 ? LONGEST : b % 7 == 3 ? 0 : (int32_t)random_below(random, 9);
        m->pos[b] = (int32_t)random_below(random, ROWS - m->new_len[b] + 1);
    }
    m->args.new_len = m->new_len;
    m->args.pos = m->pos;
}

static void set_positions(struct many *m, struct random *random)
{
    m->positions = guard_new(SEQUENCES * LONGEST * sizeof(int32_t), 0xFF);
    int32_t *positions = m->positions.data;
    for (int b = 0; b < SEQUENCES; b++)
        for (int i = 0; i < m->new_len[b]; i++)
            positions[b * LONGEST + i] = (int32_t)random_below(random, TABLE);
    m->args.positions = positions;
}

static void set_tables(struct many *m)
{
    const int64_t n = TABLE * CHANNELS / 2;
    m->desc.rotary = (tdm_rotary){.dtype = TDM_F32, .dim = CHANNELS, .positions = TABLE};
    m->tables = guard_new(2 * (size_t)n * sizeof(float), 0);
    float *cosines = m->tables.data, *sines = cosines + n;
    for (int64_t i = 0; i < n; i++) {
        cosines[i] = (float)cos((double)i);
        sines[i] = (float)sin((double)i);
    }
    m->args.cos = cosines;
    m->args.sin = sines;
}

/* The cache that must come out, in place of each of the outputs. */
static const char *check(const struct problem *base)
{
    const struct many *m = (const struct many *)base;
    tdm_kv_append_args wanted = m->args;
    void **copies[] = {&wanted.cache.k, &wanted.cache.v, (void **)&wanted.cache.k_scale};
    const char *bad = NULL;
    for (int i = 0; i < base->outputs; i++)
        *copies[i] =
            memcpy(malloc(base->output[i].memory.bytes), base->output[i].initial, base->output[i].memory.bytes);
    reference_kv_append(&m->desc, &wanted);
    for (int i = 0; i < base->outputs; i++) {
        bad = bad ? bad : compare_bytes("cache", base->output[i].memory.data, *copies[i], base->output[i].memory.bytes);
        free(*copies[i]);
    }
    return bad;
}

static struct many *many_new(tdm_dtype dtype)
{
    struct many *m = calloc(1, sizeof *m);
    struct random random = {dtype};
    m->base = (struct problem){.op = APPEND, .desc = &m->desc, .args = &m->args, .check = check};
    m->args = TDM_INIT(tdm_kv_append_args);
    m->desc = TDM_INIT(tdm_kv_append_desc);
    m->desc.k = m->desc.v = tensor4(dtype, SEQUENCES, 1, LONGEST, CHANNELS);
    m->desc.cache.k = m->desc.cache.v = tensor4(TDM_F16, SEQUENCES, 1, ROWS, CHANNELS);
    m->desc.cache.k.dtype = TDM_I8;
    m->desc.cache.k.scaling = TDM_PER_TOKEN;
    m->k = guard_new((size_t)tensor_bytes(&m->desc.k), 0);
    m->v = guard_new((size_t)tensor_bytes(&m->desc.v), 0);
    random_fill(&m->desc.k, m->k.data, 3, &random);
    random_fill(&m->desc.v, m->v.data, 3, &random);
    m->args.k = m->k.data;
    m->args.v = m->v.data;
    m->args.cache.k = problem_output(&m->base, tensor_bytes(&m->desc.cache.k));
    m->args.cache.v = problem_output(&m->base, tensor_bytes(&m->desc.cache.v));
    m->args.cache.k_scale = problem_output(&m->base, SEQUENCES * ROWS * (int64_t)sizeof(float));
    set_lengths(m, &random);
    set_tables(m);
    return m;
}

static void many_free(struct many *m)
{
    problem_free_outputs(&m->base);
    guard_free(&m->k);
    guard_free(&m->v);
    guard_free(&m->tables);
    if (m->args.positions)
        guard_free(&m->positions);
    free(m);
}

TEST_EACH(kv_append_many, sequences, COUNT(float_types))
{
    struct many *m = many_new(float_types[*at]);
    EXPECT_NONE(problem_all_variants(&m->base), "many sequences");
    many_free(m);
}

TEST_EACH(kv_append_many, positions, COUNT(float_types))
{
    struct many *m = many_new(float_types[*at]);
    struct random random = {7};
    set_positions(m, &random);
    EXPECT_NONE(problem_all_variants(&m->base), "many positions");
    many_free(m);
}
