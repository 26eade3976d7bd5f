/* Caches in use: appended to and attended over, a few tokens at a time, in rings and packed projections. What comes
 * out must be what attention over all the tokens in one plain cache gives. */
#include "indices.h"
#include "layer.h"
#include "tests/reference/formats.h"
#include "tests/reference/random.h"
#include "tests/reference/reference.h"
#include "tests/reference/tensor.h"
#include "variants.h"

#include <stdlib.h>
#include <string.h>

/* What all tokens of `queries` give over those of `layer`, both in one go and in one plain cache. */
static struct expected prefill(const struct layer *layer, const struct layer *queries, const struct stored_type *type)
{
    struct cache cache = cache_new(layer, type, TOKENS, false);
    struct call call;
    call_append(&call, layer, &cache, 0, TOKENS, 0);
    reference_kv_append(&call.append, &call.append_args);
    call_gqa(&call, queries, &cache, 0, TOKENS, TOKENS, NULL);
    struct gqa_expected all = reference_gqa(&call.gqa, &call.gqa_args);
    expected_free(&all.lse);
    expected_free(&all.scores);
    cache_free(&cache);
    return all.out;
}

/* ---- decoding -------------------------------------------------------------------------------------------- */

static tdm_status advance(tdm_ctx *ctx, const struct layer *layer, const struct cache *cache, int32_t first, int32_t n,
                          int32_t pos, float *out)
{
    struct call call;
    call_append(&call, layer, cache, first, n, pos);
    tdm_status status = problem_run(&call.problem, ctx);
    if (status)
        return status;
    call_gqa(&call, layer, cache, first, n, pos + n, out);
    return problem_run(&call.problem, ctx);
}

struct decoding {
    int32_t step;  /* tokens at a time                                                         */
    int32_t draft; /* others that are tried first, and taken back: the next append is at their position */
    bool ring;     /* as small as window, step and draft allow                                 */
};

/* Decode all tokens: the outputs must be those of one prefill. */
static const char *decode(tdm_ctx *ctx, const struct layer *layer, const struct layer *drafts,
                          const struct stored_type *type, const struct decoding *how, const struct expected *expected)
{
    int64_t capacity = how->ring ? SINKS + WINDOW + how->step + how->draft : TOKENS + how->draft;
    struct cache cache = cache_new(layer, type, capacity, how->ring);
    float *out = calloc(Q_HEADS * TOKENS * DIM, sizeof *out), *aside = calloc(Q_HEADS * TOKENS * DIM, sizeof *aside);
    tdm_status status = TDM_OK;
    for (int32_t pos = 0; pos < TOKENS && !status; pos += how->step) {
        int32_t n = TOKENS - pos < how->step ? TOKENS - pos : how->step;
        if (how->draft)
            status = advance(ctx, drafts, &cache, 0, how->draft, pos, aside);
        if (!status)
            status = advance(ctx, layer, &cache, pos, n, pos, out);
    }
    const char *bad = status ? tdm_last_error() : compare_tensor(&layer->q, out, expected, NULL);
    cache_free(&cache);
    free(out);
    free(aside);
    return bad;
}

static const struct decoding decodings[] = {
    {1, 0, false}, {7, 0, false}, {1, 0, true}, {5, 0, true}, {1, 4, false}, {3, 6, true}, {16, 16, true},
};

/* Every impl and leaf, for every type of cache. */
TEST_EACH(gqa_caches, decoding_equals_prefill, COUNT(stored_types))
{
    const struct stored_type *type = &stored_types[*at];
    const struct variant *variants;
    struct layer *layer = layer_new(1), *drafts = layer_new(2);
    struct expected expected = prefill(layer, layer, type);
    int count = variants_of("gqa", false, &variants);
    for (int v = 0; v < count; v++)
        for (int i = 0; i < COUNT(decodings); i++) {
            struct forced *forced = forced_get("gqa", &variants[v], 2);
            cr_assert(forced, "%s", tdm_last_error());
            const char *bad = decode(forced->ctx, layer, drafts, type, &decodings[i], &expected);
            cr_expect(!bad, "%s, %d at a time after drafts of %d%s: %s", variants[v].label, decodings[i].step,
                      decodings[i].draft, decodings[i].ring ? ", ring" : "", bad);
            cr_expect(!forced_check(forced), "%s: %s", variants[v].label, forced_check(forced));
        }
    expected_free(&expected);
    layer_free(layer);
    layer_free(drafts);
}

/* A layer without keys of its own reads those of another. */
TEST_EACH(gqa_caches, shared, COUNT(stored_types))
{
    const struct stored_type *type = &stored_types[*at];
    struct layer *layer = layer_new(3), *reader = layer_new(4);
    const struct layer *readers[] = {layer, reader};
    struct cache cache = cache_new(layer, type, TOKENS, false);
    struct call call;
    call_append(&call, layer, &cache, 0, TOKENS, 0);
    const struct variant *variants;
    int count = variants_of("gqa", false, &variants);
    for (int v = 0; v < count; v++) {
        struct forced *forced = forced_get("gqa", &variants[v], 2);
        cr_assert(forced, "%s", tdm_last_error());
        cr_assert_eq(problem_run(&call.problem, forced->ctx), TDM_OK, "%s", tdm_last_error());
        for (int i = 0; i < 2; i++) {
            float *out = calloc(Q_HEADS * TOKENS * DIM, sizeof *out);
            struct expected expected = prefill(layer, readers[i], type);
            struct call read;
            call_gqa(&read, readers[i], &cache, 0, TOKENS, TOKENS, out);
            cr_assert_eq(problem_run(&read.problem, forced->ctx), TDM_OK, "%s", tdm_last_error());
            EXPECT_NONE(compare_tensor(&layer->q, out, &expected, NULL), variants[v].label);
            expected_free(&expected);
            free(out);
        }
    }
    cache_free(&cache);
    layer_free(layer);
    layer_free(reader);
}

/* ---- packed projections -------------------------------------------------------------------------------------- */

enum { BATCH = 3, PACKED_TOKENS = 6, WIDTH = (Q_HEADS + 2 * KV_HEADS) * DIM };

/* `heads` heads from `head` on of every token of [BATCH, PACKED_TOKENS, width]. */
static tdm_tensor packed_heads(int64_t heads, int64_t width)
{
    tdm_tensor tensor = tensor4(TDM_F16, BATCH, heads, PACKED_TOKENS, DIM);
    int64_t element = format_bytes(TDM_F16, 1);
    tensor.stride[0] = PACKED_TOKENS * width * element;
    tensor.stride[1] = DIM * element;
    tensor.stride[2] = width * element;
    return tensor;
}

/* Copy a tensor to a dense one. */
static void *dense_copy(const tdm_tensor *from, const void *data, tdm_tensor *to)
{
    *to = tensor4(from->dtype, from->dim[0], from->dim[1], from->dim[2], from->dim[3]);
    void *copy = calloc(1, (size_t)tensor_bytes(to));
    for (int64_t b = 0; b < from->dim[0]; b++)
        for (int64_t h = 0; h < from->dim[1]; h++)
            for (int64_t r = 0; r < from->dim[2]; r++)
                memcpy(tensor_row(to, copy, b, h, r), tensor_row(from, data, b, h, r),
                       (size_t)format_bytes(from->dtype, from->dim[3]));
    return copy;
}

/* Append k and v and attend with q; what comes out, dense. */
static void *attend(tdm_ctx *ctx, const tdm_tensor tensors[4], const void *const data[3], void *out)
{
    static const int32_t lengths[BATCH] = {6, 1, 4}, pos[BATCH] = {0, 0, 0};
    tdm_tensor half = tensor4(TDM_F16, BATCH, KV_HEADS, PACKED_TOKENS, DIM), dense;
    char *cache = calloc(2, (size_t)tensor_bytes(&half));
    tdm_kv_append_desc append = TDM_INIT(tdm_kv_append_desc);
    append.k = tensors[1];
    append.v = tensors[2];
    append.cache.k = append.cache.v = half;
    tdm_kv_append_args append_args = {.struct_size = sizeof append_args,
                                      .k = data[1],
                                      .v = data[2],
                                      .cache = {.k = cache, .v = cache + tensor_bytes(&half)},
                                      .new_len = lengths,
                                      .pos = pos};
    tdm_gqa_desc gqa;
    tdm_gqa_desc_init(&gqa);
    gqa.q = tensors[0];
    gqa.out = tensors[3];
    gqa.cache = append.cache;
    tdm_gqa_args gqa_args = {.struct_size = sizeof gqa_args,
                             .q = data[0],
                             .cache = append_args.cache,
                             .q_len = lengths,
                             .kv_len = lengths,
                             .out = out};
    struct problem calls[] = {{.op = APPEND, .desc = &append, .args = &append_args},
                              {.op = GQA, .desc = &gqa, .args = &gqa_args}};
    for (int i = 0; i < 2; i++)
        cr_assert_eq(problem_run(&calls[i], ctx), TDM_OK, "%s", tdm_last_error());
    free(cache);
    return dense_copy(&tensors[3], out, &dense);
}

/* Read where they lie, and from dense copies: the same bits. */
Test(gqa_caches, packed)
{
    int64_t element = format_bytes(TDM_F16, 1);
    tdm_tensor all = tensor4(TDM_F16, 1, BATCH, PACKED_TOKENS, WIDTH), dense[4];
    tdm_tensor packed[] = {packed_heads(Q_HEADS, WIDTH), packed_heads(KV_HEADS, WIDTH), packed_heads(KV_HEADS, WIDTH),
                           packed_heads(Q_HEADS, Q_HEADS * DIM)};
    struct random random = {5};
    char *projection = malloc((size_t)tensor_bytes(&all));
    random_fill(&all, projection, 2, &random);
    const void *data[] = {projection, projection + Q_HEADS * DIM * element,
                          projection + (Q_HEADS + KV_HEADS) * DIM * element};
    void *copies[3];
    for (int i = 0; i < 3; i++)
        copies[i] = dense_copy(&packed[i], data[i], &dense[i]);
    size_t bytes = (size_t)tensor_bytes(&packed[3]);
    void *outs[] = {calloc(1, bytes), calloc(1, bytes)};
    free(dense_copy(&packed[3], outs[0], &dense[3]));
    const struct variant *variants;
    int count = variants_of("gqa", false, &variants);
    for (int v = 0; v < count; v++) {
        struct forced *forced = forced_get("gqa", &variants[v], 2);
        cr_assert(forced, "%s", tdm_last_error());
        void *got = attend(forced->ctx, packed, data, outs[0]);
        void *want = attend(forced->ctx, dense, (const void *const *)copies, outs[1]);
        EXPECT_NONE(compare_bytes("out", got, want, bytes), variants[v].label);
        free(got);
        free(want);
    }
    for (int i = 0; i < 3; i++)
        free(copies[i]);
    free(outs[0]);
    free(outs[1]);
    free(projection);
}
