/* Integer scores of a tile, and its values in units of their largest scale: what int8_decode has for f32 scores.
 *
 *   code = clamp(round half to even(q / scale)), scale = absmax(q) / 127;   s[j] = (code . key[j]) * scale * k_scale[j]
 *
 * In units of the largest scale, equal scores and equal scales weigh exactly 1 each: the sum is that of the integers,
 * divided once by their number and scaled once. */
#include "gqa_tile.h"

#include <math.h>
#include <string.h>

/* ---- scores ------------------------------------------------------------------------- */

/* Returns the scale. A NaN or an infinity makes it one, and so every score of the query NaN. */
static float quantize(const struct leaf_table *leaf, float *q, int8_t *codes, int64_t n)
{
    float scale = leaf->absmax(q, n) / 127.0f, one = 1;
    if (scale == 0) {
        memset(codes, 0, (size_t)n);
        return 0;
    }
    for (int64_t c = 0; c < n; c++)
        q[c] /= scale;
    leaf->to_i8(q, &one, false, codes, (int)n);
    return scale;
}

void tile_quantize_queries(struct tile *t)
{
    for (int r = 0; r < t->rows; r++)
        t->code_scale[r] = quantize(t->g->leaf, t->q + r * t->layout.q_stride, t->codes + r * t->g->k_dim, t->g->k_dim);
}

/* The dots lie where the scores will. */
void tile_integer_scores(struct tile *t, struct keys keys, float *s)
{
    struct leaf_rows k = {at(t->k.data, keys.row * t->k.stride), t->k.stride, NULL};
    int32_t *dots = (int32_t *)s;
    t->g->leaf->dot_i8(t->codes, t->g->k_dim, k, dots, t->layout.s_stride, t->rows, keys.n, (int)t->g->k_dim);
    for (int r = 0; r < t->rows; r++, s += t->layout.s_stride, dots += t->layout.s_stride)
        for (int j = 0; j < keys.n; j++)
            s[j] = (float)dots[j] * t->code_scale[r]; /* at most 1024 products of 2^14: exact in f32 */
}

/* ---- values ------------------------------------------------------------------------- */

/* The largest scale of the keys that are not masked; a NaN among them does not count: it makes its value NaN. */
static float largest_scale(const float *scale, const float *s, int n)
{
    float largest = 0;
    for (int j = 0; j < n; j++)
        if (s[j] != -INFINITY && fabsf(scale[j]) > largest)
            largest = fabsf(scale[j]);
    return largest;
}

const float *tile_relative_scales(struct tile *t, int r, struct keys keys, struct span see, bool all_seen,
                                  const float *s, float *shrink)
{
    const float *scale = t->v.scale + keys.row + see.first;
    int n = see.end - see.first;
    float before = t->unit[r], largest = all_seen ? t->g->leaf->absmax(scale, n) : NAN;
    if (isnan(largest))
        largest = largest_scale(scale, s, n);
    if (largest > before) {
        t->unit[r] = largest;
        *shrink = before / largest;
    }
    bool known = all_seen && r > 0 && t->unit[r] == t->unit[r - 1]; /* as the row before left them */
    for (int j = 0; j < n && !known; j++)
        t->relative[j] = t->unit[r] > 0 ? scale[j] / t->unit[r] : scale[j];
    return t->relative;
}
