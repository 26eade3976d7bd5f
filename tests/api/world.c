#include "world.h"

#include <criterion/criterion.h>
#include <string.h>

static void fill(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(i * 37 % 23) / 8 - 1.25F;
}

#define FILL(array) fill(array, sizeof(array) / sizeof *(array))

static void init_memory(struct memory *m)
{
    memset(m, 0, sizeof *m);
    FILL(m->q);
    FILL(m->new_k);
    FILL(m->new_v);
    FILL(m->a);
    FILL(m->b_scale);
    FILL(m->bias);
    FILL(m->plain);
    for (int p = 0; p < PARTS; p++) {
        FILL(m->part[p]);
        FILL(m->part_lse[p]);
    }
    FILL(m->shares);
    FILL(m->norm);
    FILL(m->cos);
    FILL(m->sin);
    FILL(m->k_offset);
    FILL(m->bias_plane);
    FILL(m->head_sink);
    FILL(m->alibi);
    memset(m->scores, 0xEE, sizeof m->scores);
    memset(m->mask_plane, 0x7B, sizeof m->mask_plane);
    for (int i = 0; i < BATCH * MAX_Q; i++) {
        m->append_positions[i] = m->gqa_positions[i] = i;
        m->tree[i] = (2U << i % MAX_Q) - 1;
    }
    for (int i = 1; i < BATCH; i++) /* the last sequence has one token less */
        m->tree[i * MAX_Q + MAX_Q - 1] = 0;
    memset(m->k, 3, sizeof m->k);
    memset(m->v, 0x9A, sizeof m->v);
    memset(m->b, 0x39, sizeof m->b);
    memset(m->out, 0xEE, sizeof m->out);
    memset(m->lse, 0xEE, sizeof m->lse);
    memset(m->dots, 0xEE, sizeof m->dots);
    memset(m->mixed, 0xEE, sizeof m->mixed);
    memset(m->merged, 0xEE, sizeof m->merged);
    memset(m->merged_lse, 0xEE, sizeof m->merged_lse);
    memset(m->product, 0xEE, sizeof m->product);
    for (size_t i = 0; i < sizeof m->k_scale / sizeof *m->k_scale; i++)
        m->k_scale[i] = 0.1F;
    for (size_t i = 0; i < sizeof m->v_scale / sizeof *m->v_scale; i++)
        m->v_scale[i] = 0.2F;
    m->a_scale = 0.01F;
    for (int b = 0; b < BATCH; b++) {
        m->q_len[b] = MAX_Q - b;
        m->kv_len[b] = CAPACITY - b;
        m->new_len[b] = MAX_Q - b;
        m->len[b] = CAPACITY - b;
        m->drop[b] = 2 + b;
        m->pos[b] = CAPACITY - MAX_Q - b;
    }
}

static tdm_tensor cache_tensor(tdm_dtype dtype, tdm_scaling scaling, int64_t rows, int64_t heads, int64_t channels)
{
    return (tdm_tensor){.dtype = dtype, .rank = 4, .scaling = scaling, .dim = {BATCH, heads, rows, channels}};
}

static void init_descs(struct world *w)
{
    tdm_kv_cache cache = {.k = cache_tensor(TDM_I8, TDM_PER_TOKEN, CAPACITY, KV_HEADS, K_DIM),
                          .v = cache_tensor(TDM_I4, TDM_PER_CHANNEL, CAPACITY, KV_HEADS, V_DIM)};
    w->append = TDM_INIT(tdm_kv_append_desc);
    w->append.k = cache_tensor(TDM_F32, TDM_UNSCALED, MAX_Q, KV_HEADS, K_DIM);
    w->append.v = cache_tensor(TDM_F32, TDM_UNSCALED, MAX_Q, KV_HEADS, V_DIM);
    w->append.cache = cache;
    tdm_gqa_desc_init(&w->gqa);
    w->gqa.q = cache_tensor(TDM_F32, TDM_UNSCALED, MAX_Q, Q_HEADS, K_DIM);
    w->gqa.out = cache_tensor(TDM_F32, TDM_UNSCALED, MAX_Q, Q_HEADS, V_DIM);
    w->gqa.cache = cache;
    w->shift = TDM_INIT(tdm_kv_shift_desc);
    w->shift.cache = cache;
    w->shift.rotary = (tdm_rotary){TDM_F32, K_DIM, POSITIONS, 0};
    w->shift.sinks = 1;
    w->merge = TDM_INIT(tdm_merge_states_desc);
    w->merge.part = w->merge.out = w->gqa.out;
    w->merge.max_parts = PARTS;
    w->qk = w->sv = TDM_INIT(tdm_product_desc);
    w->qk.a = w->gqa.q;
    w->qk.x = cache.k;
    w->qk.out = w->sv.a = cache_tensor(TDM_F32, TDM_UNSCALED, MAX_Q, Q_HEADS, CAPACITY);
    w->sv.x = cache.v;
    w->sv.out = w->gqa.out;
    w->fp8 = TDM_INIT(tdm_fp8_matmul_desc);
    w->fp8.a = (tdm_tensor){.dtype = TDM_F32, .rank = 2, .dim = {ROWS, K}};
    w->fp8.b = (tdm_tensor){.dtype = TDM_F8E4M3, .rank = 2, .scaling = TDM_PER_BLOCK, .dim = {N, K}, .block = {1, 8}};
    w->fp8.out = (tdm_tensor){.dtype = TDM_F32, .rank = 2, .dim = {ROWS, N}};
    w->fp8.has_bias = w->fp8.has_a_scale = 1;
    w->quantize = TDM_INIT(tdm_convert_desc);
    w->quantize.src = (tdm_tensor){.dtype = TDM_F32, .rank = 2, .dim = {4, 6}};
    w->quantize.dst = (tdm_tensor){.dtype = TDM_I8, .rank = 2, .scaling = TDM_PER_TOKEN, .dim = {4, 6}};
    w->dequantize = w->quantize;
    w->dequantize.src = w->quantize.dst;
    w->dequantize.dst = w->quantize.src;
}

void world_init(struct world *w)
{
    memset(w, 0, sizeof *w);
    struct memory *m = &w->memory;
    init_memory(m);
    init_descs(w);
    tdm_kv_data cache = {.k = m->k, .v = m->v, .k_scale = m->k_scale, .v_scale = m->v_scale};
    w->append_args = (tdm_kv_append_args){.struct_size = sizeof(tdm_kv_append_args),
                                          .k = m->new_k,
                                          .v = m->new_v,
                                          .cache = cache,
                                          .new_len = m->new_len,
                                          .pos = m->pos};
    w->gqa_args = (tdm_gqa_args){.struct_size = sizeof(tdm_gqa_args),
                                 .q = m->q,
                                 .cache = cache,
                                 .q_len = m->q_len,
                                 .kv_len = m->kv_len,
                                 .out = m->out,
                                 .lse = m->lse};
    w->shift_args = (tdm_kv_shift_args){sizeof(tdm_kv_shift_args), cache, m->len, m->drop, m->cos, m->sin};
    for (int p = 0; p < PARTS; p++) {
        w->parts[p] = m->part[p];
        w->part_lses[p] = m->part_lse[p];
    }
    w->merge_args =
        (tdm_merge_states_args){sizeof(tdm_merge_states_args), w->parts, w->part_lses, PARTS, m->merged, m->merged_lse};
    w->qk_args = (tdm_product_args){.struct_size = sizeof(tdm_product_args),
                                    .a = m->q,
                                    .x = m->k,
                                    .x_scale = m->k_scale,
                                    .out = m->dots,
                                    .rows = MAX_Q,
                                    .keys = CAPACITY,
                                    .alpha = 0.5F};
    w->sv_args = (tdm_product_args){.struct_size = sizeof(tdm_product_args),
                                    .a = m->shares,
                                    .x = m->v,
                                    .x_scale = m->v_scale,
                                    .out = m->mixed,
                                    .rows = MAX_Q,
                                    .keys = CAPACITY};
    w->fp8_args = (tdm_fp8_matmul_args){
        sizeof(tdm_fp8_matmul_args), m->a, m->b, m->b_scale, m->bias, &m->a_scale, ROWS, m->product};
    w->quantize_args = (tdm_convert_args){sizeof(tdm_convert_args), m->plain, m->packed, m->scale};
    w->dequantize_args = (tdm_convert_args){sizeof(tdm_convert_args), m->packed, m->back, m->scale};
}

void world_enrich(struct world *w)
{
    struct memory *m = &w->memory;
    tdm_rotary rotary = {TDM_F32, K_DIM, POSITIONS, 0};
    tdm_norm norm = {TDM_F32, 1e-6F};
    tdm_kv_cache *caches[] = {&w->append.cache, &w->gqa.cache};
    for (int i = 0; i < 2; i++) {
        caches[i]->rotate_k = caches[i]->rotate_v = caches[i]->has_k_offset = caches[i]->ring = 1;
        caches[i]->ring_sinks = 1;
    }
    w->append.k_norm = w->gqa.q_norm = norm;
    w->append.rotary = w->gqa.rotary = rotary;
    w->append_args.cache.k_offset = w->gqa_args.cache.k_offset = m->k_offset;
    w->append_args.k_norm = w->gqa_args.q_norm = m->norm;
    w->append_args.cos = w->gqa_args.cos = m->cos;
    w->append_args.sin = w->gqa_args.sin = m->sin;
    w->append_args.positions = m->append_positions;
    w->gqa_args.positions = m->gqa_positions;
    w->gqa.window_left = 5; /* with MAX_Q more than the ring keeps, once it is full */
    w->gqa.sink_tokens = 1;
    w->gqa.softcap = 30;
    w->gqa.has_head_sink = w->gqa.has_alibi = w->gqa.has_tree = 1;
    w->gqa.bias = (tdm_tensor){.dtype = TDM_F32, .rank = 4, .dim = {1, Q_HEADS, MAX_Q, KEYS}};
    w->gqa.mask = (tdm_tensor){.dtype = TDM_BITS, .rank = 4, .dim = {BATCH, 1, 1, KEYS}};
    w->gqa.scores = (tdm_tensor){.dtype = TDM_F32, .rank = 4, .dim = {BATCH, Q_HEADS, MAX_Q, KEYS}};
    w->gqa.capture = TDM_CAPTURE_PROBABILITIES;
    w->gqa_args.bias = m->bias_plane;
    w->gqa_args.mask = m->mask_plane;
    w->gqa_args.scores = m->scores;
    w->gqa_args.head_sink = m->head_sink;
    w->gqa_args.alibi = m->alibi;
    w->gqa_args.tree = m->tree;
}

void world_open(struct world *w, int threads)
{
    static const char *const without_gpu[] = {"TANDEM_CUDA_PLUGIN=/nonexistent", NULL};
    world_init(w);
    tdm_options options = TDM_INIT(tdm_options);
    options.threads = threads;
    options.env = without_gpu;
    cr_assert(!tdm_open(TDM_VERSION, &options, &w->ctx), "tdm_open: %s", tdm_last_error());
}

static void destroy_op(struct world *w)
{
    tdm_workspace_destroy(w->workspace);
    tdm_op_destroy(w->op);
    w->workspace = NULL;
    w->op = NULL;
}

void world_close(struct world *w)
{
    destroy_op(w);
    tdm_close(w->ctx);
    w->ctx = NULL;
}

tdm_status world_create(struct world *w, enum each_op op)
{
    const void *const descs[] = {&w->append, &w->shift, &w->gqa,      &w->merge,     &w->qk,
                                 &w->sv,     &w->fp8,   &w->quantize, &w->dequantize};
    return each_op_create(op, w->ctx, w->device, descs[op], &w->op);
}

tdm_status world_make(struct world *w, enum each_op op)
{
    const void *const args[] = {&w->append_args, &w->shift_args, &w->gqa_args,      &w->merge_args,     &w->qk_args,
                                &w->sv_args,     &w->fp8_args,   &w->quantize_args, &w->dequantize_args};
    size_t bytes = 0;
    w->args = args[op];
    tdm_status status = world_create(w, op);
    if (status || (status = tdm_workspace_size(w->op, &bytes)) || bytes == 0)
        return status;
    return tdm_workspace_create(w->op, NULL, 0, &w->workspace);
}

tdm_status world_run(struct world *w, enum each_op op)
{
    return each_op_run(op, w->op, w->workspace, w->args);
}

tdm_status world_run_all(struct world *w)
{
    tdm_status status = TDM_OK;
    for (enum each_op op = 0; op < EACH_OPS && !status; op++) {
        status = world_make(w, op);
        if (!status)
            status = world_run(w, op);
        destroy_op(w);
    }
    return status;
}
