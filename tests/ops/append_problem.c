#include "append_problem.h"

#include "tests/reference/formats.h"
#include "tests/reference/random.h"
#include "tests/reference/reference.h"
#include "tests/reference/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAST_CAPACITY = CAPACITY + 3, POSITIONS_BESIDES = 5 };

static const int32_t some_new[BATCH] = {9, 0, 3, 1}, some_pos[BATCH] = {0, 20, 17, 5};

static void *input_new(struct append_problem *p, int64_t bytes)
{
    struct guard *guard = &p->input[p->inputs++];
    *guard = guard_new((size_t)bytes, 0xFF);
    return guard->data;
}

/* ---- desc ---------------------------------------------------------------------------------------- */

static tdm_kv_cache cache_of(const struct append_setup *setup, bool interleaved, int64_t capacity)
{
    const struct stored_type *k = &stored_types[setup->k], *v = &stored_types[setup->v];
    return (tdm_kv_cache){
        .k = stored_as(tensor_in_layout(k->dtype, interleaved, BATCH, HEADS, capacity, setup->head_dim), k),
        .v = stored_as(tensor_in_layout(v->dtype, interleaved, BATCH, HEADS, capacity, setup->v_head_dim), v),
        .rotate_k = setup->rotate_k,
        .rotate_v = setup->rotate_v,
        .has_k_offset = setup->offset};
}

static int32_t positions_needed(const struct append_problem *p)
{
    int32_t most = 0;
    for (int b = 0; b < BATCH; b++)
        most = p->args.pos[b] + p->args.new_len[b] > most ? p->args.pos[b] + p->args.new_len[b] : most;
    return most + POSITIONS_BESIDES;
}

static void describe(struct append_problem *p, const struct append_setup *setup)
{
    p->desc = TDM_INIT(tdm_kv_append_desc);
    p->desc.k = tensor_in_layout(setup->dtype, setup->interleaved, BATCH, HEADS, MAX_NEW, setup->head_dim);
    p->desc.v = tensor_in_layout(setup->dtype, setup->interleaved, BATCH, HEADS, MAX_NEW, setup->v_head_dim);
    p->desc.cache = cache_of(setup, setup->interleaved, CAPACITY);
    p->desc.cache.ring = setup->ring;
    p->desc.cache.ring_sinks = setup->ring_sinks;
    p->desc.k_norm = (tdm_norm){setup->norm, setup->norm ? 1e-6F : 0};
    p->desc.rotary = setup->rotary;
    if (setup->rotary.dtype)
        p->desc.rotary.positions = positions_needed(p);
    if (setup->past)
        p->desc.past = cache_of(setup, !setup->interleaved, PAST_CAPACITY);
}

/* ---- data ---------------------------------------------------------------------------------------- */

/* The scales of one half of the cache: an output when the op writes them, else an input. */
static float *scales_of(struct append_problem *p, const tdm_tensor *tensor, struct random *random)
{
    int64_t n = tensor_scales(tensor), bytes = n * (int64_t)sizeof(float);
    if (is_dynamic(tensor))
        return problem_output(&p->base, bytes);
    if (n == 0)
        return NULL;
    float *scale = input_new(p, bytes);
    random_scales(scale, n, tensor->dtype == TDM_I4 ? 0.35 : 0.02, random);
    return scale;
}

/* A cache that holds codes and scales of every kind. */
static void fill_past(struct append_problem *p, const tdm_tensor *half, void **data, float **scale,
                      struct random *random)
{
    int64_t bytes = tensor_bytes(half), scales = tensor_scales(half);
    unsigned char *codes = *data = input_new(p, bytes);
    for (int64_t i = 0; i < bytes; i++)
        codes[i] = (unsigned char)random_bits(random);
    if (!is_dynamic(half))
        return;
    *scale = input_new(p, scales * (int64_t)sizeof(float));
    random_scales(*scale, scales, 1, random);
    (*scale)[0] = NAN;
}

static void fill_rotary(struct append_problem *p, const struct append_setup *setup, struct random *random)
{
    int64_t n = (int64_t)p->desc.rotary.positions * (p->desc.rotary.dim / 2);
    void *cosines = input_new(p, format_bytes(setup->rotary.dtype, n));
    void *sines = input_new(p, format_bytes(setup->rotary.dtype, n));
    for (int64_t i = 0; i < n; i++) {
        double angle = 3.2 * random_unit(random);
        format_encode(setup->rotary.dtype, cosines, i, cos(angle));
        format_encode(setup->rotary.dtype, sines, i, sin(angle));
    }
    p->args.cos = cosines;
    p->args.sin = sines;
    if (!setup->positions)
        return;
    int32_t *positions = input_new(p, BATCH * MAX_NEW * (int64_t)sizeof *positions);
    for (int b = 0; b < BATCH; b++)
        for (int i = 0; i < p->args.new_len[b]; i++)
            positions[b * MAX_NEW + i] = (int32_t)random_below(random, p->desc.rotary.positions);
    p->args.positions = positions;
}

static void fill_features(struct append_problem *p, const struct append_setup *setup, struct random *random)
{
    if (setup->norm) {
        void *weight = input_new(p, format_bytes(setup->norm, setup->head_dim));
        for (int64_t c = 0; c < setup->head_dim; c++)
            format_encode(setup->norm, weight, c, 1 + random_unit(random));
        p->args.k_norm = weight;
    }
    if (setup->rotary.dtype)
        fill_rotary(p, setup, random);
    if (setup->offset) {
        float *offset = input_new(p, HEADS * setup->head_dim * (int64_t)sizeof *offset);
        for (int64_t i = 0; i < HEADS * setup->head_dim; i++)
            offset[i] = (float)(2 * random_unit(random));
        p->args.cache.k_offset = offset;
    }
    if (setup->past) {
        fill_past(p, &p->desc.past.k, &p->args.past.k, &p->args.past.k_scale, random);
        fill_past(p, &p->desc.past.v, &p->args.past.v, &p->args.past.v_scale, random);
    }
}

static const char *check(const struct problem *base)
{
    const struct append_problem *p = (const struct append_problem *)base;
    const char *bad = compare_memory(&p->desc.cache.k, p->args.cache.k, p->wanted.cache.k);
    if (!bad)
        bad = compare_memory(&p->desc.cache.v, p->args.cache.v, p->wanted.cache.v);
    const tdm_tensor *halves[] = {&p->desc.cache.k, &p->desc.cache.v};
    const float *got[] = {p->args.cache.k_scale, p->args.cache.v_scale};
    const float *want[] = {p->wanted.cache.k_scale, p->wanted.cache.v_scale};
    for (int i = 0; i < 2 && !bad; i++) {
        tdm_tensor scales = tensor2(TDM_F32, 1, tensor_scales(halves[i]));
        bad = is_dynamic(halves[i]) ? compare_memory(&scales, got[i], want[i]) : NULL;
    }
    return bad;
}

struct append_problem *append_new(const struct append_setup *setup)
{
    struct append_problem *p = calloc(1, sizeof *p);
    struct random random = {setup->seed + 1};
    p->base = (struct problem){.op = APPEND, .desc = &p->desc, .args = &p->args, .check = check};
    p->args = (tdm_kv_append_args){.struct_size = sizeof p->args,
                                   .new_len = setup->new_len ? setup->new_len : some_new,
                                   .pos = setup->pos ? setup->pos : some_pos};
    describe(p, setup);
    p->k = guard_new((size_t)tensor_bytes(&p->desc.k), 0xFF);
    p->v = guard_new((size_t)tensor_bytes(&p->desc.v), 0xFF);
    random_fill(&p->desc.k, p->k.data, 3, &random);
    random_fill(&p->desc.v, p->v.data, 3, &random);
    p->args.k = p->k.data;
    p->args.v = p->v.data;
    p->args.cache.k = problem_output(&p->base, tensor_bytes(&p->desc.cache.k));
    p->args.cache.v = problem_output(&p->base, tensor_bytes(&p->desc.cache.v));
    p->args.cache.k_scale = scales_of(p, &p->desc.cache.k, &random);
    p->args.cache.v_scale = scales_of(p, &p->desc.cache.v, &random);
    fill_features(p, setup, &random);
    return p;
}

/* ---- what must come out ----------------------------------------------------------------------------- */

const char *append_check(struct append_problem *p)
{
    p->wanted = p->args;
    void **copies[MAX_OUTPUTS] = {&p->wanted.cache.k, &p->wanted.cache.v};
    int outputs = 2;
    if (is_dynamic(&p->desc.cache.k))
        copies[outputs++] = (void **)&p->wanted.cache.k_scale;
    if (is_dynamic(&p->desc.cache.v))
        copies[outputs++] = (void **)&p->wanted.cache.v_scale;
    for (int i = 0; i < outputs; i++) {
        size_t bytes = p->base.output[i].memory.bytes;
        *copies[i] = p->want[i] = memcpy(malloc(bytes), p->base.output[i].initial, bytes);
    }
    reference_kv_append(&p->desc, &p->wanted);
    guard_read_only(&p->k);
    guard_read_only(&p->v);
    for (int i = 0; i < p->inputs; i++)
        guard_read_only(&p->input[i]);
    return problem_all_variants(&p->base);
}

void append_free(struct append_problem *p)
{
    guard_free(&p->k);
    guard_free(&p->v);
    for (int i = 0; i < p->inputs; i++)
        guard_free(&p->input[i]);
    for (int i = 0; i < MAX_OUTPUTS; i++)
        free(p->want[i]);
    problem_free_outputs(&p->base);
    free(p);
}

const char *append_label(const struct append_problem *p)
{
    static char text[160];
    const tdm_tensor *k = &p->desc.cache.k, *v = &p->desc.cache.v;
    snprintf(text, sizeof text, "%s to %s %s / %s %s, %d and %d channels", format_name(p->desc.k.dtype),
             format_name(k->dtype), scaling_text(k->scaling), format_name(v->dtype), scaling_text(v->scaling),
             (int)k->dim[3], (int)v->dim[3]);
    return text;
}
