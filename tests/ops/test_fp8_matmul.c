/* fp8_matmul against its reference. */
#include "fp8_problem.h"
#include "indices.h"
#include "tests/reference/formats.h"
#include "tests/reference/tensor.h"
#include "types.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

static const tdm_dtype scale_dtypes[] = {TDM_F32, TDM_BF16, TDM_E8M0};

static void check_kinds(struct fp8_setup setup, int index, int runs)
{
    for (int i = 0; i < runs; i++) {
        setup.dtype = float_types[(index + i) % 3];
        setup.scale_dtype = scale_dtypes[(index + i / 3) % 3];
        setup.bias = (index + i) % 2;
        setup.a_scale = (index + i) % 4 == 3;
        setup.dynamic = (index + i) % 8 == 6;
        setup.strided = (index + i / 2) % 2;
        setup.seed = (uint64_t)(index * 16 + i);
        EXPECT_NONE(fp8_problem_check(&setup), fp8_problem_label(&setup));
    }
}

TEST_EACH(fp8_matmul, table, fp8_shape_count)
{
    if (fp8_shapes[*at].suites & SUITE_TESTS)
        check_kinds((struct fp8_setup){.shape = &fp8_shapes[*at]}, *at, 4);
}

/* Every type, scale type, bias and a_scale together, by the rows of M that border on one another. */
TEST_EACH(fp8_matmul, kinds, 9)
{
    static const int64_t rows[] = {1, 3, 8, 9};
    for (int i = 0; i < COUNT(rows) * 6; i++) {
        struct fp8_shape shape = {"kinds", 0, rows[i / 6], 29, 70, 1, 32};
        struct fp8_setup setup = {.shape = &shape,
                                  .dtype = float_types[*at / 3],
                                  .scale_dtype = scale_dtypes[*at % 3],
                                  .bias = i & 1,
                                  .a_scale = i / 2 % 3 == 1,
                                  .dynamic = i / 2 % 3 == 2,
                                  .seed = (uint64_t)i};
        EXPECT_NONE(fp8_problem_check(&setup), fp8_problem_label(&setup));
    }
}

static const int64_t depths[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 31, 33, 63, 65, 127, 128, 129, 192, 320, 640};

TEST_EACH(fp8_matmul, depths, COUNT(depths))
{
    static const int64_t blocks[][2] = {{1, 1}, {1, 16}, {1, 128}, {5, 7}, {128, 128}, {1000, 1000}};
    for (int i = 0; i < COUNT(blocks); i++) {
        struct fp8_shape shape = {"depth", 0, 3 + i * 2, 19, depths[*at], blocks[i][0], blocks[i][1]};
        check_kinds((struct fp8_setup){.shape = &shape}, *at + i, 2);
    }
}

static const int64_t columns[] = {1, 2, 3, 7, 8, 15, 16, 17, 24, 63, 64, 65, 95, 96, 97, 127, 129, 448};

TEST_EACH(fp8_matmul, columns, COUNT(columns))
{
    static const int64_t rows[] = {1, 2, 5, 8, 9, 12, 13, 193};
    for (int i = 0; i < COUNT(rows); i++) {
        struct fp8_shape shape = {"columns", 0, rows[i], columns[*at], 40, i % 2 ? 1 : 128, 32};
        check_kinds((struct fp8_setup){.shape = &shape}, *at + i, 1);
    }
}

/* Fewer rows than the desc allows: the others are not touched. */
TEST_EACH(fp8_matmul, fewer_rows, 3)
{
    static const struct fp8_shape shape = {"fewer rows", 0, 40, 17, 50, 1, 32};
    for (int64_t m = 1; m <= 40; m += 13)
        check_kinds((struct fp8_setup){.shape = &shape, .m = m}, *at, 1);
}

/* The stride of a single row leads nowhere, and may be less than the row or out of this world. */
TEST_EACH(fp8_matmul, stride_of_one_row, 3)
{
    static const int64_t elements[] = {8, (int64_t)1 << 40};
    static const struct fp8_shape shapes[] = {{"one row", 0, 1, 17, 50, 1, 32}, {"one row", 0, 1, 17, 256, 1, 64}};
    for (int i = 0; i < COUNT(shapes); i++) {
        struct fp8_setup setup = {.shape = &shapes[i], .dtype = float_types[*at]};
        struct fp8_problem *p = fp8_problem_new(&setup);
        for (int j = 0; j < COUNT(elements); j++) {
            p->desc.a.stride[0] = p->desc.out.stride[0] = format_bytes(setup.dtype, elements[j]);
            fp8_problem_expect(p);
            EXPECT_NONE(problem_all_variants(&p->base), fp8_problem_label(&setup));
        }
        fp8_problem_free(p);
    }
}

Test(fp8_matmul, many_columns)
{
    static const struct fp8_shape shape = {"N 70000", 0, 1, 70000, 3, 128, 128};
    check_kinds((struct fp8_setup){.shape = &shape}, 0, 1);
}

/* No intermediate may overflow f16, whatever the scale; the result may. */
TEST_EACH(fp8_matmul, scale_sizes, 9)
{
    static const double sizes[] = {1e-8, 1e-4, 1, 1e3, 1e6, 0x1p-126, 0x1p-60, 0x1p60, 0x1p-140};
    for (int64_t m = 2; m <= 20; m += 18) {
        struct fp8_shape shape = {"scale sizes", 0, m, 21, 100, 1, 32};
        check_kinds((struct fp8_setup){.shape = &shape, .scale_size = sizes[*at]}, *at, 3);
    }
}

/* ---- values ------------------------------------------------------------------------- */

static const int64_t value_rows[] = {1, 5, 8, 9, 20};

static struct fp8_problem *small(int at, bool a_scale)
{
    static struct fp8_shape shape;
    shape = (struct fp8_shape){"values", 0, value_rows[at], 37, 90, 1, 32};
    struct fp8_setup setup = {.shape = &shape, .dtype = float_types[at % 3], .bias = true, .a_scale = a_scale};
    return fp8_problem_new(&setup);
}

static void finish(struct fp8_problem *problem, const char *label)
{
    fp8_problem_expect(problem);
    EXPECT_NONE(problem_all_variants(&problem->base), label);
    fp8_problem_free(problem);
}

/* A NaN weight gives NaN in exactly its column, also where its activation is 0. */
TEST_EACH(fp8_matmul, nan_codes, COUNT(value_rows))
{
    static const int64_t places[][2] = {{0, 0}, {7, 31}, {8, 89}, {36, 64}};
    for (int i = 0; i < 8; i++) {
        struct fp8_problem *p = small(*at, false);
        const int64_t *place = places[i / 2];
        *((uint8_t *)tensor_row(&p->desc.b, p->args.b, 0, 0, place[0]) + place[1]) = i % 2 ? 0xFF : 0x7F;
        format_encode(p->desc.a.dtype, tensor_row(&p->desc.a, p->args.a, 0, 0, 0), place[1], 0);
        finish(p, "NaN code");
    }
}

/* NaN and infinity in one row of a stay in that row. */
TEST_EACH(fp8_matmul, odd_activations, COUNT(value_rows) * 2)
{
    struct fp8_problem *p = small(*at / 2, *at % 2);
    int64_t last = p->args.m - 1;
    void *row = tensor_row(&p->desc.a, p->args.a, 0, 0, last / 2);
    format_encode(p->desc.a.dtype, row, 33, NAN);
    void *other = tensor_row(&p->desc.a, p->args.a, 0, 0, last);
    format_encode(p->desc.a.dtype, other, 3, INFINITY);
    format_encode(p->desc.a.dtype, other, 4, 0);
    finish(p, "NaN and infinity in a");
}

/* Every code in its place: both zeros, all subnormals, the largest. A row of a that is one-hot reads them out. */
TEST_EACH(fp8_matmul, every_code, COUNT(value_rows))
{
    struct fp8_shape shape = {"every code", 0, value_rows[*at], 256, 9, 1, 32};
    struct fp8_setup setup = {.shape = &shape, .dtype = TDM_F32};
    struct fp8_problem *p = fp8_problem_new(&setup);
    memset(p->a.data, 0, p->a.bytes);
    memset(p->b.data, 0, p->b.bytes);
    for (int64_t m = 0; m < shape.m; m++)
        ((float *)p->a.data)[m * 9 + m % 9] = 1;
    for (int64_t n = 0; n < 256; n++) {
        ((float *)p->b_scale.data)[n] = 1;
        memset((uint8_t *)p->b.data + n * 9, (int)n, 9);
    }
    p->expected = expected_new(shape.m * 256);
    for (int64_t i = 0; i < shape.m * 256; i++) {
        uint8_t code = (uint8_t)(i % 256);
        p->expected.value[i] = format_decode(TDM_F8E4M3, &code, 0);
    }
    EXPECT_NONE(problem_all_variants(&p->base), "every code");
    fp8_problem_free(p);
}

TEST_EACH(fp8_matmul, zero_and_nan_scales, COUNT(value_rows))
{
    struct fp8_problem *p = small(*at, false);
    float *scale = p->b_scale.data;
    scale[0] = 0;
    scale[3 * 4 + 1] = 0;
    scale[3 * 5 + 2] = NAN;
    finish(p, "scales of zero and NaN");
}

/* A scale byte of 120 is 2^-7, 0 is 2^-127 and 255 is NaN. */
TEST_EACH(fp8_matmul, e8m0_bytes, COUNT(value_rows))
{
    struct fp8_shape shape = {"e8m0", 0, value_rows[*at], 6, 4, 1, 4};
    static const uint8_t bytes[] = {120, 127, 255, 0, 254, 121};
    static const double scales[] = {0x1p-7, 1, NAN, 0x1p-127, 0x1p127, 0x1p-6};
    struct fp8_setup setup = {.shape = &shape, .dtype = TDM_F32, .scale_dtype = TDM_E8M0};
    struct fp8_problem *p = fp8_problem_new(&setup);
    memcpy(p->b_scale.data, bytes, sizeof bytes);
    memset(p->b.data, 0x38, p->b.bytes); /* 1.0 */
    for (int64_t i = 0; i < shape.m * 4; i++)
        ((float *)p->a.data)[i] = 0.25F;
    p->expected = expected_new(shape.m * 6);
    for (int64_t i = 0; i < shape.m * 6; i++)
        p->expected.value[i] = scales[i % 6];
    EXPECT_NONE(problem_all_variants(&p->base), "e8m0 bytes");
    fp8_problem_free(p);
}

/* W8A8 rounding: beyond 448 steps it saturates, infinity too; a scale of 0 gives zeros (plus the bias). */
TEST_EACH(fp8_matmul, a_scale, COUNT(value_rows) * 4)
{
    static const float scales[] = {0, 1e-3F, 0.004F, 1e3F};
    struct fp8_problem *p = small(*at / 4, true);
    memcpy(p->a_scale.data, &scales[*at % 4], sizeof(float));
    void *row = tensor_row(&p->desc.a, p->args.a, 0, 0, 0);
    format_encode(p->desc.a.dtype, row, 0, 5000);
    format_encode(p->desc.a.dtype, row, 1, -5000);
    if (*at % 4)
        format_encode(p->desc.a.dtype, row, 40, -INFINITY);
    finish(p, "a_scale");
}

/* Scales of each row's own: of zeros, of what is too small for a scale, of one large value among small ones; an infinity
 * or NaN makes its row NaN. */
TEST_EACH(fp8_matmul, dynamic_scales, COUNT(value_rows))
{
    static const double values[] = {0, 1e-37, 0x1p-126, 3e4, -3e4, INFINITY, NAN};
    for (int i = 0; i < COUNT(values); i++) {
        struct fp8_shape shape = {"dynamic", 0, value_rows[*at], 33, 90, 1, 32};
        struct fp8_setup setup = {.shape = &shape, .dtype = float_types[(*at + i) % 3], .bias = true, .dynamic = true};
        struct fp8_problem *p = fp8_problem_new(&setup);
        void *row = tensor_row(&p->desc.a, p->args.a, 0, 0, shape.m - 1);
        for (int64_t k = 0; k < shape.k; k++)
            format_encode(p->desc.a.dtype, row, k, fabs(values[i]) < 1 ? values[i] : 1e-3 * (double)k);
        format_encode(p->desc.a.dtype, row, 71, values[i]);
        finish(p, fp8_problem_label(&setup));
    }
}

/* Halfway between two codes the even one is taken, also among the subnormals, and beside it the nearest. */
TEST_EACH(fp8_matmul, ties, COUNT(value_rows))
{
    static const float ties[] = {
        17,        19,        21,      -17,     -19,           0x1p-10F,      0x3p-10F, 0x5p-10F,
        -0x1p-10F, 0x1.fp-7F, 1.0625F, 1.1875F, 0x1.100002p0F, 0x1.0ffffep0F, 432,      440,
        447,       448.5F,    464,     480};
    struct fp8_shape shape = {"ties", 0, value_rows[*at], 33, COUNT(ties), 1, 128};
    for (int step = -1; step <= 1; step++) { /* powers of two keep the quotients exact */
        struct fp8_setup setup = {.shape = &shape, .dtype = TDM_F32, .a_scale = true};
        struct fp8_problem *p = fp8_problem_new(&setup);
        float scale = ldexpf(1, 5 * step);
        memcpy(p->a_scale.data, &scale, sizeof scale);
        for (int64_t i = 0; i < shape.m * shape.k; i++)
            ((float *)p->a.data)[i] = ties[i % shape.k] * scale;
        finish(p, "ties");
    }
}

/* ---- bits ----------------------------------------------------------------------------- */

/* Each row alone gives the bits that it has among the others. */
static const char *rows_alone_body(struct problem *problem, tdm_ctx *ctx, void *arg)
{
    const struct fp8_problem *p = arg;
    const struct guard *out = &problem->output[0].memory;
    struct guard all = guard_new(out->bytes, 0);
    memcpy(all.data, out->data, out->bytes);
    memset(out->data, OUTPUT_FILL, out->bytes);
    const char *bad = NULL;
    for (int64_t m = 0; m < p->args.m && !bad; m++) {
        tdm_fp8_matmul_args args = p->args;
        args.m = 1;
        args.a = tensor_row(&p->desc.a, p->args.a, 0, 0, m);
        args.out = tensor_row(&p->desc.out, p->args.out, 0, 0, m);
        struct problem one = {.op = problem->op, .desc = problem->desc, .args = &args};
        bad = problem_run(&one, ctx) ? tdm_last_error() : NULL;
    }
    if (!bad)
        bad = compare_bytes("rows alone", out->data, all.data, out->bytes);
    guard_free(&all);
    return bad;
}

TEST_EACH(fp8_matmul, rows_alone, COUNT(value_rows) * 3)
{
    struct fp8_shape shape = {"rows alone", 0, value_rows[*at / 3], 130, 700, *at % 2 ? 1 : 128, 128};
    struct fp8_setup setup = {.shape = &shape, .dtype = float_types[*at % 3], .scale_dtype = scale_dtypes[*at % 3]};
    struct fp8_problem *p = fp8_problem_new(&setup);
    EXPECT_NONE(problem_each_variant(&p->base, 2, rows_alone_body, p), fp8_problem_label(&setup));
    fp8_problem_free(p);
}

/* Weight rows a gigabyte apart in memory that is mostly never touched: offsets need 64 bits. */
TEST_EACH(fp8_matmul, offsets_beyond_32_bits, 2)
{
    struct fp8_shape shape = {"far apart", 0, *at ? 12 : 2, 5, 40, 1, 32};
    struct fp8_setup setup = {.shape = &shape, .dtype = TDM_F32};
    struct fp8_problem *p = fp8_problem_new(&setup);
    const int64_t row = (int64_t)1 << 30;
    size_t bytes = (size_t)(5 * row);
    char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert(map != MAP_FAILED);
    fp8_problem_expect(p);
    for (int64_t n = 0; n < 5; n++)
        memcpy(map + n * row, tensor_row(&p->desc.b, p->args.b, 0, 0, n), 40);
    p->desc.b.stride[0] = row;
    p->args.b = map;
    EXPECT_NONE(problem_all_variants(&p->base), "far apart");
    munmap(map, bytes);
    fp8_problem_free(p);
}
