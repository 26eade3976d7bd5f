#include "compare.h"

#include "formats.h"
#include "tensor.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[256];

struct expected expected_new(int64_t n)
{
    size_t count = (size_t)n + 1;
    return (struct expected){calloc(count, sizeof(double)), calloc(count, sizeof(double))};
}

void expected_free(struct expected *expected)
{
    free(expected->value);
    free(expected->bound);
    *expected = (struct expected){0};
}

static bool acceptable(tdm_dtype dtype, double got, double want, double bound)
{
    if (isnan(want))
        return isnan(got);
    if (isinf(want))
        return got == want;
    if (!(bound < INFINITY)) /* such a bound accepts everything: the test's magnitudes are wrong */
        return false;
    return format_round(dtype, want - bound) <= got && got <= format_round(dtype, want + bound);
}

const char *compare_tensor(const tdm_tensor *tensor, const void *data, const struct expected *expected,
                           const int32_t *rows)
{
    int64_t heads = tensor_dim(tensor, 2), max_rows = tensor_dim(tensor, 1), channels = tensor_dim(tensor, 0);
    for (int64_t b = 0; b < tensor_dim(tensor, 3); b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t r = 0; r < (rows ? rows[b] : max_rows); r++) {
                const void *row = tensor_row(tensor, data, b, h, r);
                for (int64_t c = 0; c < channels; c++) {
                    int64_t i = ((b * heads + h) * max_rows + r) * channels + c;
                    double got = format_decode(tensor->dtype, row, c), want = expected->value[i];
                    if (acceptable(tensor->dtype, got, want, expected->bound[i]))
                        continue;
                    snprintf(text, sizeof text, "[%d, %d, %d, %d]: got %.9g, want %.9g within %.3g (off by %.3g)",
                             (int)b, (int)h, (int)r, (int)c, got, want, expected->bound[i], fabs(got - want));
                    return text;
                }
            }
    return NULL;
}

const char *compare_bytes(const char *what, const void *got, const void *want, size_t bytes)
{
    const unsigned char *a = got, *b = want;
    for (size_t i = 0; i < bytes; i++)
        if (a[i] != b[i]) {
            snprintf(text, sizeof text, "%s: byte %zu of %zu: got 0x%02x, want 0x%02x", what, i, bytes, a[i], b[i]);
            return text;
        }
    return NULL;
}

const char *compare_memory(const tdm_tensor *tensor, const void *got, const void *want)
{
    size_t bytes = (size_t)tensor_bytes(tensor), size = (size_t)format_bytes(tensor->dtype, 1);
    char *adjusted = malloc(bytes + 1);
    memcpy(adjusted, want, bytes);
    for (int64_t b = 0; !is_quantized(tensor->dtype) && b < tensor_dim(tensor, 3); b++)
        for (int64_t h = 0; h < tensor_dim(tensor, 2); h++)
            for (int64_t r = 0; r < tensor_dim(tensor, 1); r++)
                for (int64_t c = 0; c < tensor_dim(tensor, 0); c++) {
                    char *x = (char *)tensor_row(tensor, got, b, h, r) + (size_t)c * size;
                    char *y = (char *)tensor_row(tensor, adjusted, b, h, r) + (size_t)c * size;
                    if (isnan(format_decode(tensor->dtype, x, 0)) && isnan(format_decode(tensor->dtype, y, 0)))
                        memcpy(y, x, size);
                }
    const char *bad = compare_bytes(format_name(tensor->dtype), got, adjusted, bytes);
    free(adjusted);
    return bad;
}

const char *compare_untouched(const tdm_tensor *tensor, const void *data, const int32_t *rows, int fill)
{
    size_t bytes = (size_t)tensor_bytes(tensor);
    size_t row_bytes = (size_t)format_bytes(tensor->dtype, tensor_dim(tensor, 0));
    if (bytes == 0)
        return NULL;
    char *rest = malloc(bytes + 1), *want = malloc(bytes + 1);
    if (bytes)
        memcpy(rest, data, bytes); /* no bytes, no memory: data may be NULL */
    memset(want, fill, bytes);
    for (int64_t b = 0; b < tensor_dim(tensor, 3); b++)
        for (int64_t h = 0; h < tensor_dim(tensor, 2); h++)
            for (int64_t r = 0; r < (rows ? rows[b] : tensor_dim(tensor, 1)); r++)
                memset(tensor_row(tensor, rest, b, h, r), fill, row_bytes);
    const char *bad = compare_bytes("a byte that is no result", rest, want, bytes);
    free(rest);
    free(want);
    return bad;
}
