/* What the parts of gqa's reference share: everything in double, one query row at a time. */
#ifndef TESTS_REFERENCE_GQA_ROW_H
#define TESTS_REFERENCE_GQA_ROW_H

#include "prepare.h"
#include "reference.h"

/* One cache tensor in full, [batch, kv_heads, capacity, channels]: what is stored, and the scale of each element. */
struct plane {
    double *stored, *scale;
    int64_t heads, rows, channels, groups;
};

struct plane plane_new(const tdm_tensor *tensor, const void *data, const float *scale);
void plane_free(struct plane *plane);
int64_t plane_index(const struct plane *plane, int64_t b, int64_t h, int64_t r);

/* What all rows share. */
struct attention {
    const tdm_gqa_desc *desc;
    const tdm_gqa_args *args;
    struct plane k, v;
    double *q; /* as it is given, dense */
    double scale;
    struct gqa_expected expected;
};

/* One query row: its visible keys, and for each of them what is known so far. */
struct row {
    int64_t b, h, i, kv_head, at; /* at: [b, h, i]                                           */
    struct uncertain q, plain;    /* ready for stored keys; plain: before the rotation       */
    double shift, shift_error;    /* what the offset of the keys adds to each score          */
    int64_t *key, keys;
    double *score, *error;         /* s and the bound on its error                            */
    double *weight, *weight_error; /* p = exp(s - maximum) and the bound on its error         */
    double maximum, spread;        /* the largest s, and how much larger a computed one may be */
    double total, drift;           /* the denominator, and the bound on its relative error    */
    struct uncertain out;
};

/* The visible keys of the row, their scores and errors: sections "Queries" and "Scores". */
void score_row(const struct attention *a, struct row *row);

#endif
