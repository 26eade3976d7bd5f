/* qk and sv on data that is hard on them, where a table has another way than f32: its error is at most 1.25 times that
 * of its base's leaf, root mean square and largest over all outputs of a case. */
#include "cpu/isa.h"
#include "stored.h"

enum { ROWS = 24, KEYS = 128, CHANNELS = 128 };

/* The numbers on the left: a row of queries or of probabilities. */
static float gaussian(struct suite *suite)
{
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += random_float(suite, 0.5f);
    return (float)sum;
}

static float plain(struct suite *suite, int i)
{
    (void)i;
    return gaussian(suite);
}

static float one_huge(struct suite *suite, int i)
{
    return gaussian(suite) * (i == 5 ? 4096 : 1);
}

static float some_huge(struct suite *suite, int i)
{
    return gaussian(suite) * (i % 16 == 5 ? 65536 : 1);
}

static float flat(struct suite *suite, int i)
{
    (void)i;
    return expf(gaussian(suite) - 3);
}

static float peaked(struct suite *suite, int i)
{
    (void)i;
    return expf(3 * gaussian(suite) - 9);
}

static float peak_last(struct suite *suite, int i)
{
    return i == KEYS - 1 ? 1 : expf(2 * gaussian(suite) - 9);
}

static float peak_first(struct suite *suite, int i)
{
    return i == 0 ? 1 : expf(2 * gaussian(suite) - 9);
}

static float long_tail(struct suite *suite, int i)
{
    return expf(-0.3f * (float)i) * (1 + random_float(suite, 0.5f));
}

static float mixed_scales(struct suite *suite, int i)
{
    return expf(gaussian(suite)) * (i % 3 ? 1e-3f : i % 2 ? -1e3f : 1);
}

static const struct {
    const char *name;
    float (*number)(struct suite *suite, int i);
    bool hidden; /* what is stored beside the numbers 0 and 5, 21, .. is 0 */
} cases[] = {
    {"plain", plain, false},
    {"one huge", one_huge, false},
    {"one huge beside 0", one_huge, true},
    {"some huge", some_huge, false},
    {"some huge beside 0", some_huge, true},
    {"flat", flat, false},
    {"peaked", peaked, false},
    {"peak last", peak_last, false},
    {"peak first", peak_first, false},
    {"peak beside 0", peak_first, true},
    {"long tail", long_tail, false},
    {"mixed scales", mixed_scales, false},
};

struct error {
    double squares, largest;
};

static void add_error(struct error *error, double got, double want)
{
    double off = fabs(got - want);
    error->squares += off * off;
    error->largest = fmax(error->largest, off);
}

/* Errors of one leaf; `turned`: the terms are rows of x. */
static struct error measure(void (*leaf)(const float *, int64_t, struct leaf_rows, float *, int64_t, int, int, int,
                                         bool),
                            const float *a, enum leaf_type type, struct leaf_rows x, bool turned)
{
    static float out[ROWS * KEYS];
    struct error error = {0, 0};
    leaf(a, KEYS, x, out, KEYS, ROWS, KEYS, CHANNELS, false);
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < KEYS; j++) {
            double want = 0;
            for (int c = 0; c < CHANNELS; c++)
                want += a[r * KEYS + c] * (turned ? rows_value(type, x, c, j) : rows_value(type, x, j, c));
            add_error(&error, out[r * KEYS + j], want);
        }
    return error;
}

static void clear(enum leaf_type type, char *row, int i)
{
    if (type == LEAF_I8)
        row[i] = 0;
    else
        row[i / 2] = (char)(i % 2 ? (row[i / 2] & 0x0f) | 0x80 : (row[i / 2] & 0xf0) | 0x08);
}

void check_error(struct suite *suite, enum leaf_type type)
{
    static struct guard memory;
    static float a[ROWS * KEYS];
    if (!suite->table->base || suite->table->approximate)
        return;
    struct leaf_table base = cpu_leaf_resolve(suite->table->base);
    bool integer = type == LEAF_I8 || type == LEAF_I4;
    if (!integer || suite->table->qk[LEAF_F32] != base.qk[LEAF_F32]) /* f32 sums, if in another order */
        return;
    for (size_t n = 0; n < 2 * sizeof cases / sizeof *cases; n++) {
        bool turned = n % 2;
        for (int i = 0; i < ROWS * KEYS; i++)
            a[i] = cases[n / 2].number(suite, i % KEYS);
        struct leaf_rows x = random_rows(suite, &memory, type, KEYS, CHANNELS, 0, true, false);
        for (int j = 0; j < KEYS && cases[n / 2].hidden; j++)
            for (int c = 0; c < CHANNELS; c++) {
                int term = turned ? j : c;
                if (term == 0 || term % 16 == 5)
                    clear(type, (char *)(uintptr_t)x.data + j * x.stride, c);
            }
        struct error got = measure(turned ? suite->table->sv[type] : suite->table->qk[type], a, type, x, turned);
        struct error its = measure(turned ? base.sv[type] : base.qk[type], a, type, x, turned);
        double rms = sqrt(got.squares / its.squares), largest = got.largest / its.largest;
        expect(suite, rms <= 1.25 && largest <= 1.25, "%s %s: errors of %.2f (rms) and %.2f (largest) times the base's",
               turned ? "sv" : "qk", cases[n / 2].name, rms, largest);
    }
}
