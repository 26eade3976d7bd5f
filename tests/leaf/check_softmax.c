/* The online softmax step: accuracy of exp, one block and several, masks, scales, NaN. */
#include "stored.h"

static struct guard s_memory, k_memory, v_memory;

/* Relative error of exp(a - b) in f32: 2 ulp of exp, and the rounding of a - b. */
static double exp_error(double difference)
{
    return 2 * 0x1p-23 + fabs(difference) * 0x1p-24 * 1.001;
}

/* One sweep over [-87, 0]: s[0] = 0 is the maximum, the others are the exponents. */
static void check_exp(struct suite *suite)
{
    enum { N = 256 };
    const int sweep = suite->quick ? 20000 : 2000000;
    double worst = 0;
    for (int start = 0; start < sweep; start += N - 1) {
        float *s = guarded(&s_memory, N * sizeof *s, true), x[N] = {0}, m = -INFINITY, l = 0;
        for (int i = 1; i < N; i++)
            x[i] = start % 3 ? -87.0f * (float)(start + i) / (float)(sweep + N) : -fabsf(random_float(suite, 87.0f));
        memcpy(s, x, sizeof x);
        suite->table->softmax(s, N, NULL, NULL, &m, &l);
        expect(suite, s[0] == 1.0f && m == 0.0f, "exp(0) is %a", (double)s[0]);
        for (int i = 1; i < N; i++) {
            double want = exp(x[i]), ulp = ldexp(1.0, ilogb(want) - 23);
            worst = fmax(worst, fabs(s[i] - want) / ulp);
        }
    }
    expect(suite, worst <= 2.0, "exp is %.3f ulp off", worst);
}

/* Softmax of n scores in f32, after those that led to *m and *l; checks all that comes out. */
static void check_step(struct suite *suite, int n, bool at_end, bool scaled, int masked_in, float *m, float *l)
{
    float *s = guarded(&s_memory, sizeof *s * (size_t)n, at_end), *before = malloc(sizeof *s * (size_t)n);
    float *k_scale = guarded(&k_memory, sizeof *s * (size_t)n, at_end);
    float *v_scale = guarded(&v_memory, sizeof *s * (size_t)n, at_end);
    double top = *m, sum = 0, sum_error = 0;
    for (int i = 0; i < n; i++) {
        bool masked = masked_in && one_in(suite, masked_in);
        s[i] = masked ? -INFINITY : random_float(suite, 8.0f);
        k_scale[i] = masked ? NAN : random_float(suite, 2.0f);
        v_scale[i] = masked ? INFINITY : random_float(suite, 2.0f);
        before[i] = scaled && !masked ? s[i] * k_scale[i] : s[i];
        top = fmax(top, before[i]);
    }
    double moved = *m == -INFINITY || top == *m ? 1.0 : exp(*m - top), start = *l;
    double moved_error = moved == 1.0 ? 0 : exp_error(*m - top) * moved + 0x1p-126;
    float factor = suite->table->softmax(s, n, scaled ? k_scale : NULL, scaled ? v_scale : NULL, m, l);
    bool close = true;
    for (int i = 0; i < n; i++) {
        double difference = before[i] - top, p = before[i] == -INFINITY ? 0 : exp(difference);
        double error = p == 0 ? 0 : exp_error(difference) * p + 0x1p-126;
        sum += p, sum_error += error;
        double by = scaled && p > 0 ? v_scale[i] : 1.0;
        close &= is_close(s[i], p * by, error * fabs(by) + 0x1p-23 * fabs(p * by));
    }
    free(before);
    expect(suite, close, "%d scores: wrong probability", n);
    expect(suite, *m == top, "%d scores: the maximum is %g, not %g", n, (double)*m, top);
    expect(suite, is_close(factor, moved, moved_error), "%d scores: shrinks by %g, not %g", n, (double)factor, moved);
    double want = start * moved + sum;
    double bound = start * moved_error + sum_error + rounding_bound(want, n + 2);
    expect(suite, is_close(*l, want, bound), "%d scores: the sum is %a, not %a", n, (double)*l, want);
}

static void check_blocks(struct suite *suite)
{
    for (int n = 1; n <= 70; n++)
        for (int scaled = 0; scaled < 2; scaled++) {
            float m = -INFINITY, l = 0;
            check_step(suite, n, scaled, scaled, 1, &m, &l); /* all masked: nothing happens */
            for (int block = 0; block < 4; block++)
                check_step(suite, n, one_in(suite, 2), scaled, 3 * block, &m, &l);
            check_step(suite, n, one_in(suite, 2), scaled, 1, &m, &l);
        }
    float m = -INFINITY, l = 0;
    check_step(suite, 1000, true, true, 5, &m, &l);
    check_step(suite, 4096, false, false, 0, &m, &l);
}

/* One step on the given scores; returns what it returned. */
static float step(struct suite *suite, float *s, int n, float *m, float *l)
{
    return suite->table->softmax(s, n, NULL, NULL, m, l);
}

static void check_special(struct suite *suite)
{
    for (int n = 1; n <= 40; n++) {
        float s[40], m = -INFINITY, l = 0;
        int nan_at = random_int(suite, 0, n - 1);
        for (int i = 0; i < n; i++)
            s[i] = i == nan_at ? NAN : one_in(suite, 2) ? -INFINITY : random_float(suite, 3.0f);
        step(suite, s, n, &m, &l);
        expect(suite, isnan(s[nan_at]) && isnan(l) && isnan(m), "%d scores: a NaN is lost", n);
        for (int i = 0; i < n; i++)
            s[i] = random_float(suite, 3.0f);
        float factor = step(suite, s, n, &m, &l);
        expect(suite, isnan(l) && isnan(m) && isnan(factor), "%d scores: a NaN is lost in the next step", n);
    }
    float far[2] = {0.0f, -3.0e38f}, m = -INFINITY, l = 0;
    step(suite, far, 2, &m, &l);
    expect(suite, far[1] == 0.0f && l == 1.0f, "exp of a far score is %a", (double)far[1]);
    float huge[2] = {3.0e38f, 3.0e38f};
    float factor = step(suite, huge, 2, &m, &l);
    expect(suite, factor == 0.0f && l == 2.0f && huge[0] == 1.0f, "a huge maximum leaves %a", (double)l);
    float equal[37];
    for (int i = 0; i < 37; i++)
        equal[i] = -2.45e5f;
    m = -INFINITY, l = 0;
    step(suite, equal, 37, &m, &l);
    expect(suite, l == 37.0f, "equal scores sum to %a", (double)l);
}

void check_softmax(struct suite *suite, enum leaf_type type)
{
    (void)type;
    check_exp(suite);
    check_blocks(suite);
    check_special(suite);
}
