/* A Criterion case for each index in [0, count). Criterion runs every case in a process of its own that it
 * starts again, so that a case is named by a number and never by a pointer. */
#ifndef TESTS_OPS_INDICES_H
#define TESTS_OPS_INDICES_H

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

enum { MAX_INDICES = 256 };

static inline struct criterion_test_params indices(int count)
{
    static int index[MAX_INDICES];
    for (int i = 0; i < MAX_INDICES; i++)
        index[i] = i;
    return cr_make_param_array(int, index, (size_t)(count < MAX_INDICES ? count : MAX_INDICES));
}

#define TEST_EACH(suite, name, count)        \
    ParameterizedTestParameters(suite, name) \
    {                                        \
        return indices(count);               \
    }                                        \
    ParameterizedTest(const int *at, suite, name)

/* A check that gives NULL or a text. */
#define EXPECT_NONE(bad, label)                    \
    do {                                           \
        const char *bad_ = (bad);                  \
        cr_expect(!bad_, "%s: %s", (label), bad_); \
    } while (0)

#endif
