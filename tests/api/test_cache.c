/* The cache object does what the ops do that it is made of, and allocates when it is made only. */
#include "cache_world.h"
#include "counting.h"
#include "tests/ops/indices.h"
#include "tests/reference/tensor.h"

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

/* ---- beside the plain ops -------------------------------------------------------------------- */

/* A second cache of the same desc that the plain ops keep in memory of the test's own. */
struct plain {
    tdm_kv_data data;
    int32_t length[TWO];
    float out[TWO * QUERY_HEADS * MOST_NEW * VALUE_SIZE], lse[TWO * QUERY_HEADS * MOST_NEW];
};

static float *plain_scales(const tdm_tensor *half, const float *given)
{
    size_t bytes = (size_t)tensor_scales(half) * sizeof(float);
    float *scales = bytes ? calloc(1, bytes) : NULL;
    return given ? memcpy(scales, given, bytes) : scales;
}

static void plain_init(struct plain *p, const struct cache_world *w)
{
    const tdm_kv_cache *cache = &w->append.cache;
    memset(p, 0, sizeof *p);
    p->data.k = calloc(1, (size_t)tensor_bytes(&cache->k));
    p->data.v = calloc(1, (size_t)tensor_bytes(&cache->v));
    p->data.k_scale = plain_scales(&cache->k, w->desc.k_scale);
    p->data.v_scale = plain_scales(&cache->v, w->desc.v_scale);
    p->data.k_offset = w->desc.k_offset;
}

static void plain_free(struct plain *p)
{
    free(p->data.k);
    free(p->data.v);
    free(p->data.k_scale);
    free(p->data.v_scale);
}

static void plain_append(struct plain *p, const struct cache_world *w, const int32_t *new_len)
{
    tdm_op *op;
    cr_assert(!tdm_kv_append_create(w->ctx, w->device, &w->append, &op), "%s", tdm_last_error());
    tdm_kv_append_args args = TDM_INIT(tdm_kv_append_args);
    args.k = w->k, args.v = w->v, args.cache = p->data, args.new_len = new_len, args.pos = p->length;
    args.k_norm = w->desc.k_norm, args.cos = w->desc.cos, args.sin = w->desc.sin;
    cr_assert(!tdm_kv_append_run(op, NULL, NULL, &args), "%s", tdm_last_error());
    tdm_op_destroy(op);
    for (int b = 0; b < TWO; b++)
        p->length[b] += new_len[b];
}

static void plain_attend(struct plain *p, const struct cache_world *w, int32_t queries)
{
    tdm_op *op;
    tdm_workspace *workspace;
    tdm_gqa_desc desc = w->attention;
    desc.cache = w->append.cache;
    cr_assert(!tdm_gqa_create(w->ctx, w->device, &desc, &op), "%s", tdm_last_error());
    cr_assert(!tdm_workspace_create(op, NULL, 0, &workspace), "%s", tdm_last_error());
    int32_t q_len[TWO] = {queries, queries};
    tdm_gqa_args args = TDM_INIT(tdm_gqa_args);
    args.q = w->q, args.cache = p->data, args.q_len = q_len, args.kv_len = p->length;
    args.out = p->out, args.lse = p->lse;
    args.q_norm = w->desc.q_norm, args.cos = w->desc.cos, args.sin = w->desc.sin, args.head_sink = w->desc.head_sink;
    memset(p->out, 0xff, sizeof p->out);
    memset(p->lse, 0xff, sizeof p->lse);
    cr_assert(!tdm_gqa_run(op, workspace, NULL, &args), "%s", tdm_last_error());
    tdm_workspace_destroy(workspace);
    tdm_op_destroy(op);
}

static void expect_same_memory(const struct cache_world *w, const struct plain *p, const char *name)
{
    tdm_kv_data data;
    const tdm_kv_cache *cache = &w->append.cache;
    cr_assert(!tdm_cache_data(w->cache, &data), "%s", tdm_last_error());
    cr_expect(!memcmp(data.k, p->data.k, (size_t)tensor_bytes(&cache->k)), "%s: other keys", name);
    cr_expect(!memcmp(data.v, p->data.v, (size_t)tensor_bytes(&cache->v)), "%s: other values", name);
    size_t scales = (size_t)tensor_scales(&cache->k) * sizeof(float);
    cr_expect(!scales || !memcmp(data.k_scale, p->data.k_scale, scales), "%s: other K scales", name);
    scales = (size_t)tensor_scales(&cache->v) * sizeof(float);
    cr_expect(!scales || !memcmp(data.v_scale, p->data.v_scale, scales), "%s: other V scales", name);
    cr_expect(!memcmp(tdm_cache_lengths(w->cache), p->length, sizeof p->length), "%s: other lengths", name);
}

TEST_EACH(cache, like_the_plain_ops, cache_scheme_count)
{
    struct cache_world w;
    struct plain p;
    const char *name = cache_schemes[*at].name;
    open_scheme(&w, *at);
    plain_init(&p, &w);
    for (int i = 0; i < ROUNDS; i++) {
        cr_assert(!cache_world_append(&w, rounds[i][0], rounds[i][1], 0), "%s: %s", name, tdm_last_error());
        plain_append(&p, &w, rounds[i]);
        expect_same_memory(&w, &p, name);
        int32_t queries = 1 + i % MOST_NEW;
        cr_assert(!cache_world_attend(&w, queries), "%s: %s", name, tdm_last_error());
        plain_attend(&p, &w, queries);
        cr_expect(!memcmp(w.out, p.out, sizeof p.out) && !memcmp(w.lse, p.lse, sizeof p.lse),
                  "%s, round %d: other bits", name, i);
    }
    plain_free(&p);
    cache_world_close(&w);
}

/* ---- memory ------------------------------------------------------------------------------------------ */

static tdm_status whole_life(struct counting *counting, int scheme)
{
    struct cache_world w;
    float k[TWO * PAIRS * ROWS_KEPT * KEY_SIZE];
    tdm_allocator allocator = counting_allocator(counting);
    tdm_status status = cache_world_open(&w, &cache_schemes[scheme], &allocator);
    int made = counting->calls;
    if (!status && !(status = cache_world_append(&w, 3, 2, 0)) && !(status = cache_world_attend(&w, 2)) &&
        !(status = tdm_cache_dequantize(w.cache, k, NULL)))
        status = tdm_cache_truncate(w.cache, 0, 1);
    cr_expect_eq(counting->calls, made, "a call on a cache allocated");
    cr_expect(!status || !w.cache, "a cache in spite of %s", tdm_status_name(status));
    cache_world_close(&w);
    return status;
}

TEST_EACH(cache, every_allocation_fails, cache_scheme_count)
{
    struct counting all = {0};
    cr_assert(!whole_life(&all, *at), "%s", tdm_last_error());
    cr_expect(all.live == 0 && !all.misaligned && !all.null_frees);
    for (int n = 1; n <= all.calls; n++) {
        struct counting counting = {.fail_at = n};
        cr_expect_eq(whole_life(&counting, *at), TDM_NO_MEMORY, "allocation %d of %d", n, all.calls);
        cr_expect_eq(counting.live, 0, "allocation %d of %d: %d blocks are left", n, all.calls, counting.live);
    }
}
