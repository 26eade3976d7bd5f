/* The CPU backend's state and what its ops share. */
#ifndef CPU_CPU_H
#define CPU_CPU_H

#include "common/backend.h"
#include "isa.h"

enum { CPU_MAX_LEAVES = 16 };

struct cpu_leaf {
    struct leaf_table table; /* every slot filled */
    bool usable;
    char reason[REASON_SIZE];
};

struct cpu_state {
    const struct services *services;
    struct cpu_machine machine;
    int leaf_count;
    struct cpu_leaf leaves[CPU_MAX_LEAVES]; /* best first */
};

/* The leaf table a run of these lengths uses. */
const struct leaf_table *cpu_leaf_for(const struct tdm_op *op, const tdm_lengths *lengths);

/* Run `task`, which calls the leaves of this table, for i in [0, n) on the pool. */
void cpu_parallel_for(const struct tdm_op *op, const struct leaf_table *leaf, int64_t n, tdm_task task, void *arg);

/* The leaf for so many rows on what is stored, NULL where it pays to widen it first. `group`: channels that share a scale,
 * 0 for all of them. */
leaf_qk *cpu_qk_of(const struct leaf_table *leaf, enum leaf_type type, int rows, int64_t group);
leaf_sv *cpu_sv_of(const struct leaf_table *leaf, enum leaf_type type, int rows, int64_t group);

/* Row [batch, head, row] of a settled rank-4 tensor; dimensions of 1 are broadcast. */
void *cpu_row(const tdm_tensor *tensor, const void *data, int64_t batch, int64_t head, int64_t row);

/* How leaves name a stored type. */
enum leaf_type cpu_leaf_type(tdm_dtype dtype);

/* n floats rounded to dtype (f32, f16 or bf16) at out. */
void cpu_narrow(const struct leaf_table *leaf, const float *x, tdm_dtype dtype, void *out, int64_t n);

/* Row stride, in floats, of a matrix of n columns in scratch: whole cache lines and an odd number of them, so
 * that a column's rows spread over all sets of a cache. */
static inline int64_t padded(int64_t n)
{
    return ((n + 15) & ~(int64_t)15) | 16;
}

/* Parts of a workspace, laid out one behind the other on cache lines. `size` is SIZE_MAX after an overflow. */
struct layout {
    size_t size;
};

/* Offset of count elements of `element` bytes. */
size_t layout_add(struct layout *layout, int64_t count, size_t element);

static inline void *at(const void *base, int64_t bytes)
{
    return (char *)base + bytes;
}

static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#endif
