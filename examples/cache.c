/* An INT8 cache in three calls: append a prompt and an answer to it, let queries look at it, and take a token back.
 * With TANDEM_ALLOW=int8_decode in the environment the answer's queries are rounded to INT8 too. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tandem.h>

#define TRY(call) ((call) == TDM_OK ? (void)0 : (fprintf(stderr, "%s\n", tdm_last_error()), exit(1)))
enum { HEADS = 8, KV_HEADS = 2, ROOM = 256, D = 64, CHUNK = 32, PROMPT = 96, ANSWER = 10 };
static float q[CHUNK * HEADS * D], k[CHUNK * KV_HEADS * D], v[CHUNK * KV_HEADS * D], out[CHUNK * HEADS * D];
static float keys[KV_HEADS * ROOM * D], values[KV_HEADS * ROOM * D];

/* Up to CHUNK tokens, each with its heads side by side, as projections make them. */
static tdm_tensor tokens(int64_t heads)
{
    return (tdm_tensor){.dtype = TDM_F32,
                        .rank = 4,
                        .dim = {1, heads, CHUNK, D},
                        .stride = {0, D * sizeof(float), heads * D * sizeof(float)}};
}

/* A model would make these: the key of token t points in direction t, its value says t. */
static void make_tokens(int32_t first, int32_t n)
{
    for (int i = 0; i < n * KV_HEADS * D; i++) {
        int t = first + i / (KV_HEADS * D), c = i % D;
        k[i] = cosf((float)(t * (c + 1)));
        v[i] = (float)t;
    }
}

int main(void)
{
    const tdm_device cpu = {TDM_CPU, 0};
    tdm_kv_append_desc append = TDM_INIT(tdm_kv_append_desc);
    append.k = append.v = tokens(KV_HEADS);
    append.cache.k = append.cache.v =
        (tdm_tensor){.dtype = TDM_I8, .scaling = TDM_PER_TOKEN, .rank = 4, .dim = {1, KV_HEADS, ROOM, D}};
    tdm_gqa_desc attention;
    tdm_gqa_desc_init(&attention);
    attention.q = attention.out = tokens(HEADS);
    attention.scale = 1;
    tdm_cache_desc desc = TDM_INIT(tdm_cache_desc);
    desc.append = &append, desc.attention = &attention;

    tdm_ctx *ctx;
    tdm_cache *cache;
    TRY(tdm_open(TDM_VERSION, NULL, &ctx));
    TRY(tdm_cache_create(ctx, cpu, &desc, &cache));

    for (int32_t first = 0, n = CHUNK; first < PROMPT; first += n) {
        make_tokens(first, n);
        TRY(tdm_cache_append(cache, NULL, k, v, &n));
        TRY(tdm_cache_attend(cache, NULL, q, &n, out, NULL));
    }
    for (int32_t t = PROMPT, one = 1; t < PROMPT + ANSWER; t++) {
        make_tokens(t, one);
        for (int c = 0; c < D; c++)
            q[c] = cosf((float)(42 * (c + 1))); /* the first head looks for token 42 */
        TRY(tdm_cache_append(cache, NULL, k, v, &one));
        TRY(tdm_cache_attend(cache, NULL, q, &one, out, NULL));
    }
    printf("Of %d tokens, head 0 finds number %.0f.\n", tdm_cache_lengths(cache)[0], (double)out[0]);

    TRY(tdm_cache_truncate(cache, 0, PROMPT + ANSWER - 1));
    TRY(tdm_cache_dequantize(cache, keys, values));
    float worst = 0;
    for (int c = 0; c < D; c++)
        worst = fmaxf(worst, fabsf(keys[42 * D + c] - cosf((float)(42 * (c + 1)))));
    printf("Without the last, %d are left; the key of number 42 came back within %.3f.\n", tdm_cache_lengths(cache)[0],
           (double)worst);
    tdm_cache_destroy(cache);
    tdm_close(ctx);
    return 0;
}
