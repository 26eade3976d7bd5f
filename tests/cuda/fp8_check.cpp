/* The kernels of fp8_matmul against their reference: who owns which element, shapes, and the values of fp8_values.cpp.
 *
 * usage: fp8_check [GROUP...]   all groups unless told */
#include "fp8_groups.h"
#include "kernel_check.h"

#include "tests/shim/block.h"

#include <algorithm>
#include <cstring>

namespace
{

/* ---- who owns which element --------------------------------------------------------------- */

/* Each row of a has a single 1, K / M apart from its neighbours, and these walk: out[m, n] is the one weight that it meets. */
void one_hot_case(const fp8_case &c, int64_t step = 1)
{
    static const int64_t turns[] = {0, 1, 5}; /* which row meets k first */
    fp8_problem p(c);
    fill_scales_with_one(p);
    for (int64_t n = 0; n < c.n; n++)
        for (int64_t k = 0; k < c.k; k++)
            p.put_b(n, k, static_cast<uint8_t>((n * 31 + k * 7) % 127 + (n + k) % 2 * 128));
    std::vector<double> want(static_cast<size_t>(c.m * c.n));
    for (int64_t walk = 0; walk < c.k / c.m * 3; walk += step) {
        std::fill(p.a.begin(), p.a.end(), 0);
        for (int64_t m = 0; m < c.m; m++) {
            const int64_t k = ((m + turns[walk % 3]) * (c.k / c.m) + walk / 3) % c.k;
            p.put_a(m, k, 1);
            for (int64_t n = 0; n < c.n; n++)
                want[static_cast<size_t>(m * c.n + n)] = value_of(p.b[static_cast<size_t>(n * p.desc.b.stride[0] + k)]);
        }
        expect_none(p.check_exact(want), label_of(c) + ", one-hot");
    }
}

void one_hot()
{
    for (int64_t m : {8, 16, 32, 64})
        one_hot_case(case_of(way::MMA, pick(halves, m / 8), m, 35, 256));
    for (int64_t m : {1, 2, 4, 8}) /* by 7: each lane, and each place in a chunk */
        one_hot_case(case_of(way::WARP, pick(floats, m), m, 5, 2048 + 80, 1, 16), 7);
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
        for (int64_t i = m > 8; i < 2; i++)
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

const check_group groups[] = {{"one_hot", one_hot},
                              {"one_weight", one_weight},
                              {"rows", rows},
                              {"coarse_sums", coarse_sums},
                              {"blocks", blocks},
                              {"many_columns", many_columns},
                              {"rows_alone", rows_alone},
                              {"codes", codes},
                              {"odd_activations", odd_activations},
                              {"scales", scales},
                              {"odd_scales", odd_scales},
                              {"smallest_scale", smallest_scale},
                              {"given_scales", given_scales},
                              {"ties", ties},
                              {"scales_of_rows", scales_of_rows}};

} // namespace

int main(int argc, char **argv)
{
    return kernel_check(groups, argc, argv);
}
