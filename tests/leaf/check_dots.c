/* qk and sv: against sums in double, and bit for bit against themselves row by row. dot_i8: exact. */
#include "cpu/leaves/limbs.h"
#include "stored.h"

static struct guard left_memory, right_memory, out_memory, alone_memory;

struct shape {
    int rows, keys, channels;
    int gap; /* spare elements behind each row of every matrix */
    bool at_end, special, accumulate;
    int spread; /* numbers on the left are smaller by up to so many powers of two */
    bool many;  /* the slot for many rows */
};

static struct shape random_shape(struct suite *suite, int rows, int channels)
{
    return (struct shape){
        .rows = rows,
        .keys = random_int(suite, 1, 21),
        .channels = channels,
        .gap = random_int(suite, 0, 1) * random_int(suite, 1, 9),
        .at_end = one_in(suite, 2),
        .special = one_in(suite, 5),
        .accumulate = one_in(suite, 2),
        .spread = one_in(suite, 2) ? random_int(suite, 1, 60) : 0,
    };
}

static struct leaf_rows random_left(struct suite *suite, struct shape is, int columns)
{
    struct leaf_rows left = random_rows(suite, &left_memory, LEAF_F32, is.rows, columns, is.gap, is.at_end, is.special);
    float *row = (float *)(uintptr_t)left.data;
    for (int r = 0; r < is.rows; r++, row += columns + is.gap)
        for (int i = 0; i < columns; i++)
            row[i] = ldexpf(row[i], -random_int(suite, 0, is.spread));
    return left;
}

/* What each number on the left may be off by, as part of the largest of its row: weights of integers on every table, and
 * whatever meets integers on an approximate one, which is named after its limbs. */
static double fixed_point(const struct leaf_table *table, enum leaf_type type, bool weights)
{
    if (type != LEAF_I8 && type != LEAF_I4)
        return 0;
    if (table->approximate)
        return 0.51 / limb_top(table->name[strlen(table->name) - 1] - '0');
    return weights ? 0x1p-30 : 0;
}

static void check_qk_shape(struct suite *suite, enum leaf_type type, struct shape is)
{
    leaf_qk *qk = is.many ? suite->table->qk_many[type] : suite->table->qk[type];
    int64_t q_stride = is.channels + is.gap, s_stride = is.keys + is.gap;
    struct leaf_rows left = random_left(suite, is, is.channels);
    struct leaf_rows k = random_rows(suite, &right_memory, type, is.keys, is.channels, is.gap, is.at_end, is.special);
    struct leaf_rows out = random_rows(suite, &out_memory, LEAF_F32, is.rows, is.keys, is.gap, is.at_end, false);
    const float *q = left.data;
    float *s = (float *)(uintptr_t)out.data, *alone = guarded(&alone_memory, sizeof(float), is.at_end);
    float *before = malloc(sizeof(float) * (size_t)(is.rows * is.keys));
    for (int i = 0; i < is.rows * is.keys; i++)
        before[i] = is.accumulate ? s[i / is.keys * s_stride + i % is.keys] : 0.0f;

    qk(q, q_stride, k, s, s_stride, is.rows, is.keys, is.channels, is.accumulate);
    bool close = true, same = true;
    double unit = fixed_point(suite->table, type, false);
    for (int i = 0; i < is.rows * is.keys; i++) {
        int r = i / is.keys, j = i % is.keys;
        double want = before[i], size = fabs(want), largest = 0, sum = 0;
        for (int c = 0; c < is.channels; c++) {
            double key = rows_value(type, k, j, c), product = q[r * q_stride + c] * key;
            want += product, size += fabs(product), sum += fabs(key);
            largest = fmax(largest, fabs((double)q[r * q_stride + c]));
        }
        close &= is_close(s[r * s_stride + j], want, rounding_bound(size, 2 * is.channels + 64) + unit * largest * sum);
        if (is.many && i % 37) /* a sample: each is a tile */
            continue;
        *alone = before[i];
        struct leaf_rows one = {(const char *)k.data + j * k.stride, k.stride, NULL};
        qk(q + r * q_stride, q_stride, one, alone, 1, 1, 1, is.channels, is.accumulate);
        same &=
            memcmp(alone, &s[r * s_stride + j], sizeof *alone) == 0 || (isnan(*alone) && isnan(s[r * s_stride + j]));
    }
    free(before);
    expect(suite, close, "%d x %d x %d: wrong sum", is.rows, is.keys, is.channels);
    expect(suite, same, "%d x %d x %d: other bits beside other rows or keys", is.rows, is.keys, is.channels);
    expect(suite, gaps_untouched(s, s_stride, is.rows, is.keys), "%d x %d x %d: wrote between rows", is.rows, is.keys,
           is.channels);
}

static void check_sv_shape(struct suite *suite, enum leaf_type type, struct shape is)
{
    leaf_sv *sv = is.many ? suite->table->sv_many[type] : suite->table->sv[type];
    int64_t p_stride = is.keys + is.gap, o_stride = is.channels + is.gap;
    struct leaf_rows left = random_left(suite, is, is.keys);
    struct leaf_rows v = random_rows(suite, &right_memory, type, is.keys, is.channels, is.gap, is.at_end, is.special);
    struct leaf_rows out = random_rows(suite, &out_memory, LEAF_F32, is.rows, is.channels, is.gap, is.at_end, false);
    const float *p = left.data;
    size_t row_size = sizeof(float) * (size_t)is.channels;
    float *o = (float *)(uintptr_t)out.data, *alone = guarded(&alone_memory, row_size, is.at_end);
    float *before = calloc((size_t)is.rows, row_size);
    for (int r = 0; r < is.rows && is.accumulate; r++)
        memcpy(before + r * is.channels, o + r * o_stride, row_size);

    sv(p, p_stride, v, o, o_stride, is.rows, is.keys, is.channels, is.accumulate);
    bool close = true, same = true;
    double unit = fixed_point(suite->table, type, true);
    for (int r = 0; r < is.rows; r++) {
        for (int c = 0; c < is.channels; c++) {
            double want = before[r * is.channels + c], size = fabs(want), largest = 0, sum = 0;
            for (int j = 0; j < is.keys; j++) {
                double value = rows_value(type, v, j, c), product = p[r * p_stride + j] * value;
                want += product, size += fabs(product), sum += fabs(value);
                largest = fmax(largest, fabs((double)p[r * p_stride + j]));
            }
            close &= is_close(o[r * o_stride + c], want, rounding_bound(size, 2 * is.keys + 2) + unit * largest * sum);
        }
        if (is.many && r % 5)
            continue;
        memcpy(alone, before + r * is.channels, row_size);
        sv(p + r * p_stride, p_stride, v, alone, 1, 1, is.keys, is.channels, is.accumulate);
        for (int c = 0; c < is.channels; c++)
            same &= memcmp(alone + c, o + r * o_stride + c, sizeof *o) == 0 ||
                    (isnan(alone[c]) && isnan(o[r * o_stride + c]));
    }
    free(before);
    expect(suite, close, "%d x %d x %d: wrong sum", is.rows, is.keys, is.channels);
    expect(suite, same, "%d x %d x %d: other bits beside other rows", is.rows, is.keys, is.channels);
    expect(suite, gaps_untouched(o, o_stride, is.rows, is.channels), "%d x %d x %d: wrote between rows", is.rows,
           is.keys, is.channels);
}

typedef void shape_function(struct suite *suite, enum leaf_type type, struct shape is);

static void check_shapes(struct suite *suite, enum leaf_type type, shape_function *check)
{
    int most = suite->table->row_step + 3;
    for (int channels = 1; channels <= 70; channels++)
        for (int rows = 1; rows <= most; rows += suite->quick ? random_int(suite, 1, 4) : 1)
            check(suite, type, random_shape(suite, rows, channels));
    check(suite, type, (struct shape){.rows = 96, .keys = 128, .channels = 128});
    check(suite, type, (struct shape){.rows = 31, .keys = 300, .channels = 259, .gap = 5, .accumulate = true});
    check(suite, type, (struct shape){.rows = 1, .keys = 1000, .channels = 576, .at_end = true});
}

void check_qk(struct suite *suite, enum leaf_type type)
{
    check_shapes(suite, type, check_qk_shape);
}

void check_sv(struct suite *suite, enum leaf_type type)
{
    check_shapes(suite, type, check_sv_shape);
}

/* Sizes around those of tiles and of blocks of tiles. */
static void check_many(struct suite *suite, enum leaf_type type, shape_function *check)
{
    static const int rows[] = {1, 3, 15, 16, 17, 33, 97}, columns[] = {1, 16, 17, 31, 48, 65};
    static const int terms[] = {1, 7, 16, 31, 32, 33, 64, 70, 128, 130};
    const int step = suite->quick ? 3 : 1;
    for (int i = 0; i < 7 * 6 * 10; i += step == 1 ? 1 : random_int(suite, 1, 2 * step)) {
        struct shape is = random_shape(suite, rows[i % 7], terms[i / 7 % 10]);
        is.keys = columns[i / 70];
        is.many = true;
        check(suite, type, is);
    }
    check(suite, type, (struct shape){.rows = 96, .keys = 128, .channels = 128, .many = true});
    check(suite, type, (struct shape){.rows = 5, .keys = 140, .channels = 520, .at_end = true, .many = true});
}

void check_qk_many(struct suite *suite, enum leaf_type type)
{
    if (suite->table->qk_many[type])
        check_many(suite, type, check_qk_shape);
}

static void check_sv_turned(struct suite *suite, enum leaf_type type, struct shape is)
{
    int keys = is.keys;
    is.keys = is.channels;
    is.channels = keys;
    check_sv_shape(suite, type, is);
}

void check_sv_many(struct suite *suite, enum leaf_type type)
{
    if (suite->table->sv_many[type])
        check_many(suite, type, check_sv_turned);
}

/* ---- dot_i8 --------------------------------------------------------------------------------- */

/* `extreme`: the codes whose products are largest. */
static void check_dot_i8_shape(struct suite *suite, struct shape is, bool extreme)
{
    int64_t q_stride = is.channels + is.gap, s_stride = is.keys + is.gap;
    struct leaf_rows left =
        random_rows(suite, &left_memory, LEAF_I8, is.rows, is.channels, is.gap, is.at_end, is.special);
    struct leaf_rows k = random_rows(suite, &right_memory, LEAF_I8, is.keys, is.channels, is.gap, is.at_end, false);
    if (extreme) {
        memset((void *)(uintptr_t)left.data, -128, (size_t)((is.rows - 1) * q_stride + is.channels));
        memset((void *)(uintptr_t)k.data, -128, (size_t)((is.keys - 1) * q_stride + is.channels));
    }
    int32_t *s = guarded(&out_memory, sizeof *s * (size_t)((is.rows - 1) * s_stride + is.keys), is.at_end);
    suite->table->dot_i8(left.data, q_stride, k, s, s_stride, is.rows, is.keys, is.channels);
    bool exact = true, gaps = true;
    for (int r = 0; r < is.rows; r++) {
        for (int j = 0; j < is.keys; j++) {
            double want = 0;
            for (int c = 0; c < is.channels; c++)
                want += rows_value(LEAF_I8, left, r, c) * rows_value(LEAF_I8, k, j, c);
            exact &= s[r * s_stride + j] == want;
        }
        if (r + 1 < is.rows)
            gaps &= untouched(s + r * s_stride, sizeof *s * (size_t)is.keys, sizeof *s * (size_t)s_stride);
    }
    expect(suite, exact, "%d x %d x %d: wrong sum", is.rows, is.keys, is.channels);
    expect(suite, gaps, "%d x %d x %d: wrote between rows", is.rows, is.keys, is.channels);
}

void check_dot_i8(struct suite *suite, enum leaf_type type)
{
    (void)type;
    for (int channels = 1; channels <= 140; channels++)
        for (int rows = 1; rows <= 11; rows += suite->quick ? random_int(suite, 1, 4) : 1)
            check_dot_i8_shape(suite, random_shape(suite, rows, channels), one_in(suite, 8));
    check_dot_i8_shape(suite, (struct shape){.rows = 8, .keys = 128, .channels = 128}, false);
    check_dot_i8_shape(suite, (struct shape){.rows = 9, .keys = 37, .channels = 1024, .at_end = true}, true);
    check_dot_i8_shape(suite, (struct shape){.rows = 1, .keys = 3, .channels = 131071, .at_end = true}, true);
}
