/* Which tokens a cache object holds: read back row by row, and taken back, also around a ring. */
#include "cache_world.h"
#include "tests/ops/indices.h"
#include "tests/reference/bounds.h"
#include "tests/reference/formats.h"
#include "tests/reference/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void open_scheme(struct cache_world *world, int scheme)
{
    cr_assert(!cache_world_open(world, &cache_schemes[scheme], NULL), "%s: %s", cache_schemes[scheme].name,
              tdm_last_error());
}

/* Lengths of the rounds that tests feed, ragged and with a sequence that has nothing new. */
static const int32_t rounds[][TWO] = {{4, 1}, {0, 3}, {2, 4}, {1, 1}, {4, 0}, {3, 4}, {4, 4}, {4, 2}, {1, 4}};
enum { ROUNDS = sizeof rounds / sizeof *rounds };

/* ---- reading back ------------------------------------------------------------------------------ */

/* Which position's token each row holds, -1 for none: written down as tokens come and go. */
struct model {
    int32_t position[TWO][ROWS_KEPT], salt[TWO][ROWS_KEPT];
};

static int32_t row_of(const struct cache_world *w, int32_t position)
{
    int32_t rows = (int32_t)w->append.cache.k.dim[2] - RING_SINKS;
    return !w->append.cache.ring || position < RING_SINKS ? position : RING_SINKS + (position - RING_SINKS) % rows;
}

static void model_append(struct model *m, const struct cache_world *w, const int32_t *before, int salt)
{
    for (int b = 0; b < TWO; b++)
        for (int32_t position = before[b]; position < tdm_cache_lengths(w->cache)[b]; position++) {
            m->position[b][row_of(w, position)] = position;
            m->salt[b][row_of(w, position)] = salt;
        }
}

static void model_truncate(struct model *m, int b, int32_t length)
{
    for (int r = 0; r < ROWS_KEPT; r++)
        if (m->position[b][r] >= length)
            m->position[b][r] = -1;
}

/* Channel c of a stored row, out of its rotation, in double, and how far f32 may be from it. */
static double plain_value(const tdm_tensor *half, const void *data, const float *scale, bool rotated, int64_t b,
                          int64_t h, int64_t r, int64_t c, double *bound)
{
    int64_t n = half->dim[3], block = rotated ? n & -n : 1, first = c / block * block;
    double sum = 0, size = 0;
    for (int64_t i = first; i < first + block; i++) {
        double x = format_decode(half->dtype, tensor_row(half, data, b, h, r), i);
        x *= tensor_scale(half, scale, b, h, r, i);
        sum += __builtin_popcountll((unsigned long long)((i - first) & (c - first))) % 2 ? -x : x;
        size += fabs(x);
    }
    *bound = gamma_of(log2((double)block) + 3) * size / sqrt((double)block);
    return sum / sqrt((double)block);
}

static void expect_half(const struct cache_world *w, const struct model *m, bool keys, const float *got)
{
    tdm_kv_data data;
    const tdm_kv_cache *cache = &w->append.cache;
    const tdm_tensor *half = keys ? &cache->k : &cache->v;
    tdm_cache_data(w->cache, &data);
    int64_t n = half->dim[3], rows = half->dim[2];
    for (int64_t i = 0; i < TWO * PAIRS * rows * n; i++) {
        int64_t c = i % n, r = i / n % rows, h = i / n / rows % PAIRS, b = i / n / rows / PAIRS;
        double bound = 0, want = 0;
        if (m->position[b][r] >= 0)
            want = plain_value(half, keys ? data.k : data.v, keys ? data.k_scale : data.v_scale,
                               keys ? cache->rotate_k : cache->rotate_v, b, h, r, c, &bound);
        if (m->position[b][r] >= 0 && keys && cache->has_k_offset) {
            want += (double)w->offset[h * n + c];
            bound += ROUNDOFF * fabs(want);
        }
        cr_assert(fabs((double)got[i] - want) <= bound, "%s [%d, %d, %d, %d] holds position %d: got %g, want %g",
                  keys ? "k" : "v", (int)b, (int)h, (int)r, (int)c, m->position[b][r], (double)got[i], want);
    }
}

/* f32 without rotation, norm and rotary gives back the very tokens. */
static void expect_tokens(struct cache_world *w, const struct model *m, const float *v)
{
    int64_t rows = w->append.cache.v.dim[2];
    for (int b = 0; b < TWO; b++)
        for (int r = 0; r < rows; r++) {
            int32_t pos[TWO] = {m->position[b][r], m->position[b][r]}, one[TWO] = {1, 1};
            if (pos[b] < 0)
                continue;
            cache_world_fill(w, pos, one, m->salt[b][r]);
            for (int h = 0; h < PAIRS; h++)
                cr_assert(!memcmp(v + ((b * PAIRS + h) * rows + r) * VALUE_SIZE,
                                  w->v + (b * PAIRS + h) * MOST_NEW * VALUE_SIZE, VALUE_SIZE * sizeof *v),
                          "row %d of sequence %d is not position %d", r, b, pos[b]);
        }
}

static void check_contents(struct cache_world *w, const struct model *m)
{
    size_t rows = (size_t)w->append.cache.k.dim[2] * TWO * PAIRS;
    float *k = malloc(rows * KEY_SIZE * sizeof *k), *v = malloc(rows * VALUE_SIZE * sizeof *v);
    memset(k, 0xff, rows * KEY_SIZE * sizeof *k);
    memset(v, 0xff, rows * VALUE_SIZE * sizeof *v);
    cr_assert(!tdm_cache_dequantize(w->cache, k, v), "%s", tdm_last_error());
    expect_half(w, m, true, k);
    expect_half(w, m, false, v);
    if (w->append.cache.v.dtype == TDM_F32)
        expect_tokens(w, m, v);
    cr_expect(!tdm_cache_dequantize(w->cache, k, NULL) && !tdm_cache_dequantize(w->cache, NULL, v) &&
              !tdm_cache_dequantize(w->cache, NULL, NULL));
    free(k);
    free(v);
}

/* Append and take back in turn, also around a ring, and look at every row each time. */
TEST_EACH(cache, reads_back, cache_scheme_count)
{
    struct cache_world w;
    struct model m;
    memset(&m, 0xff, sizeof m);
    open_scheme(&w, *at);
    for (int i = 0; i < 2 * ROUNDS; i++) {
        int32_t before[TWO], taken = i % 3;
        memcpy(before, tdm_cache_lengths(w.cache), sizeof before);
        tdm_status status = cache_world_append(&w, rounds[i % ROUNDS][0], rounds[i % ROUNDS][1], i);
        if (status && !w.append.cache.ring)
            break; /* full */
        cr_assert(!status, "%s", tdm_last_error());
        model_append(&m, &w, before, i);
        check_contents(&w, &m);
        int32_t length = tdm_cache_lengths(w.cache)[i % TWO] - taken;
        if (length < 0)
            continue;
        cr_assert(!tdm_cache_truncate(w.cache, i % TWO, length), "%s", tdm_last_error());
        model_truncate(&m, i % TWO, length);
        check_contents(&w, &m);
    }
    cache_world_close(&w);
}

/* ---- truncating ----------------------------------------------------------------------------------- */

static void append_steps(struct cache_world *w, int32_t tokens, int salt)
{
    for (int32_t n; tokens > 0; tokens -= n) {
        n = tokens < MOST_NEW ? tokens : MOST_NEW;
        cr_assert(!cache_world_append(w, n, n, salt), "%s", tdm_last_error());
    }
}

/* Some tokens, `taken` more that are taken back, and others in their place, give what the others alone give. */
static void check_truncation(int scheme, int32_t tokens, int32_t taken)
{
    struct cache_world w, fresh;
    open_scheme(&w, scheme);
    open_scheme(&fresh, scheme);
    append_steps(&w, tokens + taken, 0);
    append_steps(&fresh, tokens, 0);
    for (int b = 0; b < TWO; b++) {
        cr_assert(!tdm_cache_truncate(w.cache, b, tokens), "%s: %s", cache_schemes[scheme].name, tdm_last_error());
        cr_expect_eq(tdm_cache_lengths(w.cache)[b], tokens);
    }
    for (int step = 0; step < 3; step++) {
        cr_assert(!cache_world_append(&w, 3, 3, 1) && !cache_world_append(&fresh, 3, 3, 1), "%s", tdm_last_error());
        cr_assert(!cache_world_attend(&w, 3) && !cache_world_attend(&fresh, 3), "%s", tdm_last_error());
        cr_expect(!memcmp(w.out, fresh.out, sizeof w.out) && !memcmp(w.lse, fresh.lse, sizeof w.lse),
                  "%s: %d tokens, %d taken back, step %d: other bits", cache_schemes[scheme].name, tokens, taken, step);
    }
    cache_world_close(&w);
    cache_world_close(&fresh);
}

enum { RING_TAKES = RING_ROWS - RING_SINKS - WINDOW - MOST_NEW };

TEST_EACH(cache, truncates, cache_scheme_count)
{
    check_truncation(*at, 9, 4);
    check_truncation(*at, 0, 7);
    check_truncation(*at, 8, 0);
    check_truncation(*at, 2, 13);
    if (!cache_schemes[*at].ring)
        return;
    check_truncation(*at, 30, RING_TAKES);
    check_truncation(*at, 17, RING_TAKES);
    check_truncation(*at, RING_SINKS, 25); /* whatever the ring has seen, its sinks are there */
    check_truncation(*at, 0, 25);
}

/* A ring gives back only what it has: counted from the newest it has seen, in however many calls. */
TEST_EACH(cache, ring_rollback, cache_scheme_count)
{
    struct cache_world w;
    if (!cache_schemes[*at].ring)
        return;
    open_scheme(&w, *at);
    append_steps(&w, 30, 0);
    cr_expect_eq(tdm_cache_truncate(w.cache, 0, 30 - RING_TAKES - 1), TDM_BAD_ARG);
    cr_expect_eq(tdm_cache_lengths(w.cache)[0], 30);
    cr_expect_eq(tdm_cache_truncate(w.cache, 0, RING_SINKS + 1), TDM_BAD_ARG);
    cr_expect_eq(tdm_cache_truncate(w.cache, 0, 30 - RING_TAKES + 1), TDM_OK);
    cr_expect_eq(tdm_cache_truncate(w.cache, 0, 30 - RING_TAKES), TDM_OK);
    cr_expect_eq(tdm_cache_truncate(w.cache, 0, 30 - RING_TAKES - 1), TDM_BAD_ARG);
    cr_expect_eq(tdm_cache_lengths(w.cache)[0], 30 - RING_TAKES);
    cr_expect_eq(tdm_cache_lengths(w.cache)[1], 30);
    cr_assert(!cache_world_append(&w, 1, 1, 0), "%s", tdm_last_error());
    cr_expect_eq(tdm_cache_truncate(w.cache, 0, 30 - RING_TAKES), TDM_OK);
    cr_expect_eq(tdm_cache_truncate(w.cache, 0, 0), TDM_OK);
    cache_world_close(&w);
}
