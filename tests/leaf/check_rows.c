/* The leaves on plain rows: each has one right answer, bit for bit. */
#include "stored.h"

#include <float.h>

static struct guard x_memory, by_memory, out_memory;

/* Numbers of all sizes, and some that are none. */
static float any_float(struct suite *suite)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, FLT_MAX, 0x1p-149f};
    if (one_in(suite, 12))
        return odd[random_int(suite, 0, 6)];
    return ldexpf(random_float(suite, 1.0f), random_int(suite, -30, 30));
}

static float *any_row(struct suite *suite, struct guard *guard, int n, bool at_end)
{
    float *row = guarded(guard, sizeof(float) * (size_t)n, at_end);
    for (int i = 0; i < n; i++)
        row[i] = any_float(suite);
    return row;
}

/* x rounded to nearest even with so many fraction bits; the smallest normal number is 2^smallest. */
static double round_to(double x, int fraction_bits, int smallest, double first_infinite)
{
    if (x == 0 || isnan(x) || isinf(x))
        return x;
    int exponent = ilogb(x) > smallest ? ilogb(x) : smallest;
    double step = ldexp(1.0, exponent - fraction_bits);
    return fabs(x) >= first_infinite ? copysign(INFINITY, x) : rint(x / step) * step;
}

static void check_narrow(struct suite *suite, leaf_narrow *narrow, enum leaf_type type, float *x, int n, bool at_end)
{
    uint16_t *out = guarded(&out_memory, sizeof *out * (size_t)n, at_end);
    narrow(x, out, n);
    for (int i = 0; i < n; i++) {
        double want = type == LEAF_F16 ? round_to(x[i], 10, -14, 65520.0) : round_to(x[i], 7, -126, 0x1.ffp127);
        double got = stored_value(type, out, i);
        expect(suite, isnan(want) ? isnan(got) : got == want && !signbit(got) == !signbit(want), "%a became %a",
               (double)x[i], got);
    }
}

/* Odd lengths, then every code of the format, the midpoint above it and that one's neighbours. */
static void check_narrow_all(struct suite *suite, leaf_narrow *narrow, enum leaf_type type)
{
    for (int n = 1; n <= 70; n++)
        for (int at_end = 0; at_end < 2; at_end++)
            check_narrow(suite, narrow, type, any_row(suite, &x_memory, n, at_end), n, at_end);
    static const uint32_t low_payloads[] = {0x7f800001, 0xff801fff, 0x7fbfffff}; /* NaN in bits that get lost */
    float *nan = guarded(&x_memory, sizeof low_payloads, true);
    memcpy(nan, low_payloads, sizeof low_payloads);
    check_narrow(suite, narrow, type, nan, 3, true);
    for (int code = 0; code < 65536; code += suite->quick ? 97 : 1) {
        uint16_t pair[2] = {(uint16_t)code, (uint16_t)(code + 1)};
        float low = (float)stored_value(type, pair, 0), high = (float)stored_value(type, pair, 1);
        float *x = guarded(&x_memory, 4 * sizeof *x, true), middle = low / 2 + high / 2;
        x[0] = low, x[1] = middle, x[2] = nextafterf(middle, -INFINITY), x[3] = nextafterf(middle, INFINITY);
        check_narrow(suite, narrow, type, x, 4, true);
    }
}

void check_to_f16(struct suite *suite, enum leaf_type type)
{
    (void)type;
    check_narrow_all(suite, suite->table->to_f16, LEAF_F16);
}

void check_to_bf16(struct suite *suite, enum leaf_type type)
{
    (void)type;
    check_narrow_all(suite, suite->table->to_bf16, LEAF_BF16);
}

void check_scale(struct suite *suite, enum leaf_type type)
{
    (void)type;
    for (int n = 1; n <= 70; n++)
        for (int given = 0; given < 2; given++) {
            bool at_end = one_in(suite, 2);
            float *x = any_row(suite, &x_memory, n, at_end), *by = any_row(suite, &by_memory, n, at_end), want[70];
            float factor = any_float(suite);
            for (int i = 0; i < n; i++)
                want[i] = x[i] * (given ? factor * by[i] : factor);
            suite->table->scale(x, given ? by : NULL, factor, n);
            for (int i = 0; i < n; i++)
                expect(suite, isnan(want[i]) ? isnan(x[i]) : x[i] == want[i], "element %d of %d", i, n);
        }
}

void check_absmax(struct suite *suite, enum leaf_type type)
{
    (void)type;
    for (int n = 1; n <= 200; n++)
        for (int with_nan = 0; with_nan < 2; with_nan++) {
            float *x = guarded(&x_memory, sizeof *x * (size_t)n, one_in(suite, 2)), want = 0.0f;
            for (int i = 0; i < n; i++) {
                x[i] = one_in(suite, 50) ? -INFINITY : random_float(suite, 4.0f);
                want = fabsf(x[i]) > want ? fabsf(x[i]) : want;
            }
            if (with_nan)
                x[random_int(suite, 0, n - 1)] = one_in(suite, 2) ? NAN : -NAN;
            float got = suite->table->absmax(x, n);
            expect(suite, with_nan ? isnan(got) : got == want, "%d elements: %a, not %a", n, (double)got, (double)want);
        }
    float *zero = guarded(&x_memory, sizeof *zero, true);
    *zero = -0.0f;
    expect(suite, suite->table->absmax(zero, 1) == 0.0f, "of -0");
}

/* The integer nearest to x, ties to even, within the bounds; 0 for NaN. */
static int nearest(float x, double low, double high)
{
    return isnan(x) ? 0 : (int)fmin(fmax(rint(x), low), high);
}

/* Values on and beside the ties, of the sizes that quantization sees. */
static float *quantizable_row(struct suite *suite, int n, bool at_end)
{
    float *x = any_row(suite, &x_memory, n, at_end);
    for (int i = 0; i < n; i++)
        if (!one_in(suite, 4))
            x[i] = (float)random_int(suite, -600, 600) / 4.0f;
    return x;
}

static float *scale_row(struct suite *suite, int n, bool at_end)
{
    float *scale = guarded(&by_memory, sizeof *scale * (size_t)n, at_end);
    for (int i = 0; i < n; i++)
        scale[i] = one_in(suite, 15) ? any_float(suite) : ldexpf(1.0f, random_int(suite, -3, 3));
    return scale;
}

void check_to_i8(struct suite *suite, enum leaf_type type)
{
    (void)type;
    for (int n = 1; n <= 150; n++)
        for (int by_channel = 0; by_channel < 2; by_channel++) {
            bool at_end = one_in(suite, 2);
            float *x = quantizable_row(suite, n, at_end), *inverse = scale_row(suite, by_channel ? n : 1, at_end);
            int8_t *out = guarded(&out_memory, (size_t)n, at_end);
            suite->table->to_i8(x, inverse, by_channel, out, n);
            for (int i = 0; i < n; i++) {
                int want = nearest(x[i] * inverse[by_channel ? i : 0], -128, 127);
                expect(suite, out[i] == want, "%a became %d, not %d", (double)x[i], out[i], want);
            }
        }
}

void check_to_i4(struct suite *suite, enum leaf_type type)
{
    (void)type;
    for (int n = 1; n <= 150; n++)
        for (int by_channel = 0; by_channel < 2; by_channel++) {
            bool at_end = one_in(suite, 2);
            float *x = quantizable_row(suite, n, at_end), *inverse = scale_row(suite, by_channel ? n : 1, at_end);
            uint8_t *out = guarded(&out_memory, stored_bytes(LEAF_I4, n), at_end);
            suite->table->to_i4(x, inverse, by_channel, out, n);
            for (int i = 0; i < n; i++) {
                int want = nearest(x[i] * inverse[by_channel ? i : 0], -8, 7);
                expect(suite, stored_value(LEAF_I4, out, i) == want, "%a became %g, not %d", (double)x[i],
                       stored_value(LEAF_I4, out, i), want);
            }
            if (n % 2)
                expect(suite, out[n / 2] >> 4 == 8, "%d elements: the spare nibble is %d", n, out[n / 2] >> 4);
        }
}

/* The code of the magnitude nearest to x among all codes, ties to the even one; x is not NaN. */
static unsigned nearest_e4m3(double x)
{
    unsigned best = 0;
    for (unsigned code = 1; code <= 0x7e; code++) {
        double farther = fabs(e4m3_value(code) - fabs(x)), near = fabs(e4m3_value(best) - fabs(x));
        if (farther < near || (farther == near && code % 2 == 0))
            best = code;
    }
    return isinf(x) ? 0x7e : best;
}

static void check_f8_row(struct suite *suite, const float *x, const float *scale, bool by_channel, int n, bool at_end)
{
    uint8_t *out = guarded(&out_memory, (size_t)n, at_end);
    suite->table->to_f8(x, scale, by_channel, out, n);
    for (int i = 0; i < n; i++) {
        float by = scale[by_channel ? i : 0], quotient = x[i] / by;
        unsigned want = by == 0.0f ? 0 : nearest_e4m3(quotient) | (signbit(quotient) ? 0x80 : 0);
        bool right = isnan(quotient) && by != 0.0f ? (out[i] & 0x7f) == 0x7f : out[i] == want;
        expect(suite, right, "%a / %a became 0x%02x, not 0x%02x", (double)x[i], (double)by, out[i], want);
    }
}

/* Odd lengths of any numbers, then every code, the midpoint above it and that one's neighbours, of both signs. */
void check_to_f8(struct suite *suite, enum leaf_type type)
{
    (void)type;
    for (int n = 1; n <= 150; n++)
        for (int by_channel = 0; by_channel < 2; by_channel++) {
            bool at_end = one_in(suite, 2);
            float *x = quantizable_row(suite, n, at_end), *scale = scale_row(suite, by_channel ? n : 1, at_end);
            check_f8_row(suite, x, scale, by_channel, n, at_end);
        }
    for (unsigned code = 0; code <= 0x7e; code++)
        for (int sign = -1; sign <= 1; sign += 2) {
            float low = (float)sign * (float)e4m3_value(code), one = 1.0f;
            float high = code < 0x7e ? (float)sign * (float)e4m3_value(code + 1) : (float)sign * 480.0f;
            float middle = (low + high) / 2;
            float x[] = {low, middle, nextafterf(middle, -INFINITY), nextafterf(middle, INFINITY), high};
            check_f8_row(suite, x, &one, false, 5, true);
        }
}
