#include "cache_world.h"

#include "tests/reference/tensor.h"

#include <math.h>
#include <string.h>

const struct cache_scheme cache_schemes[] = {
    {.name = "f32", .k = TDM_F32, .v = TDM_F32},
    {.name = "f16 and bf16, rotary", .k = TDM_F16, .v = TDM_BF16, .rotary = true},
    {.name = "i8 per token", .k = TDM_I8, .v = TDM_I8, .k_scaling = TDM_PER_TOKEN, .v_scaling = TDM_PER_TOKEN},
    {.name = "i8 per channel, i4 in groups, rotated, offset",
     .k = TDM_I8,
     .v = TDM_I4,
     .k_scaling = TDM_PER_CHANNEL,
     .v_scaling = TDM_PER_GROUP,
     .rotated = true,
     .offset = true},
    {.name = "i4 per token, f8 per tensor, norm, rotary, offset",
     .k = TDM_I4,
     .v = TDM_F8E4M3,
     .k_scaling = TDM_PER_TOKEN,
     .v_scaling = TDM_PER_TENSOR,
     .offset = true,
     .rotary = true,
     .norm = true,
     .sink = true},
    {.name = "f32 ring", .k = TDM_F32, .v = TDM_F32, .ring = true},
    {.name = "i8 ring, rotated",
     .k = TDM_I8,
     .v = TDM_I8,
     .k_scaling = TDM_PER_TOKEN,
     .v_scaling = TDM_PER_TENSOR,
     .rotated = true,
     .rotary = true,
     .ring = true},
};
const int cache_scheme_count = (int)(sizeof cache_schemes / sizeof *cache_schemes);

/* A number in [-1, 1) that is a function of what it stands for. */
static float number(uint64_t what)
{
    what = (what + 1) * 0x9E3779B97F4A7C15u;
    what = (what ^ what >> 31) * 0xBF58476D1CE4E5B9u;
    return (float)((double)(what >> 40) * 0x1p-23 - 1);
}

static void numbers(float *x, int n, int salt)
{
    for (int i = 0; i < n; i++)
        x[i] = number((uint64_t)salt << 32 | (uint64_t)i);
}

#define NUMBERS(array, salt) numbers(array, (int)(sizeof(array) / sizeof *(array)), salt)

static void init_data(struct cache_world *w)
{
    NUMBERS(w->offset, 1);
    NUMBERS(w->norm, 2);
    NUMBERS(w->sink, 3);
    NUMBERS(w->q, 4);
    for (int i = 0; i < 64 * KEY_SIZE / 2; i++) {
        double angle = i / (KEY_SIZE / 2) * pow(100, -2.0 * (i % (KEY_SIZE / 2)) / KEY_SIZE);
        w->cos[i] = (float)cos(angle);
        w->sin[i] = (float)sin(angle);
    }
    for (int i = 0; i < PAIRS * KEY_SIZE; i++)
        w->k_scale[i] = 0.01F + 0.001F * (float)(i % 5);
    for (int i = 0; i < PAIRS * VALUE_SIZE; i++)
        w->v_scale[i] = 0.01F + 0.002F * (float)(i % 3);
}

static tdm_tensor half(tdm_dtype dtype, tdm_scaling scaling, int64_t rows, int64_t channels)
{
    tdm_tensor tensor = tensor4(dtype, TWO, PAIRS, rows, channels);
    tensor.scaling = scaling;
    if (scaling == TDM_PER_GROUP)
        tensor.block[0] = 1, tensor.block[1] = 16;
    return tensor;
}

static bool is_static(tdm_scaling scaling)
{
    return scaling == TDM_PER_TENSOR || scaling == TDM_PER_CHANNEL;
}

void cache_world_init(struct cache_world *w, const struct cache_scheme *s)
{
    memset(w, 0, sizeof *w);
    init_data(w);
    int64_t rows = s->ring ? RING_ROWS : ROWS_KEPT;
    w->append = TDM_INIT(tdm_kv_append_desc);
    w->append.k = tensor4(TDM_F32, TWO, PAIRS, MOST_NEW, KEY_SIZE);
    w->append.v = tensor4(TDM_F32, TWO, PAIRS, MOST_NEW, VALUE_SIZE);
    w->append.cache = (tdm_kv_cache){.k = half(s->k, s->k_scaling, rows, KEY_SIZE),
                                     .v = half(s->v, s->v_scaling, rows, VALUE_SIZE),
                                     .rotate_k = s->rotated,
                                     .rotate_v = s->rotated,
                                     .has_k_offset = s->offset,
                                     .ring = s->ring,
                                     .ring_sinks = s->ring ? RING_SINKS : 0};
    tdm_gqa_desc_init(&w->attention);
    w->attention.q = tensor4(TDM_F32, TWO, QUERY_HEADS, MOST_NEW, KEY_SIZE);
    w->attention.out = tensor4(TDM_F32, TWO, QUERY_HEADS, MOST_NEW, VALUE_SIZE);
    w->attention.window_left = s->ring ? WINDOW : -1;
    w->attention.sink_tokens = s->ring ? RING_SINKS : 0;
    w->attention.has_head_sink = s->sink;
    w->desc = TDM_INIT(tdm_cache_desc);
    w->desc.append = &w->append;
    w->desc.attention = &w->attention;
    w->desc.k_scale = is_static(s->k_scaling) ? w->k_scale : NULL;
    w->desc.v_scale = is_static(s->v_scaling) ? w->v_scale : NULL;
    w->desc.k_offset = s->offset ? w->offset : NULL;
    w->desc.head_sink = s->sink ? w->sink : NULL;
    if (s->rotary) {
        w->append.rotary = w->attention.rotary = (tdm_rotary){TDM_F32, KEY_SIZE, 64, 0};
        w->desc.cos = w->cos, w->desc.sin = w->sin;
    }
    if (s->norm) {
        w->append.k_norm = w->attention.q_norm = (tdm_norm){TDM_F32, 1e-5F};
        w->desc.k_norm = w->desc.q_norm = w->norm;
    }
}

tdm_status cache_world_open(struct cache_world *w, const struct cache_scheme *scheme, const tdm_allocator *allocator)
{
    cache_world_init(w, scheme);
    tdm_options options = TDM_INIT(tdm_options);
    options.threads = 2;
    options.allocator = allocator;
    options.env = (const char *const[]){"TANDEM_CUDA_PLUGIN=/nonexistent", NULL};
    tdm_status status = tdm_open(TDM_VERSION, &options, &w->ctx);
    return status ? status : tdm_cache_create(w->ctx, w->device, &w->desc, &w->cache);
}

void cache_world_close(struct cache_world *w)
{
    tdm_cache_destroy(w->cache);
    tdm_close(w->ctx);
}

static void fill(float *x, int b, int h, int i, int channels, int32_t position, int salt)
{
    float *row = x + ((b * PAIRS + h) * MOST_NEW + i) * channels;
    for (int c = 0; c < channels; c++)
        row[c] = number((uint64_t)(((salt * TWO + b) * PAIRS + h) * 1000 + position) << 16 | (uint64_t)c);
}

void cache_world_fill(struct cache_world *w, const int32_t *pos, const int32_t *new_len, int salt)
{
    memset(w->k, 0xff, sizeof w->k);
    memset(w->v, 0xff, sizeof w->v);
    for (int b = 0; b < TWO; b++)
        for (int h = 0; h < PAIRS; h++)
            for (int32_t i = 0; i < new_len[b]; i++) {
                fill(w->k, b, h, i, KEY_SIZE, pos[b] + i, 2 * salt);
                fill(w->v, b, h, i, VALUE_SIZE, pos[b] + i, 2 * salt + 1);
            }
}

tdm_status cache_world_append(struct cache_world *w, int32_t first, int32_t second, int salt)
{
    int32_t new_len[TWO] = {first, second};
    cache_world_fill(w, tdm_cache_lengths(w->cache), new_len, salt);
    return tdm_cache_append(w->cache, NULL, w->k, w->v, new_len);
}

tdm_status cache_world_attend(struct cache_world *w, int32_t queries)
{
    int32_t q_len[TWO] = {queries, queries};
    memset(w->out, 0xff, sizeof w->out);
    memset(w->lse, 0xff, sizeof w->lse);
    return tdm_cache_attend(w->cache, NULL, w->q, q_len, w->out, w->lse);
}
