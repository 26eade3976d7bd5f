/* One tile of query rows over blocks of keys: the two products, what stands between them, and the online softmax. */
#ifndef CPU_GQA_TILE_H
#define CPU_GQA_TILE_H

#include "gqa_view.h"

enum {
    TILE_ROWS = 192, /* query rows of a tile: a multiple of every leaf's row_step                       */
    KEY_BLOCK = 128, /* keys of a block: all scratch of a tile with 128 channels stays inside 448 KB     */
};

/* Scratch of one tile. */
struct tile_layout {
    int64_t q_stride, s_stride, o_stride, k_stride, v_stride;
    size_t q, s, o, m, l, unit, shift, views, panel, part, extra, scales, codes, code_scale, relative, size;
};

/* For so many rows, and scores of so many keys at once. */
struct tile_layout tile_lay_out(const tdm_gqa_desc *desc, int64_t rows, int64_t keys);

struct tile {
    const struct gqa *g;
    int64_t batch, head, first; /* the first row */
    int rows;
    leaf_qk *qk; /* on what is stored; NULL: widen each block once and multiply matrices */
    leaf_sv *sv;
    struct head_rows k, v;
    struct tile_layout layout;
    struct view view;             /* of all rows                                   */
    struct view *views;           /* of each token                                 */
    float *q, *s, *o, *m, *l;     /* queries, scores, output and softmax state     */
    float *unit;                  /* what a 1 in a row of o stands for             */
    float *shift;                 /* q . k_offset of each row                      */
    float *panel;                 /* a block of keys or values, widened            */
    float *part, *extra, *scales; /* scores of a group; a mask row; group scales   */
    int8_t *codes;                /* int8_decode: the queries as integers ...      */
    float *code_scale;            /* ... and what they are multiples of            */
    float *relative;              /* int8_decode: V scales of a block in units     */
};

struct tile tile_open(const struct gqa *g, int64_t batch, int64_t head, int64_t first, int rows,
                      struct tile_layout layout, void *scratch);

/* Part of the keys, counted from the first. */
struct span {
    int first, end;
};

/* Whether every row sees all of the keys for certain. */
bool tile_sees_all(const struct tile *tile, struct keys keys);

/* The part of the keys outside which row r sees none. */
struct span tile_span(const struct tile *tile, int r, struct keys keys);

/* s = q . k for the keys, a row each s_stride floats; those outside a row's span may stay as they were. */
void tile_scores(struct tile *tile, struct keys keys, float *s, bool all_seen);

/* Make the scores s of row r for the keys in `see` what the softmax leaf takes: capped, with all that is added,
 * -infinity where masked. Returns the K scales with which the leaf has yet to multiply, or NULL. */
const float *tile_edit(struct tile *tile, int r, struct keys keys, struct span see, float *s);

/* The same with nothing left to do, the shift included. */
void tile_finish_scores(struct tile *tile, int r, struct keys keys, struct span see, float *s);

/* o (+)= p v for the keys; p lies in s, 0 where a row does not see a key. */
void tile_values(struct tile *tile, struct keys keys, const float *s, bool all_seen, bool accumulate);

/* Fill o, m and l for the view's indices [index, end): o unnormalised, m = -infinity and l = 0 for a row without
 * keys. */
void tile_attend(struct tile *tile, int64_t index, int64_t end);

/* int8_decode: make the prepared queries integers. */
void tile_quantize_queries(struct tile *tile);

/* int8_decode: tile_scores of those. */
void tile_integer_scores(struct tile *tile, struct keys keys, float *s);

/* int8_decode: the V scales of the keys in `see` in units of row r, which grows to their largest; s tells masked keys.
 * *shrink becomes the factor that makes the new unit of what o holds. */
const float *tile_relative_scales(struct tile *tile, int r, struct keys keys, struct span see, bool all_seen,
                                  const float *s, float *shrink);

/* Write the rows' captured scores, given the finished log-sum-exp in m. */
void tile_capture(struct tile *tile);

#endif
