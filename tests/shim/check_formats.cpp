#include "shim_check.h"

#include <device.cuh>

#include <cmath>

namespace
{

/* A code of `exponent` and `fraction` bits beside its sign, by the definition of such formats. */
double value_of(unsigned code, int exponent, int fraction)
{
    const unsigned mantissa = code & ((1u << fraction) - 1), power = code >> fraction & ((1u << exponent) - 1);
    const int bias = (1 << (exponent - 1)) - 1;
    const double sign = code >> (exponent + fraction) & 1 ? -1 : 1;
    const double fixed = power ? mantissa + (1u << fraction) : mantissa;
    return sign * std::ldexp(fixed, static_cast<int>(power ? power : 1) - bias - fraction);
}

bool same(float got, double want)
{
    return std::isnan(want) ? std::isnan(got)
                            : static_cast<double>(got) == want && std::signbit(got) == std::signbit(want);
}

/* ---- conversions ---- */

template <class T> void check_pairs_of_e4m3(const char *name)
{
    for (unsigned code = 0; code < 256; code++) {
        const unsigned other = code * 37 % 256;
        const float2 pair = widen_pair<T>(pair_of_e4m3<T>(code | other << 8 | 0xabcd0000u));
        expect(same(pair.x, static_cast<double>(f32_of_e4m3(static_cast<uint8_t>(code)))), "%s of e4m3 %02x is %g",
               name, code, static_cast<double>(pair.x));
        expect(same(pair.y, static_cast<double>(f32_of_e4m3(static_cast<uint8_t>(other)))), "%s of e4m3 %02x is %g",
               name, other, static_cast<double>(pair.y));
    }
}

/* Widening is exact, narrowing gives the nearest: checked halfway to the next code and on both sides of that. */
template <class T> void check_format(const char *name, int exponent, int fraction)
{
    const unsigned infinity = ((1u << exponent) - 1) << fraction;
    for (unsigned code = 0; code < 0x10000; code++) {
        const unsigned magnitude = code & 0x7fff;
        const float x = widen(T{static_cast<uint16_t>(code)});
        if (magnitude > infinity) {
            expect(std::isnan(x) && std::isnan(widen(narrow<T>(x))), "%s %04x is no NaN", name, code);
            continue;
        }
        const double want =
            magnitude == infinity ? (code >> 15 ? -INFINITY : INFINITY) : value_of(code, exponent, fraction);
        expect(same(x, want) && narrow<T>(x).bits == code, "%s %04x widens to %g", name, code, static_cast<double>(x));
        if (magnitude == infinity)
            continue;
        /* Past the largest code lies what would be the next one: it is rounded to infinity. */
        const float half = static_cast<float>((want + value_of(code + 1, exponent, fraction)) / 2);
        const unsigned even = code + (code & 1);
        expect(narrow<T>(half).bits == even && narrow<T>(std::nextafter(half, 0.f)).bits == code &&
                   narrow<T>(std::nextafter(half, half * 2)).bits == code + 1,
               "%s: %g is rounded to %04x", name, static_cast<double>(half), narrow<T>(half).bits);
        const uint32_t pair = narrow_pair<T>(x, half);
        expect(pair == (code | even << 16) && same(widen_pair<T>(pair).x, want), "%s: a pair of %04x and %04x is %08x",
               name, code, even, pair);
    }
}

/* ---- mma ---- */

/* Element i of a lane's registers, by the figures of PTX ISA, "Matrix fragments for mma.m16n8k16". */
int a_row(int lane, int i)
{
    return lane / 4 + (i < 2 || (i >= 4 && i < 6) ? 0 : 8);
}
int a_column(int lane, int i)
{
    return lane % 4 * 2 + (i & 1) + (i < 4 ? 0 : 8);
}
int b_row(int lane, int i)
{
    return lane % 4 * 2 + (i & 1) + (i < 2 ? 0 : 8);
}
int c_row(int lane, int i)
{
    return lane / 4 + (i < 2 ? 0 : 8);
}
int c_column(int lane, int i)
{
    return lane % 4 * 2 + (i & 1);
}

/* c += a * b; a [16, 16], b [16, 8], c [16, 8]. */
template <class T> __global__ void product(const T *a, const T *b, float *c)
{
    const int lane = static_cast<int>(threadIdx.x);
    uint32_t left[4] = {}, right[2] = {};
    float sums[4];
    for (int i = 0; i < 8; i++)
        left[i / 2] |= static_cast<uint32_t>(a[a_row(lane, i) * 16 + a_column(lane, i)].bits) << 16 * (i % 2);
    for (int i = 0; i < 4; i++)
        right[i / 2] |= static_cast<uint32_t>(b[b_row(lane, i) * 8 + lane / 4].bits) << 16 * (i % 2);
    for (int i = 0; i < 4; i++)
        sums[i] = c[c_row(lane, i) * 8 + c_column(lane, i)];
    mma_16x8x16<T>(sums, left, right);
    for (int i = 0; i < 4; i++)
        c[c_row(lane, i) * 8 + c_column(lane, i)] = sums[i];
}

template <class T> struct matrices {
    std::vector<T> a = std::vector<T>(16 * 16), b = std::vector<T>(16 * 8);
    std::vector<float> c = std::vector<float>(16 * 8);

    void multiply()
    {
        const device_array<T> a_there(a), b_there(b);
        const device_array<float> c_there(c);
        launch(product<T>, dim3(1), dim3(32), 0, nullptr, a_there.get(), b_there.get(), c_there.get());
        c = c_there.values();
    }
};

/* A single 2 in a, and b of numbers that are all different: one row of c changes, by twice a row of b. */
template <class T> void check_one_hot(const char *name)
{
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++) {
            matrices<T> m;
            m.a[static_cast<size_t>(row * 16 + k)] = narrow<T>(2);
            for (size_t i = 0; i < m.b.size(); i++)
                m.b[i] = narrow<T>(static_cast<float>(i + 1));
            for (size_t i = 0; i < m.c.size(); i++)
                m.c[i] = static_cast<float>(i) / 4;
            m.multiply();
            for (int i = 0; i < 16 * 8; i++) {
                const int added = i / 8 == row ? 2 * (k * 8 + i % 8 + 1) : 0;
                const float got = m.c[static_cast<size_t>(i)],
                            want = static_cast<float>(i) / 4 + static_cast<float>(added);
                expect(same(got, static_cast<double>(want)), "%s: a[%d, %d] gives c[%d, %d] = %g, not %g", name, row, k,
                       i / 8, i % 8, static_cast<double>(got), static_cast<double>(want));
            }
        }
}

/* 2^24 + 16 ones. */
float many_ones(bool coarse)
{
    matrices<f16> m;
    for (f16 &x : m.a)
        x = narrow<f16>(1);
    for (f16 &x : m.b)
        x = narrow<f16>(1);
    for (float &x : m.c)
        x = 0x1p24f;
    shim::set_coarse_sums(coarse);
    m.multiply();
    shim::set_coarse_sums(false);
    return m.c[0];
}

} // namespace

void check_e4m3()
{
    for (unsigned code = 0; code < 256; code++) {
        const bool is_nan = (code & 0x7f) == 0x7f;
        const float x = f32_of_e4m3(static_cast<uint8_t>(code));
        expect(same(x, is_nan ? static_cast<double>(NAN) : value_of(code, 4, 3)), "e4m3 %02x is %g", code,
               static_cast<double>(x));
        expect(e4m3_of_f32(x) == code, "e4m3 %02x comes back as %02x", code, e4m3_of_f32(x));
    }
    expect(e4m3_of_f32(449) == 0x7e && e4m3_of_f32(-INFINITY) == 0xfe, "e4m3 does not saturate");
    check_pairs_of_e4m3<f16>("f16");
    check_pairs_of_e4m3<bf16>("bf16");
}

void check_16_bits()
{
    check_format<f16>("f16", 5, 10);
    check_format<bf16>("bf16", 8, 7);
}

void check_byte_perm()
{
    static const struct {
        unsigned selector, want;
    } cases[] = {
        {0x3210, 0x04838201}, {0x7654, 0x88070605}, {0x1404, 0x82050105}, {0x9832, 0xff000483}, {0xfedc, 0xff000000}};
    for (const auto &c : cases)
        expect(__byte_perm(0x04838201, 0x88070605, c.selector) == c.want, "selector %04x gives %08x", c.selector,
               __byte_perm(0x04838201, 0x88070605, c.selector));
}

void check_mma_layout()
{
    check_one_hot<f16>("f16");
    check_one_hot<bf16>("bf16");
}

/* Sums are rounded once. Coarse ones cut each 1 to a multiple of 2, the last of 24 bits of 2^24: nothing is left. */
void check_mma_sums()
{
    expect(many_ones(false) == 0x1p24f + 16, "exact sums are not");
    expect(many_ones(true) == 0x1p24f, "coarse sums are not");
}
