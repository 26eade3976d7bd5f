/* gqa with every pair of cache types and scalings, and every type of activation. */
#include "gqa_problem.h"
#include "indices.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static const struct {
    tdm_dtype dtype;
    tdm_scaling scaling;
} stored[] = {
    {TDM_F32, TDM_UNSCALED},    {TDM_F16, TDM_UNSCALED},  {TDM_BF16, TDM_UNSCALED},
    {TDM_I8, TDM_PER_TENSOR},   {TDM_I8, TDM_PER_CHANNEL}, {TDM_I8, TDM_PER_TOKEN},
    {TDM_I4, TDM_PER_TENSOR},   {TDM_I4, TDM_PER_CHANNEL}, {TDM_I4, TDM_PER_TOKEN},
};
static const tdm_dtype dtypes[] = {TDM_F32, TDM_F16, TDM_BF16};

static void check_pairs(const struct gqa_shape *shape, int k, tdm_dtype dtype)
{
    for (int v = 0; v < COUNT(stored); v++) {
        struct gqa_setup setup = {.shape = shape,
                                  .cache = {stored[k].dtype, stored[k].scaling, stored[v].dtype, stored[v].scaling},
                                  .dtype = dtype,
                                  .interleaved = (k + v) % 2,
                                  .seed = (uint64_t)(k * 16 + v)};
        EXPECT_NONE(gqa_problem_check(&setup), gqa_problem_label(&setup));
    }
}

/* An odd head size, so that i4 rows end in half a byte, and enough rows for both ways of calling a leaf. */
TEST_EACH(gqa_types, pairs, COUNT(stored) * COUNT(dtypes))
{
    static const struct gqa_shape chunk = {"chunk", 0, 2, 4, 2, 41, 35, 21, 70, -1, 0, true};
    static const struct gqa_shape decode = {"decode", 0, 2, 4, 2, 64, 64, 1, 70, -1, 0, true};
    check_pairs(&chunk, *at / COUNT(dtypes), dtypes[*at % COUNT(dtypes)]);
    check_pairs(&decode, *at / COUNT(dtypes), dtypes[*at % COUNT(dtypes)]);
}
