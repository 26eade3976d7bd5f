#include "bounds.h"
#include "reference.h"
#include "tensor.h"

#include <math.h>
#include <stdlib.h>

/* One sum, by section "qk and sv" of docs/numerics.md. */
struct sum {
    double value, magnitude, underflow;
    double largest, stored; /* the largest |a scale|; sum of |stored| */
    int64_t terms;
};

static void add(struct sum *sum, double a, double stored, double scale, double alpha)
{
    double product = a * (stored * scale);
    sum->value += product;
    sum->magnitude += fabs(product);
    sum->largest = fmax(sum->largest, fabs(a * scale));
    sum->stored += fabs(stored);
    sum->underflow += (1 + fabs(a)) * (1 + fabs(stored)) * (1 + fabs(scale)) * (1 + fabs(alpha));
    sum->terms++;
}

static void finish(const struct sum *sum, bool fixed_point, double alpha, double earlier, double *value, double *bound)
{
    double roundings = (double)(sum->terms + (sum->terms + 15) / 16 + PRODUCT_ROUNDINGS);
    *value = earlier + (sum->terms ? alpha * sum->value : 0);
    *bound = gamma_of(roundings) * (fabs(earlier) + fabs(alpha) * sum->magnitude) + UNDERFLOW * (1 + sum->underflow);
    if (fixed_point)
        *bound += FIXED_POINT * sum->largest * sum->stored;
}

static struct expected multiply(const tdm_product_desc *desc, const tdm_product_args *args, bool is_qk)
{
    const tdm_tensor *x = &desc->x;
    int64_t heads = desc->a.dim[1], rows = args->rows, columns = is_qk ? args->keys : x->dim[3];
    int64_t depth = is_qk ? x->dim[3] : args->keys, group = x->dim[1] ? heads / x->dim[1] : 0;
    double alpha = is_qk ? args->alpha : 1;
    struct expected expected = expected_new(desc->a.dim[0] * heads * rows * columns);
    double *a = depth ? tensor_read(&desc->a, args->a) : NULL, *stored = depth ? tensor_read(x, args->x) : NULL;
    double *earlier = args->accumulate ? tensor_read(&desc->out, args->out) : NULL;
    for (int64_t i = 0; i < desc->a.dim[0] * heads * rows * columns; i++) {
        int64_t column = i % columns, row = i / columns % rows, h = i / columns / rows % heads;
        int64_t b = i / columns / rows / heads, at = (b * heads + h) * desc->a.dim[2] + row;
        struct sum sum = {0};
        for (int64_t d = 0; d < depth; d++) {
            int64_t key = is_qk ? column : d, channel = is_qk ? d : column;
            double value = stored[((b * x->dim[1] + h / group) * x->dim[2] + key) * x->dim[3] + channel];
            add(&sum, a[at * desc->a.dim[3] + d], value, tensor_scale(x, args->x_scale, b, h / group, key, channel),
                alpha);
        }
        finish(&sum, !is_qk && (x->dtype == TDM_I8 || x->dtype == TDM_I4), alpha,
               earlier ? earlier[at * desc->out.dim[3] + column] : 0, &expected.value[i], &expected.bound[i]);
    }
    free(a);
    free(stored);
    free(earlier);
    return expected;
}

struct expected reference_qk(const tdm_product_desc *desc, const tdm_product_args *args)
{
    return multiply(desc, args, true);
}

struct expected reference_sv(const tdm_product_desc *desc, const tdm_product_args *args)
{
    return multiply(desc, args, false);
}
