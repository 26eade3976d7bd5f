#include "int8_problem.h"

#include "tests/reference/bounds.h"
#include "tests/reference/formats.h"
#include "tests/reference/tensor.h"

#include <math.h>
#include <stdlib.h>

struct gqa_problem *int8_problem_new(const struct gqa_setup *setup)
{
    struct gqa_problem *p = gqa_problem_new(setup);
    p->base.approximate = true;
    return p;
}

/* Every step is one f32 operation, so that the codes are determined. `by`: the static K scales. */
static void round_query(const float *q, float *rounded, int64_t n, float scale, const float *by, tdm_scaling scaling)
{
    float largest = 0, x[1024];
    for (int64_t c = 0; c < n; c++) {
        float factor = scaling == TDM_PER_TENSOR ? scale * by[0] : scaling == TDM_PER_CHANNEL ? scale * by[c] : scale;
        x[c] = q[c] * factor;
        largest = isnan(x[c]) || fabsf(x[c]) > largest ? fabsf(x[c]) : largest;
    }
    float unit = largest / 127;
    for (int64_t c = 0; c < n; c++) {
        float code = rintf(x[c] / unit);
        rounded[c] = unit == 0 ? 0 : (isnan(code) ? 0 : fminf(fmaxf(code, -128), 127)) * unit;
    }
}

static struct guard round_queries(const struct gqa_problem *p)
{
    const tdm_tensor *q = &p->desc.q, *k = &p->desc.cache.k;
    int64_t n = q->dim[3], group = q->dim[1] / k->dim[1];
    struct guard rounded = guard_new((size_t)tensor_elements(q) * sizeof(float), 0);
    double *values = tensor_read(q, p->args.q);
    float scale = p->desc.scale != 0 ? p->desc.scale : (float)(1 / sqrt((double)n));
    for (int64_t row = 0; row < q->dim[0] * q->dim[1] * q->dim[2]; row++) {
        float plain[1024];
        int64_t kv_head = row / q->dim[2] % q->dim[1] / group;
        for (int64_t c = 0; c < n; c++)
            plain[c] = (float)values[row * n + c];
        const float *by = p->args.cache.k_scale + (k->scaling == TDM_PER_CHANNEL ? kv_head * n : 0);
        round_query(plain, (float *)rounded.data + row * n, n, scale, by, k->scaling);
    }
    free(values);
    return rounded;
}

/* The largest value that kv head h of sequence b holds. */
static double largest_value(const struct gqa_problem *p, int64_t b, int64_t h)
{
    const tdm_tensor *v = &p->desc.cache.v;
    double largest = 0;
    for (int64_t r = 0; r < v->dim[2]; r++)
        for (int64_t c = 0; c < v->dim[3]; c++) {
            double scale = tensor_scale(v, p->args.cache.v_scale, b, h, r, c);
            double x = fabs(scale * format_decode(TDM_I8, tensor_row(v, p->args.cache.v, b, h, r), c));
            largest = isfinite(x) && x > largest ? x : largest;
        }
    return largest;
}

/* Rounding of the V scales in units of their largest: one for the quotient, one for its product, and two for each
 * change of the unit, at most one a block of keys, two ends of a ring, the sinks and the merge. */
static void add_unit_roundings(struct gqa_problem *p)
{
    const tdm_tensor *out = &p->desc.out;
    int64_t group = out->dim[1] / p->desc.cache.v.dim[1], per_head = out->dim[2] * out->dim[3];
    for (int64_t i = 0; i < out->dim[0] * out->dim[1]; i++) {
        int64_t b = i / out->dim[1], head = i % out->dim[1];
        double changes = ceil((double)p->kv_len[b] / KEY_BLOCK) + 4;
        double extra = gamma_of(2 * changes + 2) * largest_value(p, b, head / group);
        for (int64_t j = 0; j < per_head; j++)
            p->expected.out.bound[i * per_head + j] += extra;
    }
}

/* The static K scales are in the rounded queries already. */
void int8_problem_expect(struct gqa_problem *p)
{
    struct guard rounded = round_queries(p);
    tdm_gqa_desc desc = p->desc;
    tdm_gqa_args args = p->args;
    desc.q = tensor4(TDM_F32, desc.q.dim[0], desc.q.dim[1], desc.q.dim[2], desc.q.dim[3]);
    desc.scale = 1;
    if (desc.cache.k.scaling != TDM_PER_TOKEN)
        desc.cache.k.scaling = TDM_UNSCALED;
    args.q = rounded.data;
    p->expected = reference_gqa(&desc, &args);
    if (p->desc.cache.v.scaling == TDM_PER_TOKEN)
        add_unit_roundings(p);
    guard_free(&rounded);
}
