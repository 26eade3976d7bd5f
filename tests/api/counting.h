/* An allocator of the host that counts, and that can run out of memory. */
#ifndef TESTS_API_COUNTING_H
#define TESTS_API_COUNTING_H

#include "tandem.h"

/* Counts, and fails from the fail_at-th allocation on; fail_at 0: never. */
struct counting {
    int calls, live, fail_at;
    int misaligned, null_frees;
};

tdm_allocator counting_allocator(struct counting *counting);

#endif
