/* The kernels of fp8_matmul against their reference: who owns which element, shapes, scales, codes, W8A8 rounding.
 *
 * usage: fp8_check [GROUP...]   all groups unless told */
#include "fp8_case.h"

#include "tests/shim/block.h"

extern "C" {
#include "tests/reference/formats.h"
}

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

namespace
{

const way ways[] = {way::MMA, way::WARP, way::WARP_BYTES, way::WIDENED};
const tdm_dtype halves[] = {TDM_F16, TDM_BF16}, floats[] = {TDM_F16, TDM_BF16, TDM_F32};
const tdm_dtype scale_dtypes[] = {TDM_F32, TDM_BF16, TDM_E8M0};
const rounding roundings[] = {rounding::NONE, rounding::GIVEN, rounding::OF_ROWS};

template <class T, size_t N> const T &pick(const T (&from)[N], int64_t i)
{
    return from[static_cast<size_t>(i) % N];
}

fp8_case case_of(way by, tdm_dtype dtype, int64_t m, int64_t n, int64_t k, int64_t block_n = 1, int64_t block_k = 64)
{
    fp8_case c;
    c.by = by;
    c.dtype = dtype;
    c.m = m;
    c.n = n;
    c.k = k;
    c.block_n = block_n;
    c.block_k = block_k;
    return c;
}

/* A type that the way takes. */
tdm_dtype dtype_for(way by, int64_t i)
{
    return by == way::MMA ? pick(halves, i) : pick(floats, i);
}

void fill_scales_with_one(fp8_problem &p)
{
    for (size_t i = 0; i < p.b_scale.size() / sizeof(float); i++)
        format_encode(TDM_F32, p.b_scale.data(), static_cast<int64_t>(i), 1);
}

double value_of(uint8_t code)
{
    return format_decode(TDM_F8E4M3, &code, 0);
}

/* ---- who owns which element --------------------------------------------------------------- */

/* Each row of a has a single 1, which walks over all of K: out[m, n] is the one weight that it meets. */
void one_hot_case(const fp8_case &c)
{
    fp8_problem p(c);
    fill_scales_with_one(p);
    for (int64_t n = 0; n < c.n; n++)
        for (int64_t k = 0; k < c.k; k++)
            p.put_b(n, k, static_cast<uint8_t>((n * 31 + k * 7) % 127 + (n + k) % 2 * 128));
    std::vector<double> want(static_cast<size_t>(c.m * c.n));
    for (int64_t shift = 0; shift < c.k; shift++) {
        for (int64_t m = 0; m < c.m; m++)
            for (int64_t k = 0; k < c.k; k++)
                p.put_a(m, k, k == (m * 5 + shift) % c.k);
        for (int64_t m = 0; m < c.m; m++)
            for (int64_t n = 0; n < c.n; n++)
                want[static_cast<size_t>(m * c.n + n)] =
                    value_of(p.b[static_cast<size_t>(n * p.desc.b.stride[0] + (m * 5 + shift) % c.k)]);
        expect_none(p.check_exact(want), label_of(c) + ", one-hot");
    }
}

void one_hot()
{
    for (int64_t m : {8, 16, 32, 64})
        one_hot_case(case_of(way::MMA, pick(halves, m / 8), m, 35, 256));
    for (int64_t m : {1, 2, 4, 8})
        one_hot_case(case_of(way::WARP, pick(floats, m), m, 5, 2 * 32 * 16 + 48, 1, 16));
    one_hot_case(case_of(way::WARP_BYTES, TDM_F16, 2, 5, 80, 1, 16));
    one_hot_case(case_of(way::WIDENED, TDM_BF16, 2, 45, 32, 1, 16));
    one_hot_case(case_of(way::WIDENED, TDM_F32, 2, 45, 19, 1, 16));
}

/* A weight that is not 0 in one row, column by column, gives an output there and nowhere else; its scale is its own. */
void one_weight()
{
    for (way by : ways) {
        const fp8_case c = case_of(by, TDM_F16, 3, 19, 256, 2, 64);
        fp8_problem p(c);
        std::vector<double> want(static_cast<size_t>(c.m * c.n));
        for (int64_t i = 0; i < c.m * c.k; i++)
            p.put_a(i / c.k, i % c.k, static_cast<double>(i / c.k + 1));
        for (int64_t k = 0; k < c.k; k += 21) {
            const int64_t n = k % c.n;
            std::memset(p.b.data(), 0, p.b.size());
            for (int64_t i = 0; i < (c.n + 1) / 2 * 4; i++)
                format_encode(TDM_F32, p.b_scale.data(), i, static_cast<double>(1 << i % 16));
            p.put_b(n, k, 0x40); /* 2 */
            for (int64_t i = 0; i < c.m * c.n; i++)
                want[static_cast<size_t>(i)] =
                    i % c.n == n ? static_cast<double>((i / c.n + 1) * 2) * (1 << (n / 2 * 4 + k / 64) % 16) : 0;
            expect_none(p.check_exact(want), label_of(c) + ", one weight");
        }
    }
}

/* ---- shapes --------------------------------------------------------------------------------- */

/* Whether the case is one that the way takes. */
bool takes(const fp8_case &c)
{
    const int64_t step = c.by == way::MMA ? FP8_WINDOW : FP8_CHUNK;
    if (c.by == way::WIDENED)
        return true;
    return c.k > 0 && c.k % step == 0 && (c.block_k >= c.k || c.block_k % step == 0) &&
           (c.by != way::MMA || (c.k >= 256 && c.dtype != TDM_F32));
}

void vary(fp8_case c, int64_t i)
{
    c.dtype = dtype_for(c.by, i);
    c.scale_dtype = pick(scale_dtypes, i / 2);
    c.round = pick(roundings, i / 3);
    c.bias = i % 2;
    c.strided = i / 2 % 2;
    c.seed = static_cast<uint64_t>(i + 1);
    c.multiprocessors = i % 3 == 0 ? 1 : i % 3 == 1 ? 8 : 200;
    if (takes(c))
        expect_case(c);
}

void rows()
{
    static const int64_t columns[] = {1, 15, 16, 17, 31, 32, 33, 50};
    static const int64_t depths[] = {256, 320, 512, 832, 1088};
    static const int64_t blocks[] = {64, 128, 192, 256, 4096};
    for (int64_t m = 1; m <= FP8_MMA_ROWS; m++)
        for (int64_t i = 0; i < 2; i++)
            vary(case_of(way::MMA, TDM_F16, m, pick(columns, m + i), pick(depths, m / 2 + i), i ? 1 : 16,
                         pick(blocks, m + 2 * i)),
                 2 * m + i);
    for (int64_t m = 1; m <= 17; m++)
        for (way by : {way::WARP, way::WARP_BYTES, way::WIDENED})
            vary(case_of(by, TDM_F16, m, pick(columns, m), 48 * m, 1, 16 * (m % 4 + 1)), m);
}

/* Tensor cores that add up as coarsely as any known one keep the bound too. */
void coarse_sums()
{
    shim::set_coarse_sums(true);
    for (int64_t m : {1, 9, 20, 40})
        for (int64_t k : {256, 2048})
            for (int64_t block_k : {64, 1 << 20})
                vary(case_of(way::MMA, TDM_F16, m, 32, k, 1, block_k), m + k);
    shim::set_coarse_sums(false);
}

void blocks()
{
    static const int64_t sizes[][2] = {{1, 16},       {1, 32},    {1, 128},   {3, 48},    {5, 64},
                                       {16, 16},      {128, 128}, {256, 256}, {256, 512}, {1000, 4096},
                                       {64, 1 << 30}, {7, 7},     {1, 1}};
    for (int64_t i = 0; i < static_cast<int64_t>(sizeof sizes / sizeof *sizes); i++)
        for (int64_t k : {0, 1, 9, 16, 31, 64, 80, 272, 576, 640})
            for (way by : ways)
                vary(case_of(by, TDM_F16, 1 + i % 5, 37, k, sizes[i][0], sizes[i][1]), i + k);
}

/* More weight rows than one dimension of a grid may have blocks. */
void many_columns()
{
    expect_case(case_of(way::WARP, TDM_BF16, 1, 70000, 16, 128, 16));
    fp8_case c = case_of(way::WIDENED, TDM_F32, 1, 70000, 3, 128, 128);
    c.tile_columns = c.n;
    expect_case(c);
}

/* The bits of a row do not depend on the rows beside it. */
void rows_alone()
{
    for (way by : {way::MMA, way::WARP})
        for (rounding round : roundings) {
            fp8_case c = case_of(by, TDM_F16, by == way::MMA ? 40 : 16, 50, 1088, 1, 64);
            c.round = round;
            fp8_problem all(c);
            expect_none(all.check(), label_of(c));
            const size_t a_row = static_cast<size_t>(all.desc.a.stride[0]);
            const size_t out_row = static_cast<size_t>(all.desc.out.stride[0]);
            for (int64_t m = 0; m < c.m; m += 5) {
                fp8_case one = c;
                one.m = 1;
                fp8_problem alone(one);
                alone.b = all.b;
                alone.b_scale = all.b_scale;
                std::memcpy(alone.a.data(), all.a.data() + static_cast<size_t>(m) * a_row, a_row);
                expect_none(alone.check(), label_of(one));
                expect_none(
                    compare_bytes("row", alone.out.data(), all.out.data() + static_cast<size_t>(m) * out_row, out_row),
                    label_of(c) + ", and alone");
            }
        }
}

/* ---- values ------------------------------------------------------------------------------------ */

/* Every code as a weight, in every place of a vector load. NaN codes stay in their column. */
void codes()
{
    for (way by : ways)
        for (int64_t i = 0; i < 3; i++)
            for (int64_t place = 0; place < 16; place++) {
                const fp8_case c = case_of(by, dtype_for(by, i), 2, 256, 256);
                fp8_problem p(c);
                fill_scales_with_one(p);
                std::memset(p.a.data(), 0, p.a.size());
                std::memset(p.b.data(), 0, p.b.size());
                std::vector<double> want(static_cast<size_t>(c.m * c.n));
                p.put_a(0, 192 + place, 1);
                for (int64_t n = 0; n < c.n; n++) {
                    const uint8_t code = static_cast<uint8_t>(n);
                    p.put_b(n, 192 + place, code);
                    want[static_cast<size_t>(n)] = value_of(code);
                    want[static_cast<size_t>(c.n + n)] = 0 * value_of(code);
                }
                expect_none(p.check_exact(want), label_of(c) + ", every code");
            }
}

void odd_activations()
{
    const double odd[] = {NAN, INFINITY, -INFINITY, 65504, 6e-8, 0};
    for (way by : ways)
        for (rounding round : roundings)
            for (double x : odd) {
                fp8_case c = case_of(by, dtype_for(by, 0), 5, 20, 256);
                c.round = round;
                c.bias = true;
                fp8_problem p(c);
                p.put_a(3, 100, x);
                expect_none(p.check(), label_of(c) + ", an odd activation");
            }
}

void scales()
{
    const double sizes[] = {1e-8, 1e-4, 1, 1e3, 1e6, 0x1p-60, 0x1p60, 0x1p-125};
    for (way by : ways)
        for (double size : sizes)
            for (int64_t i = 0; i < 3; i++) {
                fp8_case c = case_of(by, dtype_for(by, i), 3, 33, 256);
                c.scale_dtype = pick(scale_dtypes, i);
                c.round = pick(roundings, i);
                c.bias = true;
                c.scale_size = size;
                expect_case(c);
            }
}

/* Scales of 0 and NaN, the smallest and large ones, beside ordinary ones. */
void odd_scales()
{
    const double odd[] = {0, NAN, 0x1p-149, 0x1p-127, -3, 0x1p100};
    for (way by : ways)
        for (double x : odd) {
            const fp8_case c = case_of(by, by == way::MMA ? TDM_BF16 : TDM_F32, 3, 20, 256);
            fp8_problem p(c);
            format_encode(TDM_F32, p.b_scale.data(), 4 * 7 + 2, x);
            expect_none(p.check(), label_of(c) + ", an odd scale");
        }
    for (way by : ways)
        for (int byte : {0, 1, 127, 200, 253, 254, 255}) {
            fp8_case c = case_of(by, TDM_BF16, 3, 20, 256);
            c.scale_dtype = TDM_E8M0;
            fp8_problem p(c);
            for (unsigned char &code : p.b)
                code = static_cast<unsigned char>(code & 0x87); /* below 2^-6, so that sums fit */
            p.b_scale[4 * 7 + 2] = static_cast<unsigned char>(byte);
            expect_none(p.check(), label_of(c) + ", an odd scale byte");
        }
}

/* Byte 0 of E8M0 is 2^-127, which bf16 and f32 hold as a subnormal. */
void smallest_scale()
{
    for (way by : ways) {
        fp8_case c = case_of(by, TDM_BF16, 2, 20, 256);
        c.scale_dtype = TDM_E8M0;
        fp8_problem p(c);
        std::memset(p.b_scale.data(), 0, p.b_scale.size());
        std::memset(p.b.data(), 0x38, p.b.size()); /* 1 */
        for (int64_t i = 0; i < c.m * c.k; i++)
            p.put_a(i / c.k, i % c.k, i % c.k == 77);
        expect_none(p.check_exact(std::vector<double>(static_cast<size_t>(c.m * c.n), 0x1p-127)),
                    label_of(c) + ", the smallest scale");
    }
}

/* ---- W8A8 ------------------------------------------------------------------------------------- */

void given_scales()
{
    const float odd[] = {0, -0.f, NAN, INFINITY, -0.01f, 1e-3f, 1e3f, 0x1p-140f, 0x1p120f, 0x1p-20f};
    for (way by : ways)
        for (float scale : odd)
            for (int64_t m : {2, 11}) {
                fp8_case c = case_of(by, dtype_for(by, m), m, 20, 256);
                c.round = rounding::GIVEN;
                c.bias = true;
                fp8_problem p(c);
                p.a_scale = scale;
                p.put_a(1, 3, 0);
                p.put_b(5, 3, 0x7F);
                expect_none(p.check(), label_of(c) + ", an odd a_scale");
            }
}

/* Quotients that lie between two codes: ties to even, and those an ulp away. */
void ties()
{
    for (way by : ways) {
        fp8_case c = case_of(by, TDM_BF16, 8, 16, 256);
        c.round = rounding::GIVEN;
        fp8_problem p(c);
        p.a_scale = 0.375f;
        for (int64_t i = 0; i < c.m * c.k; i++)
            p.put_a(i / c.k, i % c.k,
                    0.375 * std::ldexp(16 + static_cast<double>(i % 17), static_cast<int>(i % 18) - 14));
        expect_none(p.check(), label_of(c) + ", ties");
    }
}

void scales_of_rows()
{
    for (way by : ways)
        for (tdm_dtype dtype : floats) {
            fp8_case c = case_of(by, dtype, 9, 20, 576);
            c.round = rounding::OF_ROWS;
            if (!takes(c))
                continue;
            fp8_problem p(c);
            for (int64_t k = 0; k < c.k; k++) {
                p.put_a(0, k, 0);                                     /* scale 0                           */
                p.put_a(1, k, 0x1p-126 * static_cast<double>(k % 3)); /* too small for one                */
                p.put_a(2, k, k == c.k - 1 ? -448 : 1);               /* the largest is the last, negative */
            }
            p.put_a(3, 570, NAN);
            p.put_a(4, 1, INFINITY);
            expect_none(p.check(), label_of(c) + ", odd rows");
        }
}

const struct {
    const char *name;
    void (*run)();
} groups[] = {{"one_hot", one_hot},
              {"one_weight", one_weight},
              {"rows", rows},
              {"coarse_sums", coarse_sums},
              {"rows_alone", rows_alone},
              {"blocks", blocks},
              {"many_columns", many_columns},
              {"codes", codes},
              {"odd_activations", odd_activations},
              {"scales", scales},
              {"odd_scales", odd_scales},
              {"smallest_scale", smallest_scale},
              {"given_scales", given_scales},
              {"ties", ties},
              {"scales_of_rows", scales_of_rows}};

bool is_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!std::strcmp(argv[i], name))
            return true;
    return argc == 1;
}

} // namespace

int main(int argc, char **argv)
{
    int ran = 0;
    for (const auto &group : groups)
        if (is_wanted(group.name, argc, argv)) {
            const int before = failures();
            group.run();
            std::printf("%s: %s\n", group.name, failures() == before ? "passed" : "FAILED");
            ran++;
        }
    return failures() || !ran;
}
