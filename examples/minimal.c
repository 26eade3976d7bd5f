/* Keep the keys and values of 64 tokens as INT8, one scale per token, and let a query look at them. */
#include <stdio.h>
#include <stdlib.h>
#include <tandem.h>

#define TRY(call) ((call) == TDM_OK ? (void)0 : (fprintf(stderr, "%s\n", tdm_last_error()), exit(1)))
enum { HEADS = 8, KV_HEADS = 2, TOKENS = 64, D = 64 };
static float q[HEADS * D], k[KV_HEADS * D], v[KV_HEADS * D], out[HEADS * D];
static float k_scale[KV_HEADS * TOKENS], v_scale[KV_HEADS * TOKENS];
static int8_t k_cache[KV_HEADS * TOKENS * D], v_cache[KV_HEADS * TOKENS * D];

int main(void)
{
    const tdm_device cpu = {TDM_CPU, 0};
    tdm_kv_append_desc store = TDM_INIT(tdm_kv_append_desc);
    store.k = store.v = (tdm_tensor){.dtype = TDM_F32, .rank = 4, .dim = {1, KV_HEADS, 1, D}};
    store.cache.k = store.cache.v =
        (tdm_tensor){.dtype = TDM_I8, .scaling = TDM_PER_TOKEN, .rank = 4, .dim = {1, KV_HEADS, TOKENS, D}};
    tdm_gqa_desc look;
    tdm_gqa_desc_init(&look);
    look.q = look.out = (tdm_tensor){.dtype = TDM_F32, .rank = 4, .dim = {1, HEADS, 1, D}};
    look.cache = store.cache;

    tdm_ctx *ctx;
    tdm_op *append, *attend;
    tdm_workspace *scratch;
    TRY(tdm_open(TDM_VERSION, NULL, &ctx));
    TRY(tdm_kv_append_create(ctx, cpu, &store, &append));
    TRY(tdm_gqa_create(ctx, cpu, &look, &attend));
    TRY(tdm_workspace_create(attend, NULL, 0, &scratch));

    int32_t one = 1, pos = 0, length = 0;
    const tdm_kv_data cache = {.k = k_cache, .v = v_cache, .k_scale = k_scale, .v_scale = v_scale};
    tdm_kv_append_args add = TDM_INIT(tdm_kv_append_args);
    add.k = k, add.v = v, add.cache = cache, add.new_len = &one, add.pos = &pos;
    tdm_gqa_args ask = TDM_INIT(tdm_gqa_args);
    ask.q = q, ask.cache = cache, ask.q_len = &one, ask.kv_len = &length, ask.out = out;
    q[0] = 40; /* query head 0 looks for the key that is large in channel 0 */
    for (; pos < TOKENS; pos++) {
        k[0] = pos == 42 ? 4 : 0; /* a model makes q, k and v of each token */
        v[0] = (float)pos;
        length = pos + 1;
        TRY(tdm_kv_append_run(append, NULL, NULL, &add));
        TRY(tdm_gqa_run(attend, scratch, NULL, &ask));
    }
    printf("Head 0 finds token %.1f; head 1, which looks for nothing, averages to %.1f.\n", out[0], out[D]);

    tdm_workspace_destroy(scratch);
    tdm_op_destroy(attend);
    tdm_op_destroy(append);
    tdm_close(ctx);
    return 0;
}
