/* fp8_dot: against sums in double, row by row bit for bit, and at the edges of the scale's range. fp8_panel: each
 * product, rounded once. */
#include "stored.h"

#include <float.h>

static struct guard a_memory, w_memory, scale_memory, out_memory, alone_memory;

struct shape {
    int rows, columns, depth, block, gap;
    bool at_end, special;
    bool many; /* the slot for many rows */
};

static leaf_fp8_dot *slot_of(const struct suite *suite, bool many)
{
    return many ? suite->table->fp8_many : suite->table->fp8_dot;
}

static bool same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void check_shape(struct suite *suite, struct shape is)
{
    int blocks = (is.depth + is.block - 1) / is.block, at = is.depth > 0 ? is.depth : 1;
    ptrdiff_t stride = is.columns + is.gap, a_stride = at + is.gap;
    const float *a = random_rows(suite, &a_memory, LEAF_F32, is.rows, at, is.gap, is.at_end, is.special).data;
    struct leaf_rows w = random_rows(suite, &w_memory, LEAF_F8E4M3, is.columns, at, is.gap, is.at_end, is.special);
    int per_column = blocks > 0 ? blocks : 1;
    struct leaf_rows scales =
        random_rows(suite, &scale_memory, LEAF_F32, is.columns, per_column, is.gap, is.at_end, false);
    size_t size = sizeof(float) * (size_t)((is.rows - 1) * stride + is.columns);
    float *out = guarded(&out_memory, size, is.at_end), *alone = guarded(&alone_memory, sizeof *alone, is.at_end);
    const float *scale = scales.data;
    leaf_fp8_dot *fp8_dot = slot_of(suite, is.many);
    int64_t scale_stride = per_column + is.gap;

    fp8_dot(a, a_stride, w, scale, scale_stride, is.block, out, stride, is.rows, is.columns, is.depth);
    bool close = true, same = true;
    for (int r = 0; r < is.rows; r++)
        for (int j = 0; j < is.columns; j++) {
            double want = 0, magnitude = 0;
            for (int b = 0; b < blocks; b++) {
                double sum = 0, by = scale[j * scale_stride + b];
                for (int k = b * is.block; k < (b + 1) * is.block && k < is.depth; k++) {
                    double product = a[r * a_stride + k] * rows_value(LEAF_F8E4M3, w, j, k);
                    sum += product, magnitude += fabs(product * by);
                }
                want += sum * by;
            }
            float got = out[r * stride + j];
            close &= is_close(got, want, rounding_bound(magnitude, 2 * is.depth + 64));
            if (is.many && (r * is.columns + j) % 37) /* a sample: each is a tile */
                continue;
            struct leaf_rows one = {(const char *)w.data + j * w.stride, w.stride, NULL};
            fp8_dot(a + r * a_stride, a_stride, one, scale + j * scale_stride, scale_stride, is.block, alone, 1, 1, 1,
                    is.depth);
            same &= same_bits(*alone, got);
        }
    expect(suite, close, "%d x %d x %d by %d: wrong sum", is.rows, is.columns, is.depth, is.block);
    expect(suite, same, "%d x %d x %d by %d: other bits beside other rows or columns", is.rows, is.columns, is.depth,
           is.block);
    expect(suite, gaps_untouched(out, stride, is.rows, is.columns), "%d x %d x %d by %d: wrote between rows", is.rows,
           is.columns, is.depth, is.block);
}

/* One product a * w * scale of each code: the first product is exact, however small a is. */
static void check_codes(struct suite *suite, bool many)
{
    static const float pairs[][2] = {{1.0f, 1.0f}, {1.0f, FLT_MAX / 512}, {0x1p-140f, 0x1p120f}, {2.0f, 0.0f}};
    for (int pair = 0; pair < 4; pair++)
        for (int code = 0; code < 256; code++) {
            unsigned char *w = guarded(&w_memory, 1, true);
            float *a = guarded(&a_memory, sizeof *a, true), *scale = guarded(&scale_memory, sizeof *scale, true);
            float *out = guarded(&out_memory, sizeof *out, true);
            *w = (unsigned char)code, *a = pairs[pair][0], *scale = pairs[pair][1];
            slot_of(suite, many)(a, 1, (struct leaf_rows){w, 1, NULL}, scale, 1, 128, out, 1, 1, 1, 1);
            double want = *a * e4m3_value(*w) * *scale;
            expect(suite, is_close(*out, want, fabs(want) * 0x1p-24), "code 0x%02x times %a and scale %a: %a", code,
                   (double)*a, (double)*scale, (double)*out);
        }
}

/* Scales at the ends of their range, and one that is no number. */
static void check_scales(struct suite *suite, bool many)
{
    static const float scales[] = {FLT_MAX, -FLT_MAX, 0x1p-149f, NAN, 0.0f};
    for (int i = 0; i < 5; i++)
        for (int rows = 1; rows <= 8; rows++) {
            float a[8][40], out[8][3], scale[3] = {scales[i], scales[i], scales[i]};
            unsigned char w[3][40];
            for (int k = 0; k < 8 * 40; k++)
                a[k / 40][k % 40] = k % 40 == 0 ? 0.5f : 0.0f;
            memset(w, 0x38, sizeof w); /* 1.0 */
            slot_of(suite, many)(a[0], 40, (struct leaf_rows){w, 40, NULL}, scale, 1, 64, out[0], 3, rows, 3, 40);
            for (int k = 0; k < 3 * rows; k++) {
                double want = 0.5 * scales[i];
                expect(suite, is_close(out[k / 3][k % 3], want, 0x1p-149), "scale %a gives %a", (double)scales[i],
                       (double)out[k / 3][k % 3]);
            }
        }
}

void check_fp8_dot(struct suite *suite, enum leaf_type type)
{
    (void)type;
    static const int blocks[] = {1, 3, 8, 16, 17, 32, 64, 100, 128, 1000};
    for (int depth = 0; depth <= 70; depth++)
        for (int rows = 1; rows <= 8; rows += suite->quick ? random_int(suite, 1, 4) : 1)
            check_shape(suite, (struct shape){
                                   .rows = rows,
                                   .columns = random_int(suite, 1, 9),
                                   .depth = depth,
                                   .block = blocks[random_int(suite, 0, 9)],
                                   .gap = random_int(suite, 0, 1) * random_int(suite, 1, 9),
                                   .at_end = one_in(suite, 2),
                                   .special = one_in(suite, 5),
                               });
    for (int rows = 1; rows <= 8; rows++)
        check_shape(suite, (struct shape){.rows = rows, .columns = 7, .depth = 576, .block = 128, .at_end = true});
    check_shape(suite, (struct shape){.rows = 2, .columns = 3, .depth = 5000, .block = 128, .at_end = true});
    check_codes(suite, false);
    check_scales(suite, false);
}

void check_fp8_many(struct suite *suite, enum leaf_type type)
{
    (void)type;
    static const int rows[] = {1, 3, 16, 17, 97}, columns[] = {1, 15, 16, 33, 64, 65},
                     blocks[] = {1, 32, 100, 128, 1000};
    static const int depths[] = {0, 1, 31, 64, 65, 128, 300};
    if (!suite->table->fp8_many)
        return;
    for (int i = 0; i < 5 * 6 * 7; i += suite->quick ? random_int(suite, 1, 5) : 1)
        check_shape(suite, (struct shape){
                               .rows = rows[i % 5],
                               .columns = columns[i / 5 % 6],
                               .depth = depths[i / 30],
                               .block = blocks[random_int(suite, 0, 4)],
                               .gap = random_int(suite, 0, 1) * random_int(suite, 1, 9),
                               .at_end = one_in(suite, 2),
                               .special = one_in(suite, 5),
                               .many = true,
                           });
    check_codes(suite, true);
    check_scales(suite, true);
}

/* Codes with an exponent, and where `any`, now and then one that may lack it or be a NaN. */
static void check_panel_shape(struct suite *suite, int columns, int depth, bool any, bool at_end)
{
    int gap = random_int(suite, 0, 9);
    ptrdiff_t stride = columns + gap, w_stride = depth + gap;
    unsigned char *w = guarded(&w_memory, (size_t)((columns - 1) * w_stride + depth), at_end);
    for (int i = 0; i < (columns - 1) * w_stride + depth; i++)
        w[i] = (unsigned char)(any && one_in(suite, 100) ? random_int(suite, 0, 255)
                                                         : random_int(suite, 8, 0x7e) | random_int(suite, 0, 1) << 7);
    const float *scale = random_rows(suite, &scale_memory, LEAF_F32, 1, columns, 0, at_end, false).data;
    float *out = guarded(&out_memory, sizeof(float) * (size_t)((depth - 1) * stride + columns), at_end);
    struct leaf_rows rows = {w, w_stride, one_in(suite, 2) ? w : NULL};
    suite->table->fp8_panel(rows, scale, out, stride, columns, depth);
    bool exact = true;
    for (int k = 0; k < depth; k++)
        for (int j = 0; j < columns; j++)
            exact &= same_bits(out[k * stride + j], (float)e4m3_value(w[j * w_stride + k]) * scale[j]);
    expect(suite, exact, "%d x %d: wrong product", columns, depth);
    expect(suite, gaps_untouched(out, stride, depth, columns), "%d x %d: wrote between rows", columns, depth);
}

void check_fp8_panel(struct suite *suite, enum leaf_type type)
{
    (void)type;
    static const int columns[] = {1, 4, 15, 16, 17, 32, 47}, depths[] = {1, 16, 63, 64, 65, 128, 200};
    for (int i = 0; i < 7 * 7 * 4; i += suite->quick ? random_int(suite, 1, 4) : 1)
        check_panel_shape(suite, columns[i % 7], depths[i / 7 % 7], i / 49 % 2, i / 98);
}
