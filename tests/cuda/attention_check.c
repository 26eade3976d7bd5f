/* kv_append and gqa on an emulated GPU, in several orders of its threads and blocks: what each of their kernels does,
 * once. Built for ThreadSanitizer too; tests/ops goes through far more.
 *
 * usage: attention_check ORDER...   forward, reverse or a seed; TEST_DEVICE and TEST_PLUGIN name the device */
#define _POSIX_C_SOURCE 200112L /* setenv */
#include "tests/ops/append_problem.h"
#include "tests/ops/gqa_problem.h"
#include "tests/reference/tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int failures;

static void report(const char *order, const char *label, const char *bad)
{
    if (bad)
        printf("FAILED, order %s: %s: %s\n", order, label, bad);
    failures += bad != NULL;
}

/* ---- kv_append ------------------------------------------------------------------------------------ */

/* A row each of: no scale; a scale whose reciprocal would overflow; an extreme that comes with both signs. */
static void make_rows_odd(struct append_problem *p)
{
    const tdm_tensor *v = &p->desc.v;
    for (int64_t c = 0; c < v->dim[3]; c++) {
        tensor_put(v, p->v.data, 0, 0, 0, c, c == 5 ? NAN : c % 4 ? 1 : INFINITY);
        tensor_put(v, p->v.data, 0, 1, 1, c, c == 5 ? 0x1p-126 : 0);
        tensor_put(v, p->v.data, 0, 2, 2, c, c == 9 ? 3 : c == 10 || c == 11 ? -3 : c / 16.0);
    }
}

/* Every type; all steps, or values as they are. */
static void append(const char *order)
{
    static const int32_t turned[BATCH] = {7, 20, 33, 40}, new_len[BATCH] = {9, 0, 3, 1};
    for (int i = 0; i < COUNT(stored_types); i++) {
        struct append_setup setup = {.dtype = float_types[i % 3],
                                     .k = i,
                                     .v = (i + 5) % COUNT(stored_types),
                                     .head_dim = i % 2 ? 48 : 37,
                                     .v_head_dim = 33,
                                     .interleaved = i % 2};
        if (i % 3) {
            setup.norm = float_types[i % 3];
            setup.rotary = (tdm_rotary){.dtype = TDM_F32, .dim = 24, .interleaved = i % 2};
            setup.positions = i % 2;
            setup.offset = setup.rotate_k = setup.rotate_v = true;
        }
        if (i % 4 == 0) {
            setup.ring = true;
            setup.ring_sinks = 3;
            setup.pos = turned;
            setup.new_len = new_len;
        }
        struct append_problem *problem = append_new(&setup);
        make_rows_odd(problem);
        report(order, append_label(problem), append_check(problem));
        append_free(problem);
    }
}

/* ---- gqa ------------------------------------------------------------------------------------------ */

/* Tiles of 1, 2, 4 and 8 rows; parts and their merge; aligned rows and others. */
static const struct gqa_shape shapes[] = {
    {"one row", 0, 2, 1, 1, 64, 32, 1, 200, -1, 0, EQUAL},
    {"two rows", 0, 1, 2, 1, 40, 24, 1, 140, -1, 0, EQUAL},
    {"split", 0, 2, 6, 2, 32, 33, 1, 1100, -1, 0, EQUAL},
    {"split, a few tokens", 0, 1, 2, 1, 16, 32, 5, 1100, -1, 0, EQUAL},
    {"prefill", 0, 3, 2, 1, 32, 40, 19, 150, -1, 0, RAGGED},
    {"window", 0, 2, 2, 2, 24, 16, 12, 400, 100, 3, EQUAL},
    {"large heads", 0, 1, 2, 1, 640, 520, 3, 40, -1, -1, EQUAL},
};

static const struct gqa_features features[] = {
    {.smooth_softmax = true},
    {.softcap = 20, .offset = true, .head_sink = true},
    {.q_norm = TDM_F16, .rotary = {.dtype = TDM_F32, .dim = 16}, .positions = true, .rotate_k = true, .rotate_v = true},
    {.sink_tokens = 5, .offset = true, .no_lse = true},
    {.offset = true, .head_sink = true},
};

static void attend(const char *order)
{
    for (int i = 0; i < COUNT(shapes) * COUNT(features); i++) {
        const struct stored_type *k = &stored_types[i * 5 % COUNT(stored_types)];
        const struct stored_type *v = &stored_types[(i * 7 + 3) % COUNT(stored_types)];
        struct gqa_setup setup = {.shape = &shapes[i % COUNT(shapes)],
                                  .cache = {k->dtype, k->scaling, v->dtype, v->scaling},
                                  .k_group = k->group,
                                  .v_group = v->group,
                                  .with = features[i / COUNT(shapes)],
                                  .dtype = float_types[i % 3],
                                  .interleaved = i % 2,
                                  .seed = (uint64_t)i};
        report(order, gqa_problem_label(&setup), gqa_problem_check(&setup));
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        setenv("SHIM_ORDER", argv[i], 1);
        append(argv[i]);
        attend(argv[i]);
        printf("order %s: %d failures so far\n", argv[i], failures);
    }
    return failures > 0 || argc == 1;
}
