/* One tile of query rows over a range of keys: the online softmax, block of keys by block of keys. */
#ifndef CPU_GQA_TILE_H
#define CPU_GQA_TILE_H

#include "gqa.h"

enum {
    TILE_ROWS = 96,  /* query rows of a tile: a multiple of every leaf's row_step                        */
    KEY_BLOCK = 128, /* keys of a block: scores, queries and one panel of 128 channels stay inside 256 KB */
};

/* Scratch of one tile. */
struct tile_layout {
    int64_t q_stride, s_stride, o_stride, k_stride, v_stride;
    size_t q, s, o, m, l, panel, size;
};
struct tile_layout tile_lay_out(const tdm_gqa_desc *desc);

struct tile {
    const struct gqa *g;
    int64_t batch, head, first; /* the first row */
    int rows;
    bool packed; /* enough rows to widen each block once and multiply matrices */
    struct head_rows k, v;
    struct tile_layout layout;
    float *q, *s, *o, *m, *l, *panel;
};

struct tile tile_open(const struct gqa *g, int64_t batch, int64_t head, int64_t first, int rows, void *scratch);

/* Fill o, m and l for the keys of `span`: o unnormalised, m = -infinity and l = 0 where a row sees none. */
void tile_attend(struct tile *tile, struct span span);

#endif
