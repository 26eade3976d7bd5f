/* widen and transpose: exact for every type and every code. */
#include "stored.h"

static struct guard in_memory, out_memory;

static bool is_exact(float got, double want)
{
    return isnan(want) ? isnan(got) : (double)got == want && !signbit(got) == !signbit(want);
}

static void check_widen_shape(struct suite *suite, enum leaf_type type, int rows, int channels, bool at_end)
{
    int gap = random_int(suite, 0, 1) * random_int(suite, 1, 9);
    struct leaf_rows x = random_rows(suite, &in_memory, type, rows, channels, gap, at_end, true);
    ptrdiff_t stride = channels + gap;
    float *out = guarded(&out_memory, sizeof(float) * (size_t)((rows - 1) * stride + channels), at_end);
    suite->table->widen[type](x, out, stride, rows, channels);
    bool exact = true;
    for (int j = 0; j < rows; j++)
        for (int c = 0; c < channels; c++)
            exact &= is_exact(out[j * stride + c], rows_value(type, x, j, c));
    expect(suite, exact, "%d x %d: wrong value", rows, channels);
    expect(suite, gaps_untouched(out, stride, rows, channels), "%d x %d: wrote between rows", rows, channels);
}

static void check_transpose_shape(struct suite *suite, enum leaf_type type, int rows, int channels, bool at_end)
{
    int gap = random_int(suite, 0, 1) * random_int(suite, 1, 9);
    struct leaf_rows x = random_rows(suite, &in_memory, type, rows, channels, gap, at_end, true);
    ptrdiff_t stride = rows + gap;
    float *out = guarded(&out_memory, sizeof(float) * (size_t)((channels - 1) * stride + rows), at_end);
    suite->table->transpose[type](x, out, stride, rows, channels);
    bool exact = true;
    for (int j = 0; j < rows; j++)
        for (int c = 0; c < channels; c++)
            exact &= is_exact(out[c * stride + j], rows_value(type, x, j, c));
    expect(suite, exact, "%d x %d: wrong value", rows, channels);
    expect(suite, gaps_untouched(out, stride, channels, rows), "%d x %d: wrote between rows", rows, channels);
}

static void check_shapes(struct suite *suite, enum leaf_type type,
                         void (*check)(struct suite *, enum leaf_type, int, int, bool))
{
    for (int channels = 1; channels <= 70; channels++)
        for (int at_end = 0; at_end < 2; at_end++)
            check(suite, type, random_int(suite, 1, 40), channels, at_end);
    check(suite, type, 128, 128, true);
    check(suite, type, 33, 577, false);
}

/* Every code a type has, in one row. Of f32 there are too many: the shapes above hold a sample. */
static void check_codes(struct suite *suite, enum leaf_type type)
{
    int codes = type == LEAF_F16 || type == LEAF_BF16 ? 65536 : type == LEAF_I4 ? 512 : 256;
    unsigned char *row = guarded(&in_memory, stored_bytes(type, codes), true);
    for (int i = 0; i < (int)stored_bytes(type, codes); i++)
        row[i] = (unsigned char)(codes == 65536 ? i / 2 >> i % 2 * 8 : i);
    float *out = guarded(&out_memory, sizeof(float) * (size_t)codes, true);
    suite->table->widen[type]((struct leaf_rows){row, 0, NULL}, out, 0, 1, codes);
    for (int i = 0; i < codes; i++)
        expect(suite, is_exact(out[i], stored_value(type, row, i)), "element %d of all codes: %a", i, (double)out[i]);
}

void check_widen(struct suite *suite, enum leaf_type type)
{
    check_shapes(suite, type, check_widen_shape);
    if (type != LEAF_F32)
        check_codes(suite, type);
}

void check_transpose(struct suite *suite, enum leaf_type type)
{
    check_shapes(suite, type, check_transpose_shape);
}
