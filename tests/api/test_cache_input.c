/* Bad input of the cache object: the status, a message that names the field, and nothing changed. */
#include "cache_world.h"
#include "tests/ops/indices.h"

#include <stdlib.h>
#include <string.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

enum scheme { PLAIN = 0, DYNAMIC = 2, STATIC = 3, RICH = 4, RING = 5 }; /* rows of cache_schemes */

static tdm_tensor some_plane(tdm_dtype dtype)
{
    return (tdm_tensor){.dtype = dtype, .rank = 4, .dim = {1, 1, 1, ROWS_KEPT}};
}

/* The table is read twice: for a function a row, then for the rows. */
#define BAD(scheme, status, field, change)                      \
    static void JOIN(change_, __LINE__)(struct cache_world * w) \
    {                                                           \
        change;                                                 \
    }
#include "bad_cache.inc"
#undef BAD
#define BAD(scheme, status, field, change) {scheme, status, field, #change, JOIN(change_, __LINE__)},
static const struct {
    enum scheme scheme;
    tdm_status status;
    const char *field, *change;
    void (*apply)(struct cache_world *w);
} bad_rows[] = {
#include "bad_cache.inc"
};
#undef BAD

static void expect(const char *what, tdm_status status, tdm_status want, const char *field)
{
    cr_expect_eq(status, want, "%s: got %s (%s)", what, tdm_status_name(status), status ? tdm_last_error() : "");
    cr_expect(!status || !strncmp(tdm_last_error(), field, strlen(field)), "%s: the message '%s' does not name %s",
              what, tdm_last_error(), field);
}

TEST_EACH(cache_input, create, (int)(sizeof bad_rows / sizeof *bad_rows))
{
    struct cache_world w;
    const struct cache_scheme *scheme = &cache_schemes[bad_rows[*at].scheme];
    cr_assert(!cache_world_open(&w, scheme, NULL), "%s", tdm_last_error());
    tdm_cache *cache = w.cache;
    bad_rows[*at].apply(&w);
    tdm_status status = tdm_cache_create(w.ctx, w.device, &w.desc, &w.cache);
    expect(bad_rows[*at].change, status, bad_rows[*at].status, bad_rows[*at].field);
    cr_expect_null(w.cache);
    w.cache = cache;
    cache_world_close(&w);
}

Test(cache_input, create_pointers)
{
    struct cache_world w;
    tdm_cache *cache = (tdm_cache *)&w;
    cr_assert(!cache_world_open(&w, cache_schemes, NULL), "%s", tdm_last_error());
    expect("no desc", tdm_cache_create(w.ctx, w.device, NULL, &cache), TDM_BAD_ARG, "desc");
    cr_expect_null(cache);
    expect("no context", tdm_cache_create(NULL, w.device, &w.desc, &cache), TDM_BAD_ARG, "ctx");
    expect("no place", tdm_cache_create(w.ctx, w.device, &w.desc, NULL), TDM_BAD_ARG, "cache");
    tdm_cache_destroy(NULL);
    cache_world_close(&w);
}

/* An attention desc with the cache in it is the same as one without. */
Test(cache_input, cache_in_both_descs)
{
    struct cache_world w;
    tdm_cache *cache = NULL;
    cr_assert(!cache_world_open(&w, &cache_schemes[DYNAMIC], NULL), "%s", tdm_last_error());
    w.attention.cache = w.append.cache;
    cr_expect(!tdm_cache_create(w.ctx, w.device, &w.desc, &cache), "%s", tdm_last_error());
    tdm_cache_destroy(cache);
    cache_world_close(&w);
}

/* ---- calls ---------------------------------------------------------------------------------------- */

/* All of a cache's memory, to compare later. */
struct snapshot {
    char k[TWO * PAIRS * ROWS_KEPT * KEY_SIZE], v[TWO * PAIRS * ROWS_KEPT * VALUE_SIZE];
    float k_scale[TWO * PAIRS * ROWS_KEPT], v_scale[TWO * PAIRS * ROWS_KEPT];
    int32_t length[TWO];
    float out[TWO * QUERY_HEADS * MOST_NEW * VALUE_SIZE];
};

static struct snapshot *snapshot_of(const struct cache_world *w)
{
    struct snapshot *s = calloc(1, sizeof *s);
    tdm_kv_data data;
    cr_assert(!tdm_cache_data(w->cache, &data));
    memcpy(s->k, data.k, sizeof s->k);
    memcpy(s->v, data.v, sizeof s->v);
    memcpy(s->k_scale, data.k_scale, sizeof s->k_scale);
    memcpy(s->v_scale, data.v_scale, sizeof s->v_scale);
    memcpy(s->length, tdm_cache_lengths(w->cache), sizeof s->length);
    memcpy(s->out, w->out, sizeof s->out);
    return s;
}

static void check_calls(struct cache_world *w)
{
    int32_t one[] = {1, 1}, below[] = {1, -1}, above[] = {MOST_NEW + 1, 0};
    float *odd = (float *)(void *)((char *)w->out + 1);
    tdm_cache *c = w->cache;
    expect("k", tdm_cache_append(c, NULL, NULL, w->v, one), TDM_BAD_ARG, "k");
    expect("v", tdm_cache_append(c, NULL, w->k, NULL, one), TDM_BAD_ARG, "v");
    expect("new_len", tdm_cache_append(c, NULL, w->k, w->v, NULL), TDM_BAD_ARG, "new_len");
    expect("new_len < 0", tdm_cache_append(c, NULL, w->k, w->v, below), TDM_BAD_ARG, "new_len[1]");
    expect("new_len > max", tdm_cache_append(c, NULL, w->k, w->v, above), TDM_BAD_ARG, "new_len[0]");
    expect("q", tdm_cache_attend(c, NULL, NULL, one, w->out, NULL), TDM_BAD_ARG, "q");
    expect("q_len", tdm_cache_attend(c, NULL, w->q, NULL, w->out, NULL), TDM_BAD_ARG, "q_len");
    expect("q_len > max", tdm_cache_attend(c, NULL, w->q, above, w->out, NULL), TDM_BAD_ARG, "q_len[0]");
    expect("out", tdm_cache_attend(c, NULL, w->q, one, NULL, NULL), TDM_BAD_ARG, "out");
    expect("odd lse", tdm_cache_attend(c, NULL, w->q, one, w->out, odd), TDM_BAD_ARG, "lse");
    expect("sequence < 0", tdm_cache_truncate(c, -1, 0), TDM_BAD_ARG, "sequence");
    expect("sequence > last", tdm_cache_truncate(c, TWO, 0), TDM_BAD_ARG, "sequence");
    expect("length < 0", tdm_cache_truncate(c, 0, -1), TDM_BAD_ARG, "length");
    expect("longer", tdm_cache_truncate(c, 1, 3), TDM_BAD_ARG, "length");
    expect("odd k", tdm_cache_dequantize(c, odd, NULL), TDM_BAD_ARG, "k");
    expect("odd v", tdm_cache_dequantize(c, NULL, odd), TDM_BAD_ARG, "v");
    expect("data", tdm_cache_data(c, NULL), TDM_BAD_ARG, "data");
}

Test(cache_input, calls_change_nothing)
{
    struct cache_world w;
    cr_assert(!cache_world_open(&w, &cache_schemes[DYNAMIC], NULL), "%s", tdm_last_error());
    cr_assert(!cache_world_append(&w, 4, 2, 0), "%s", tdm_last_error());
    cr_assert(!cache_world_attend(&w, 2), "%s", tdm_last_error());
    struct snapshot *before = snapshot_of(&w);
    check_calls(&w);
    struct snapshot *after = snapshot_of(&w);
    cr_expect(!memcmp(before, after, sizeof *before), "a refused call changed something");
    free(before);
    free(after);
    cache_world_close(&w);
}

Test(cache_input, no_cache)
{
    static float x[1];
    static const int32_t none[TWO];
    tdm_kv_data data;
    expect("append", tdm_cache_append(NULL, NULL, x, x, none), TDM_BAD_ARG, "cache");
    expect("attend", tdm_cache_attend(NULL, NULL, x, none, x, NULL), TDM_BAD_ARG, "cache");
    expect("truncate", tdm_cache_truncate(NULL, 0, 0), TDM_BAD_ARG, "cache");
    expect("dequantize", tdm_cache_dequantize(NULL, x, x), TDM_BAD_ARG, "cache");
    expect("data", tdm_cache_data(NULL, &data), TDM_BAD_ARG, "cache");
    cr_expect_null(tdm_cache_lengths(NULL));
}

/* A full cache takes no more, and says of which sequence. */
Test(cache_input, full)
{
    struct cache_world w;
    cr_assert(!cache_world_open(&w, &cache_schemes[DYNAMIC], NULL), "%s", tdm_last_error());
    for (int i = 0; i < ROWS_KEPT / MOST_NEW; i++)
        cr_assert(!cache_world_append(&w, 0, MOST_NEW, i), "%s", tdm_last_error());
    expect("full", cache_world_append(&w, 1, 1, 0), TDM_BAD_ARG, "new_len[1]");
    cr_expect_eq(tdm_cache_lengths(w.cache)[0], 0);
    cr_expect_eq(tdm_cache_lengths(w.cache)[1], ROWS_KEPT);
    cr_expect(!cache_world_append(&w, 1, 0, 0), "%s", tdm_last_error());
    cache_world_close(&w);
}

/* A full ring takes no more tokens than their queries can look at: the others would evict what the first must see. */
Test(cache_input, ring_takes_what_its_queries_see)
{
    enum { ROOM = MOST_NEW - 2 };
    struct cache_world w;
    cr_assert(!cache_world_open(&w, &cache_schemes[RING], NULL), "%s", tdm_last_error());
    tdm_cache_destroy(w.cache);
    w.attention.window_left = RING_ROWS - RING_SINKS - ROOM;
    cr_assert(!tdm_cache_create(w.ctx, w.device, &w.desc, &w.cache), "%s", tdm_last_error());
    for (int i = 0; i < RING_ROWS / MOST_NEW; i++)
        cr_assert(!cache_world_append(&w, MOST_NEW, 0, i), "%s", tdm_last_error());
    expect("full ring", cache_world_append(&w, ROOM + 1, 0, 0), TDM_BAD_ARG, "new_len[0]");
    cr_expect_eq(tdm_cache_lengths(w.cache)[0], RING_ROWS);
    cr_expect(!cache_world_append(&w, ROOM, 0, 0), "%s", tdm_last_error());
    cr_expect(!cache_world_attend(&w, ROOM), "%s", tdm_last_error());
    cache_world_close(&w);
}
