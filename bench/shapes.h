/* The shapes that ops are tested and measured on: one table for both, so that nothing is measured untested. */
#ifndef BENCH_SHAPES_H
#define BENCH_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

/* Where a shape is used. */
enum suite {
    SUITE_TESTS = 1 << 0,   /* small enough for a reference in double            */
    SUITE_SMOKE = 1 << 1,   /* a second or two in all: does measuring work?      */
    SUITE_DECODE = 1 << 2,  /* one or a few new tokens                           */
    SUITE_PREFILL = 1 << 3, /* many new tokens                                   */
    SUITE_CLIFFS = 1 << 4,  /* neighbours, to be about as fast as each other    */
    SUITE_GPU = 1 << 5      /* of its suites on GPUs alone: too many for a CPU  */
};

/* Attention over a cache, and the append that goes before it: the last q_len of kv_len tokens are new. */
struct gqa_shape {
    const char *name;
    unsigned suites;
    int64_t batch, q_heads, kv_heads, head_dim, v_head_dim;
    int64_t q_len, kv_len; /* of the longest sequence         */
    int32_t window_left, window_right;
    enum { EQUAL, RAGGED, ONE_LONG } lengths; /* of the sequences: gqa_shape_lengths */
};

struct fp8_shape {
    const char *name;
    unsigned suites;
    int64_t m, n, k;
    int64_t block_n, block_k; /* rows and channels of the weight that share a scale */
};

extern const struct gqa_shape gqa_shapes[];
extern const int gqa_shape_count;
extern const struct fp8_shape fp8_shapes[];
extern const int fp8_shape_count;

/* The lengths of sequence b, 0 <= *q_len <= *kv_len. Of a ragged batch, the first is the longest, the second
 * has one token, the third none, and the others get shorter and shorter. Beside one long sequence, all others have
 * up to 128 tokens. */
void gqa_shape_lengths(const struct gqa_shape *shape, int64_t b, int32_t *q_len, int32_t *kv_len);

#endif
