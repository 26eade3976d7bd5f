/* Values that the kernels of fp8_matmul may meet: codes, NaN and infinities, scales of weights and of activations. */
#include "fp8_groups.h"

#include <cmath>
#include <cstring>

/* ---- values ------------------------------------------------------------------------------------ */

/* Every code as a weight, in every place of a vector load. NaN codes stay in their column. */
void codes()
{
    for (way by : ways)
        for (int64_t i = 0; i < 3; i++)
            for (int64_t place = 0; place < 16; place += by == way::MMA ? 1 : 5) {
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
