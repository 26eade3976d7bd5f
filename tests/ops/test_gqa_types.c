/* gqa with every pair of cache types and scalings, and every type of activation. */
#include "gqa_problem.h"
#include "indices.h"
#include "types.h"

static void check_pairs(const struct gqa_shape *shape, int k, tdm_dtype dtype)
{
    for (int v = 0; v < COUNT(stored_types); v++) {
        struct gqa_setup setup = {
            .shape = shape,
            .cache = {stored_types[k].dtype, stored_types[k].scaling, stored_types[v].dtype, stored_types[v].scaling},
            .k_group = stored_types[k].group,
            .v_group = stored_types[v].group,
            .dtype = dtype,
            .interleaved = (k + v) % 2,
            .seed = (uint64_t)(k * 32 + v)};
        EXPECT_NONE(gqa_problem_check(&setup), gqa_problem_label(&setup));
    }
}

/* An odd head size, so that i4 rows end in half a byte, and enough rows for both ways of calling a leaf. */
TEST_EACH(gqa_types, pairs, COUNT(stored_types) * COUNT(float_types))
{
    static const struct gqa_shape chunk = {"chunk", 0, 2, 4, 2, 41, 35, 21, 70, -1, 0, true};
    static const struct gqa_shape decode = {"decode", 0, 2, 4, 2, 64, 64, 1, 70, -1, 0, true};
    check_pairs(&chunk, *at / COUNT(float_types), float_types[*at % COUNT(float_types)]);
    check_pairs(&decode, *at / COUNT(float_types), float_types[*at % COUNT(float_types)]);
}
