/* The leaves around the softmax: score with its tanh, mul_add, rotate. */
#include "stored.h"

#include <float.h>

static struct guard x_memory, by_memory, extra_memory;

static float *row_of(struct suite *suite, struct guard *guard, int n, float size, bool at_end)
{
    float *row = guarded(guard, sizeof *row * (size_t)n, at_end);
    for (int i = 0; i < n; i++)
        row[i] = random_float(suite, size);
    return row;
}

/* ---- score -------------------------------------------------------------------------------- */

/* A score and the bound on its error: a rounding a step, 4 ulp of tanh, and the quotient's rounding as far as tanh
 * lets it through. */
static double exact_score(double s, double k_scale, const struct leaf_edit *edit, double extra, double *bound)
{
    const double u = 0x1p-24;
    double x = s * k_scale, y;
    *bound = u * fabs(x) + 0x1p-149;
    x += (double)edit->shift;
    *bound += u * (fabs(x) + *bound);
    y = x;
    if (edit->softcap != 0) {
        double cap = (double)edit->softcap, slope = 1 / cosh(fmin((fabs(x) - *bound) / cap, 700));
        y = cap * tanh(x / cap);
        *bound += u * fabs(x) * fmin(1, slope * slope) + 10 * u * fabs(y) + cap * 0x1p-149;
    }
    *bound += u * (fabs(y + extra) + *bound) + 0x1p-149;
    return y + extra;
}

/* Every combination of what an edit can hold, as bits of `parts`. */
static void check_edit(struct suite *suite, int n, int parts, float softcap)
{
    bool at_end = one_in(suite, 2);
    float *s = row_of(suite, &x_memory, n, 40.0f, at_end), before[200];
    float *k_scale = row_of(suite, &by_memory, n, 2.0f, at_end), *extra = row_of(suite, &extra_memory, n, 9.0f, at_end);
    for (int i = 0; i < n; i++)
        if (parts & 4 && one_in(suite, 6)) { /* hidden: no matter what else stands there */
            extra[i] = -INFINITY;
            s[i] = one_in(suite, 2) ? NAN : INFINITY;
            k_scale[i] = one_in(suite, 2) ? NAN : k_scale[i];
        }
    memcpy(before, s, sizeof *s * (size_t)n);
    struct leaf_edit edit = {.k_scale = parts & 1 ? k_scale : NULL,
                             .shift = parts & 2 ? random_float(suite, 5.0f) : 0.0f,
                             .softcap = softcap,
                             .extra = parts & 4 ? extra : NULL};
    suite->table->score(s, n, &edit);
    bool close = true;
    for (int i = 0; i < n; i++) {
        double plus = edit.extra ? extra[i] : 0, bound;
        double want = exact_score(before[i], edit.k_scale ? k_scale[i] : 1, &edit, plus, &bound);
        close &= is_close(s[i], plus == -INFINITY ? plus : want, bound);
    }
    expect(suite, close, "%d scores, parts %d, cap %g: wrong score", n, parts, (double)softcap);
}

static void check_special(struct suite *suite)
{
    for (int n = 1; n <= 40; n++)
        for (int cap = 0; cap < 2; cap++) {
            float *s = row_of(suite, &x_memory, n, 3.0f, true);
            float *extra = row_of(suite, &extra_memory, n, 3.0f, true);
            int nan_at = random_int(suite, 0, n - 1);
            s[nan_at] = NAN;
            struct leaf_edit edit = {.softcap = cap ? 5.0f : 0.0f, .extra = extra};
            suite->table->score(s, n, &edit);
            bool others = true;
            for (int i = 0; i < n; i++)
                others &= i == nan_at || isfinite(s[i]);
            expect(suite, isnan(s[nan_at]) && others, "%d scores: a NaN is lost or spreads", n);
            extra[nan_at] = NAN;
            s[nan_at] = 0.0f;
            suite->table->score(s, n, &edit);
            expect(suite, isnan(s[nan_at]), "%d scores: a NaN bias is lost", n);
        }
    static const float caps[] = {0x1p-126f, 1.0f, 30.0f, 0x1p100f};
    for (int i = 0; i < 4; i++) {
        float s[3] = {INFINITY, -INFINITY, 0.0f};
        suite->table->score(s, 3, &(struct leaf_edit){.softcap = caps[i]});
        expect(suite, s[0] == caps[i] && s[1] == -caps[i] && s[2] == 0.0f, "cap %g of infinite scores gives %g, %g",
               (double)caps[i], (double)s[0], (double)s[1]);
    }
}

/* A cap of 1 and nothing else gives tanh itself: at most 4 ulp off, odd, and never above 1. */
static void check_tanh(struct suite *suite)
{
    enum { N = 256, STEP = 61 };
    const uint32_t last = 0x41a80000; /* 21, beyond which it is 1 */
    double worst = 0;
    bool odd = true;
    for (uint32_t bits = 0x2f000000; bits < last; bits += N * STEP * (suite->quick ? 101 : 1)) {
        float x[N], y[N], minus[N];
        for (uint32_t i = 0; i < N; i++) {
            uint32_t code = bits + i * STEP;
            memcpy(&x[i], &code, sizeof *x);
            y[i] = x[i], minus[i] = -x[i];
        }
        suite->table->score(y, N, &(struct leaf_edit){.softcap = 1.0f});
        suite->table->score(minus, N, &(struct leaf_edit){.softcap = 1.0f});
        for (int i = 0; i < N; i++) {
            double want = tanh(x[i]);
            worst = fmax(worst, fabs(y[i] - want) / ldexp(1.0, ilogb(want) - 23));
            odd &= y[i] == -minus[i] && y[i] <= 1.0f;
        }
    }
    expect(suite, worst <= 4.0, "tanh is %.3f ulp off", worst);
    expect(suite, odd, "tanh is not odd, or above 1");
}

void check_score(struct suite *suite, enum leaf_type type)
{
    static const float caps[] = {0.0f, 1.0f, 7.5f, 50.0f, 0x1p-30f, 0x1p40f, FLT_MAX};
    (void)type;
    for (int n = 1; n <= 70; n++)
        for (int parts = 0; parts < 8; parts++)
            for (int cap = 0; cap < 7; cap++)
                check_edit(suite, n, parts, caps[cap]);
    check_edit(suite, 128, 7, 30.0f);
    check_edit(suite, 200, 7, 0.0f);
    check_special(suite);
    check_tanh(suite);
}

/* ---- mul_add ------------------------------------------------------------------------------- */

static bool same_float(float a, float b)
{
    return a == b || (isnan(a) && isnan(b));
}

static void check_products(struct suite *suite, int n, bool accumulate)
{
    bool at_end = one_in(suite, 2), right = true;
    float *x = row_of(suite, &x_memory, n, 3.0f, at_end), *by = row_of(suite, &by_memory, n, 3.0f, at_end);
    float *y = row_of(suite, &extra_memory, n, 3.0f, at_end), before[200];
    if (one_in(suite, 3))
        x[random_int(suite, 0, n - 1)] = one_in(suite, 2) ? NAN : INFINITY;
    if (!accumulate)
        memset(y, 0xff, sizeof *y * (size_t)n); /* NaN that must not come through */
    memcpy(before, y, sizeof *y * (size_t)n);
    suite->table->mul_add(x, by, y, n, accumulate);
    for (int i = 0; i < n; i++) {
        float product = x[i] * by[i];
        right &= accumulate ? same_float(y[i], before[i] + product) || same_float(y[i], fmaf(x[i], by[i], before[i]))
                            : same_float(y[i], product);
    }
    expect(suite, right, "%d products: wrong", n);
}

void check_mul_add(struct suite *suite, enum leaf_type type)
{
    (void)type;
    for (int n = 1; n <= 200; n++)
        for (int accumulate = 0; accumulate < 2; accumulate++)
            check_products(suite, n, accumulate);
}

/* ---- rotate -------------------------------------------------------------------------------- */

/* The steps of the contract, one by one. */
static void rotate_plainly(float *x, int n, int block)
{
    for (int h = 1; h < block; h *= 2)
        for (int i = 0; i < n; i++)
            if (!(i & h)) {
                float a = x[i], b = x[i + h];
                x[i] = a + b;
                x[i + h] = a - b;
            }
    for (int i = 0; i < n && block > 1; i++)
        x[i] *= (float)(1 / sqrt(block));
}

/* Channel i of its block by definition: the sum of (-1)^(bits that i and j share) x[j], over sqrt(block). */
static bool is_transform(const float *before, const float *after, int block)
{
    bool close = true;
    for (int i = 0; i < block; i++) {
        double sum = 0, size = 0;
        for (int j = 0; j < block; j++) {
            sum += __builtin_popcount((unsigned)(i & j)) % 2 ? -before[j] : before[j];
            size += fabs(before[j]);
        }
        close &= is_close(after[i], sum / sqrt(block), rounding_bound(size / sqrt(block), ilogb(block) + 2));
    }
    return close;
}

static void check_blocks(struct suite *suite, int block, int blocks)
{
    int n = block * blocks;
    float *x = row_of(suite, &x_memory, n, 4.0f, one_in(suite, 2)), before[1024], want[1024];
    memcpy(before, x, sizeof *x * (size_t)n);
    memcpy(want, x, sizeof *x * (size_t)n);
    rotate_plainly(want, n, block);
    suite->table->rotate(x, n, block);
    expect(suite, memcmp(x, want, sizeof *x * (size_t)n) == 0, "%d blocks of %d: other bits", blocks, block);
    for (int b = 0; b < blocks; b++)
        expect(suite, is_transform(before + b * block, x + b * block, block), "block of %d: not the transform", block);
    if (blocks < 2)
        return;
    x[n - 1] = NAN;
    suite->table->rotate(x, n, block);
    bool whole = true, spread = false;
    for (int i = 0; i < block; i++)
        whole &= isnan(x[n - 1 - i]);
    for (int i = 0; i < n - block; i++)
        spread |= isnan(x[i]);
    expect(suite, whole && !spread, "block of %d: a NaN is lost or leaves its block", block);
}

void check_rotate(struct suite *suite, enum leaf_type type)
{
    (void)type;
    for (int block = 1; block <= 1024; block *= 2)
        for (int blocks = 1; blocks * block <= 1024 && blocks <= 9; blocks += 2)
            check_blocks(suite, block, blocks);
}
