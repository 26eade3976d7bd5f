/* kv_append: the cache must hold, byte for byte, what the rules of the header give, and nothing else may change. */
#include "append_problem.h"
#include "indices.h"
#include "tests/reference/formats.h"
#include "tests/reference/tensor.h"

#include <math.h>
#include <stdlib.h>

static void finish(struct append_problem *p)
{
    EXPECT_NONE(append_check(p), append_label(p));
    append_free(p);
}

/* ---- types and shapes -------------------------------------------------------------------- */

TEST_EACH(kv_append, types, COUNT(stored_types) * COUNT(float_types))
{
    static const int64_t dims[][2] = {{64, 40}, {37, 33}, {1, 1}, {7, 15}, {9, 2}, {1023, 513}};
    for (int i = 0; i < COUNT(dims); i++) {
        struct append_setup setup = {.dtype = float_types[*at % COUNT(float_types)],
                                     .k = *at / COUNT(float_types),
                                     .v = (*at / COUNT(float_types) + i + 1) % COUNT(stored_types),
                                     .head_dim = dims[i][0],
                                     .v_head_dim = dims[i][1],
                                     .interleaved = i % 2,
                                     .seed = (uint64_t)(*at * 16 + i)};
        finish(append_new(&setup));
    }
}

/* ---- values -------------------------------------------------------------------------------- */

static const double odd_values[] = {
    0,        -0.0,      0.5,        1.5,        2.5,        -0.5,    -1.5,      -2.5,     126.5, 127.5,
    -127.5,   -128.5,    6.5,        7.5,        -7.5,       -8.5,    1e5,       -1e5,     65504, 65520,
    3.3e38,   -3.3e38,   1e-8,       -1e-8,      0x1p-24,    0x1p-25, 1e-40,     -1e-45,   NAN,   -NAN,
    INFINITY, -INFINITY, 0x1.ffcp15, 0x1.ffdp15, 0x1.ffep15, 0x1p-14, 0x1.008p0, 0x1.018p0};

/* Row i of sequence 0 holds the odd values from i on, all others stay random. */
static void put_odd_values(struct append_problem *p)
{
    for (int h = 0; h < HEADS; h++)
        for (int r = 0; r < MAX_NEW; r++)
            for (int64_t c = 0; c < p->desc.k.dim[3]; c++) {
                double x = odd_values[(r * 5 + c + h * 11) % COUNT(odd_values)];
                format_encode(p->desc.k.dtype, tensor_row(&p->desc.k, p->args.k, 0, h, r), c, x);
            }
}

/* Scales of 1, so that ties are ties; of 0, of both signs, NaN, infinite and too small to divide by. */
static const float odd_scales[] = {1, 0, -1, 0.5F, NAN, INFINITY, 1e-44F, 3e38F, 2};

TEST_EACH(kv_append, odd_values, COUNT(stored_types) * COUNT(float_types))
{
    struct append_setup setup = {
        .dtype = float_types[*at % COUNT(float_types)], .k = *at / COUNT(float_types), .head_dim = 77, .v_head_dim = 8};
    for (int s = 0; s < COUNT(odd_scales); s++) {
        struct append_problem *p = append_new(&setup);
        put_odd_values(p);
        for (int64_t i = 0; !is_dynamic(&p->desc.cache.k) && i < tensor_scales(&p->desc.cache.k); i++)
            p->args.cache.k_scale[i] = odd_scales[(i + s) % COUNT(odd_scales)];
        finish(p);
    }
}

/* A row of zeros gets scale 0 and reads as 0, beside rows that do not. */
TEST_EACH(kv_append, zero_and_tiny_rows, COUNT(stored_types))
{
    struct append_setup setup = {.dtype = TDM_F32, .k = *at, .head_dim = 33, .v_head_dim = 8};
    struct append_problem *p = append_new(&setup);
    static const double sizes[] = {0, 1e-30, 1e-37, 1e-39, 1e-45, 3e38, 0, 1e-36, 1};
    for (int r = 0; r < MAX_NEW; r++)
        for (int64_t c = 0; c < 33; c++)
            format_encode(TDM_F32, tensor_row(&p->desc.k, p->args.k, 0, 1, r), c, sizes[r] * (double)(c - 16) / 16);
    finish(p);
}

/* A NaN or an infinity spoils its own row's scale only. */
TEST_EACH(kv_append, rows_that_are_not_finite, COUNT(stored_types))
{
    static const double values[] = {NAN, INFINITY, -INFINITY};
    for (int64_t c = 0; c < 70; c += 23) {
        struct append_setup setup = {.dtype = float_types[c % 3], .k = *at, .head_dim = 70, .v_head_dim = 8};
        struct append_problem *p = append_new(&setup);
        for (int i = 0; i < 3; i++)
            format_encode(setup.dtype, tensor_row(&p->desc.k, p->args.k, 0, 1, 3 * i), c, values[i]);
        finish(p);
    }
}

/* ---- round trip ------------------------------------------------------------------------------ */

/* Dynamic scales: how far what is read back may be from what went in (docs/numerics.md). */
TEST_EACH(kv_append, round_trip, COUNT(stored_types))
{
    const struct stored_type *type = &stored_types[*at];
    if (type->scaling != TDM_PER_TOKEN && type->scaling != TDM_PER_GROUP)
        return; /* static scales clamp, and other types round */
    struct append_setup setup = {.dtype = TDM_F32, .k = *at, .v = *at, .head_dim = 72, .v_head_dim = 65};
    struct append_problem *p = append_new(&setup);
    EXPECT_NONE(append_check(p), append_label(p));
    double *got = tensor_read(&p->desc.cache.k, p->args.cache.k), *x = tensor_read(&p->desc.k, p->args.k);
    for (int i = 0; i < HEADS * MAX_NEW * 72; i++) {
        int64_t h = i / 72 / MAX_NEW, r = i / 72 % MAX_NEW, c = i % 72, at_cache = (h * CAPACITY + r) * 72 + c;
        double scale = tensor_scale(&p->desc.cache.k, p->args.cache.k_scale, 0, h, r, c), value = got[at_cache] * scale;
        /* e4m3: half a step of the code, 2^-4 of it or 2^-10; the integers: half a step, but i4 clamps to 7. Then the
         * roundings. */
        double code = x[i] / scale, step = type->dtype == TDM_F8E4M3 ? fmax(fabs(code) * 0x1p-4, 0x1p-10) : 0.5;
        double largest = type->dtype == TDM_I4 ? 8 : type->dtype == TDM_I8 ? 127 : 448;
        if (type->dtype == TDM_I4)
            step = fmax(step, code - 7);
        cr_expect(fabs(value - x[i]) <= fabs(scale) * (step + largest * 3 * 0x1p-24), "[0, %d, %d, %d]: %g of %g",
                  (int)h, (int)r, (int)c, value, x[i]);
    }
    free(got);
    free(x);
    append_free(p);
}
