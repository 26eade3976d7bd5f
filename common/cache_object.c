/* Making a cache object out of the public calls. */
#include "cache_object.h"

#include "backend.h"
#include "context.h"
#include "error.h"
#include "op_rows.h"
#include "sized.h"
#include "tensor.h"

#include <string.h>

/* ---- what is asked for -------------------------------------------------------------------- */

struct wanted {
    tdm_cache_desc desc;
    tdm_kv_append_desc append;
    tdm_gqa_desc attention;
};

/* The calls of a cache have no arguments for these. */
static tdm_status check_parts(const struct wanted *w)
{
    const tdm_gqa_desc *a = &w->attention;
    const struct {
        const char *field;
        bool given;
    } refused[] = {{"append.past", w->append.past.k.rank != 0},
                   {"attention.bias", a->bias.rank != 0},
                   {"attention.mask", a->mask.rank != 0},
                   {"attention.has_tree", a->has_tree != 0},
                   {"attention.capture", a->capture != TDM_CAPTURE_NONE}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (refused[i].given)
            return fail(TDM_UNSUPPORTED, "%s: got one, want none in a cache object", refused[i].field);
    if (w->append.rotary.dtype && a->rotary.dtype && memcmp(&w->append.rotary, &a->rotary, sizeof a->rotary) != 0)
        return fail(TDM_BAD_ARG, "attention.rotary: got another than append.rotary, want the same");
    return TDM_OK;
}

static tdm_status read_descs(struct wanted *w, const tdm_cache_desc *desc)
{
    static const tdm_kv_cache none;
    tdm_status status = sized_read("desc", &w->desc, sizeof w->desc, sizeof w->desc, desc);
    if (status || (status = sized_read("append", &w->append, sizeof w->append, sizeof w->append, w->desc.append)) ||
        (status =
             sized_read("attention", &w->attention, sizeof w->attention, sizeof w->attention, w->desc.attention)) ||
        (status = check_parts(w)))
        return status;
    if (memcmp(&w->attention.cache, &none, sizeof none) == 0)
        w->attention.cache = w->append.cache;
    else if (memcmp(&w->attention.cache, &w->append.cache, sizeof none) != 0)
        return fail(TDM_BAD_ARG, "attention.cache: got another than append.cache, want the same, or all of it 0");
    if (w->append.cache.ring && w->attention.window_left < 0)
        return fail(TDM_BAD_ARG, "attention.window_left: got %d, want a window with a ring", w->attention.window_left);
    return TDM_OK;
}

static bool is_static(const tdm_tensor *half)
{
    return half->scaling != TDM_UNSCALED && !is_dynamic(half->scaling);
}

/* The pointers; the descs are known to be right. */
static tdm_status check_pointers(const struct wanted *w)
{
    const tdm_cache_desc *d = &w->desc;
    const tdm_kv_cache *cache = &w->append.cache;
    const tdm_rotary *rotary = w->append.rotary.dtype ? &w->append.rotary : &w->attention.rotary;
    const tdm_norm *k_norm = &w->append.k_norm, *q_norm = &w->attention.q_norm;
    tdm_status status = optional_check("k_scale", d->k_scale, is_static(&cache->k), TDM_F32);
    if (status || (status = optional_check("v_scale", d->v_scale, is_static(&cache->v), TDM_F32)) ||
        (status = optional_check("k_offset", d->k_offset, cache->has_k_offset, TDM_F32)) ||
        (status = optional_check("k_norm", d->k_norm, k_norm->dtype != 0, k_norm->dtype)) ||
        (status = optional_check("q_norm", d->q_norm, q_norm->dtype != 0, q_norm->dtype)) ||
        (status = rotary_check(rotary, d->cos, d->sin, NULL)) ||
        (status = optional_check("head_sink", d->head_sink, w->attention.has_head_sink, TDM_F32)))
        return status;
    return optional_check("alibi", d->alibi, w->attention.has_alibi, TDM_F32);
}

/* ---- ops ------------------------------------------------------------------------------------ */

static tdm_status make_reader(tdm_cache *c, enum cache_part part, const tdm_tensor *half)
{
    tdm_convert_desc desc = TDM_INIT(tdm_convert_desc);
    desc.src = *half;
    desc.dst = (tdm_tensor){.dtype = TDM_F32, .rank = 4};
    memcpy(desc.dst.dim, half->dim, sizeof half->dim);
    return tdm_dequantize_create(c->ctx, c->device, &desc, &c->part[part].op);
}

static tdm_status make_ops(tdm_cache *c, const struct wanted *w)
{
    tdm_status status = tdm_kv_append_create(c->ctx, c->device, &w->append, &c->part[CACHE_APPEND].op);
    if (status || (status = tdm_gqa_create(c->ctx, c->device, &w->attention, &c->part[CACHE_ATTEND].op)))
        return status;
    c->desc = c->part[CACHE_APPEND].op->desc.kv_append.cache;
    if (c->device.kind == TDM_CPU &&
        ((status = make_reader(c, CACHE_READ_K, &c->desc.k)) || (status = make_reader(c, CACHE_READ_V, &c->desc.v))))
        return status;
    for (int i = 0; i < CACHE_PARTS && !status; i++)
        if (c->part[i].op)
            status = tdm_workspace_create(c->part[i].op, NULL, 0, &c->part[i].workspace);
    return status;
}

/* ---- memory --------------------------------------------------------------------------------- */

static int64_t half_bytes(const tdm_tensor *half)
{
    int64_t bytes = row_bytes(half->dtype, half->dim[3]);
    for (int i = 0; i < 3; i++)
        bytes += (half->dim[i] - 1) * half->stride[i];
    return bytes;
}

static int64_t half_scales(const tdm_tensor *half)
{
    int64_t rows = half->dim[0] * half->dim[1] * half->dim[2];
    switch (half->scaling) {
    case TDM_PER_TENSOR:
        return 1;
    case TDM_PER_CHANNEL:
        return half->dim[1] * half->dim[3];
    case TDM_PER_TOKEN:
        return rows;
    case TDM_PER_GROUP:
        return rows * group_count(half);
    default:
        return 0;
    }
}

/* Memory of the device with a copy of `from`, or without anything that could not be read on the CPU. */
static tdm_status get(tdm_cache *c, int64_t bytes, const void *from, void **memory)
{
    tdm_status status = tdm_alloc(c->ctx, c->device, TDM_DEVICE_MEMORY, (size_t)bytes, memory);
    if (!status && from)
        return tdm_copy(c->ctx, c->device, *memory, c->device, from, (size_t)bytes, NULL);
    if (!status && bytes && c->device.kind == TDM_CPU)
        memset(*memory, 0, (size_t)bytes);
    return status;
}

static tdm_status get_half(tdm_cache *c, const tdm_tensor *half, const float *static_scale, void **data, float **scale)
{
    void *scales = NULL;
    tdm_status status = get(c, half_bytes(half), NULL, data);
    if (!status)
        status = get(c, half_scales(half) * (int64_t)sizeof(float), static_scale, &scales);
    *scale = scales;
    return status;
}

static tdm_status get_memory(tdm_cache *c, const tdm_cache_desc *d)
{
    size_t batch = (size_t)c->desc.k.dim[0];
    void *offset = NULL;
    int64_t offset_bytes = c->desc.has_k_offset ? c->desc.k.dim[1] * c->desc.k.dim[3] * (int64_t)sizeof(float) : 0;
    c->length = ctx_alloc(c->ctx, 2 * batch * sizeof *c->length);
    if (!c->length)
        return fail(TDM_NO_MEMORY, "cache: no memory for %zu bytes", 2 * batch * sizeof *c->length);
    memset(c->length, 0, 2 * batch * sizeof *c->length);
    c->newest = c->length + batch;
    tdm_status status = get_half(c, &c->desc.k, d->k_scale, &c->data.k, &c->data.k_scale);
    if (!status)
        status = get_half(c, &c->desc.v, d->v_scale, &c->data.v, &c->data.v_scale);
    if (!status)
        status = get(c, offset_bytes, d->k_offset, &offset);
    c->data.k_offset = offset;
    return status;
}

/* ---- the object ------------------------------------------------------------------------------ */

static void prepare_args(tdm_cache *c, const struct wanted *w)
{
    const tdm_cache_desc *d = &w->desc;
    c->window_left = w->attention.window_left;
    c->max_q = (int32_t)c->part[CACHE_ATTEND].op->desc.gqa.q.dim[2];
    c->append = TDM_INIT(tdm_kv_append_args);
    c->append.cache = c->data;
    c->append.pos = c->length;
    c->append.k_norm = d->k_norm;
    c->attend = TDM_INIT(tdm_gqa_args);
    c->attend.cache = c->data;
    c->attend.kv_len = c->length;
    c->attend.q_norm = d->q_norm;
    c->attend.head_sink = d->head_sink;
    c->attend.alibi = d->alibi;
    if (w->append.rotary.dtype)
        c->append.cos = d->cos, c->append.sin = d->sin;
    if (w->attention.rotary.dtype)
        c->attend.cos = d->cos, c->attend.sin = d->sin;
}

tdm_status tdm_cache_create(tdm_ctx *ctx, tdm_device device, const tdm_cache_desc *desc, tdm_cache **out)
{
    if (!out)
        return fail(TDM_BAD_ARG, "cache: got NULL, want a place for the cache");
    *out = NULL;
    if (!ctx)
        return fail(TDM_BAD_ARG, "ctx: got NULL, want a context");
    struct wanted wanted;
    tdm_status status = ctx_check_owner(ctx);
    if (status || (status = read_descs(&wanted, desc)))
        return status;
    tdm_cache *c = ctx_alloc(ctx, sizeof *c);
    if (!c)
        return fail(TDM_NO_MEMORY, "cache: no memory for %zu bytes", sizeof *c);
    memset(c, 0, sizeof *c);
    c->ctx = ctx;
    c->device = device;
    if ((status = make_ops(c, &wanted)) || (status = check_pointers(&wanted)) ||
        (status = get_memory(c, &wanted.desc)) || (status = tdm_stream_sync(ctx, device, NULL))) {
        tdm_cache_destroy(c);
        return status;
    }
    prepare_args(c, &wanted);
    *out = c;
    return TDM_OK;
}

void tdm_cache_destroy(tdm_cache *c)
{
    if (!c)
        return;
    void *memory[] = {c->data.k, c->data.v, c->data.k_scale, c->data.v_scale, (void *)c->data.k_offset};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        tdm_free(c->ctx, c->device, TDM_DEVICE_MEMORY, memory[i]);
    for (int i = 0; i < CACHE_PARTS; i++) {
        tdm_workspace_destroy(c->part[i].workspace);
        tdm_op_destroy(c->part[i].op);
    }
    ctx_free(c->ctx, c->length);
    ctx_free(c->ctx, c);
}

const int32_t *tdm_cache_lengths(const tdm_cache *c)
{
    return c ? c->length : NULL;
}

tdm_status tdm_cache_data(const tdm_cache *c, tdm_kv_data *data)
{
    if (!c || !data)
        return fail(TDM_BAD_ARG, "%s: got NULL, want a pointer", c ? "data" : "cache");
    *data = c->data;
    return TDM_OK;
}
