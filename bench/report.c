#include "report.h"

#include "json.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

enum needs { ALWAYS, WITH_CHECK, WITH_PEAK, ON_DEVICE };

static const struct column {
    const char *name;
    size_t offset;
    enum { ARRAY, POINTER, NUMBER } kind;
    int width;          /* in the table; texts are flush left */
    const char *format; /* of a number                        */
    enum needs needs;
} columns[] = {
    {"op", offsetof(struct result, op), POINTER, 12, NULL, ALWAYS},
    {"shape", offsetof(struct result, shape), ARRAY, 31, NULL, ALWAYS},
    {"dtypes", offsetof(struct result, dtypes), ARRAY, 36, NULL, ALWAYS},
    {"threads", offsetof(struct result, threads), NUMBER, 7, "%.0f", ALWAYS},
    {"impl", offsetof(struct result, impl), POINTER, 14, NULL, ALWAYS},
    {"leaf", offsetof(struct result, leaf), POINTER, 10, NULL, ALWAYS},
    {"copies", offsetof(struct result, copies), NUMBER, 6, "%.0f", ALWAYS},
    {"repeats", offsetof(struct result, repeats), NUMBER, 7, "%.0f", ALWAYS},
    {"median_us", offsetof(struct result, median_us), NUMBER, 11, "%.2f", ALWAYS},
    {"p10_us", offsetof(struct result, p10_us), NUMBER, 11, "%.2f", ALWAYS},
    {"p90_us", offsetof(struct result, p90_us), NUMBER, 11, "%.2f", ALWAYS},
    {"min_us", offsetof(struct result, min_us), NUMBER, 11, "%.2f", ALWAYS},
    {"gb_per_s", offsetof(struct result, gb_per_s), NUMBER, 9, "%.4g", ALWAYS},
    {"gflop_per_s", offsetof(struct result, gflop_per_s), NUMBER, 11, "%.4g", ALWAYS},
    {"error", offsetof(struct result, error), NUMBER, 9, "%.2e", WITH_CHECK},
    {"peak_gb_per_s", offsetof(struct result, peak_gb_per_s), NUMBER, 13, "%.4g", WITH_PEAK},
    {"peak_gflop_per_s", offsetof(struct result, peak_gflop_per_s), NUMBER, 16, "%.4g", WITH_PEAK},
    {"share", offsetof(struct result, share), NUMBER, 9, "%.3g", WITH_PEAK},
    {"timing", offsetof(struct result, timing), POINTER, 6, NULL, ON_DEVICE},
    {"copy_gb_per_s", offsetof(struct result, copy_gb_per_s), NUMBER, 13, "%.4g", ON_DEVICE},
    {"copy_share", offsetof(struct result, copy_share), NUMBER, 10, "%.3g", ON_DEVICE},
    {"vendor_us", offsetof(struct result, vendor_us), NUMBER, 11, "%.2f", ON_DEVICE},
    {"device", offsetof(struct result, device), ARRAY, 12, NULL, ON_DEVICE},
};

#define COLUMNS (sizeof columns / sizeof columns[0])

static bool shown(const struct report *report, const struct column *column)
{
    const bool wanted[] = {
        [ALWAYS] = true, [WITH_CHECK] = report->check, [WITH_PEAK] = report->peak, [ON_DEVICE] = report->device};
    return wanted[column->needs];
}

static const char *text_of(const struct result *result, const struct column *column)
{
    const char *place = (const char *)result + column->offset;
    return column->kind == ARRAY ? place : *(const char *const *)place;
}

static double number_of(const struct result *result, const struct column *column)
{
    return *(const double *)((const char *)result + column->offset);
}

/* A cell's text; a number that was not measured is `missing`. */
static const char *cell_of(const struct result *result, const struct column *column, const char *missing,
                           char text[LABEL_SIZE])
{
    if (column->kind != NUMBER)
        return text_of(result, column);
    double number = number_of(result, column);
    if (isnan(number))
        return missing;
    snprintf(text, LABEL_SIZE, column->format, number);
    return text;
}

static void table_row(const struct report *report, const struct result *result)
{
    for (const struct column *column = columns; column < columns + COLUMNS; column++) {
        char text[LABEL_SIZE];
        if (!shown(report, column))
            continue;
        printf("%s%*s", column == columns ? "" : "  ", column->kind == NUMBER ? column->width : -column->width,
               result ? cell_of(result, column, "-", text) : column->name);
    }
    printf("\n");
}

/* No text of ours holds a comma or a quote. */
static void csv_row(const struct report *report, const struct result *result)
{
    for (const struct column *column = columns; column < columns + COLUMNS; column++) {
        char text[LABEL_SIZE];
        if (!shown(report, column))
            continue;
        printf("%s%s", column == columns ? "" : ",", result ? cell_of(result, column, "", text) : column->name);
    }
    printf("\n");
}

static void json_row(const struct report *report, const struct result *result)
{
    printf("{");
    for (const struct column *column = columns; column < columns + COLUMNS; column++) {
        char text[LABEL_SIZE];
        if (!shown(report, column))
            continue;
        printf("%s\"%s\": ", column == columns ? "" : ", ", column->name);
        if (column->kind == NUMBER)
            printf("%s", cell_of(result, column, "null", text));
        else
            json_string(text_of(result, column));
    }
    printf("}\n");
}

void report_row(struct report *report, const struct result *result)
{
    static void (*const row[])(const struct report *, const struct result *) = {table_row, csv_row, json_row};
    if (report->rows == 0 && report->format != REPORT_JSON)
        row[report->format](report, NULL);
    row[report->format](report, result);
    report->rows++;
    fflush(stdout);
}
