/* What a backend is to the common layer: rows of implementations and a few functions for its devices. A
 * backend built as a plugin sees nothing else of the library; it reaches the rest through `services`. */
#ifndef COMMON_BACKEND_H
#define COMMON_BACKEND_H

#include "tandem.h"

#include <stdbool.h>

#define BACKEND_ABI 3     /* changes with any struct of this header */
#define REASON_SIZE 256   /* bytes of a "why not" text              */
#define MAX_HEAD_DIM 1024 /* channels of a cache row                */
#define MAX_IMPLS 16      /* rows of one op in one backend          */
#define MAX_MERGED 1024   /* parts of one merge_states              */

enum op_kind {
    OP_KV_APPEND,
    OP_KV_SHIFT,
    OP_GQA,
    OP_MERGE_STATES,
    OP_QK,
    OP_SV,
    OP_FP8_MATMUL,
    OP_QUANTIZE,
    OP_DEQUANTIZE,
    OP_KINDS
};

/* A validated desc: every tensor has rank 4 (fp8_matmul: rank 2) and explicit strides, defaults are filled in. */
union op_desc {
    tdm_kv_append_desc kv_append;
    tdm_kv_shift_desc kv_shift;
    tdm_gqa_desc gqa;
    tdm_merge_states_desc merge_states;
    tdm_product_desc product;
    tdm_fp8_matmul_desc fp8_matmul;
    tdm_convert_desc convert;
};

/* What the library offers a backend. All of it may be called from any thread. */
struct services {
    void *ctx;
    int threads; /* workers that parallel_for may number */
    /* Run task for i in [0, n) on the pool, or serially when the pool is busy. */
    void (*parallel_for)(void *ctx, int64_t n, tdm_task task, void *arg);
    void *(*alloc)(void *ctx, size_t bytes); /* 64-byte aligned, NULL when there is none */
    void (*free)(void *ctx, void *pointer);
    void (*log)(void *ctx, tdm_log_level level, const char *format, ...);
    /* Set this thread's error text and return status. */
    tdm_status (*fail)(tdm_status status, const char *format, ...);
    /* Whether the environment leaves this row out, or it is approximate and nothing lets it in. */
    bool (*left_out)(void *ctx, const char *row, bool approximate, char *reason);
    /* How many of the leaf rows, best first and ended by NULL, CA_CPU_ISA takes away. */
    int (*demoted)(void *ctx, const char *const *rows, char *reason);
};

struct tdm_op {
    tdm_ctx *ctx;
    const struct backend *backend;
    void *state; /* the backend's */
    const struct services *services;
    tdm_device device;
    enum op_kind kind;
    union op_desc desc;
    int impl_count;
    const struct impl *impls[MAX_IMPLS]; /* those that fit, in table order */
    size_t workspace;                    /* bytes that the hungriest of them needs */
};

/* One run: what changes from call to call. args is the public args struct of the op's kind. */
struct run {
    const void *args;
    tdm_lengths lengths;
    void *scratch; /* what scratch_open gave; without one op->workspace bytes, 64-byte aligned, NULL when that is 0 */
    void *stream;
};

/* Queues of a device whose work is not done when a call returns. The handles are the backend's; all work on the
 * device `index`. */
struct stream_calls {
    tdm_status (*stream_create)(void *state, int index, void **stream);
    void (*stream_destroy)(void *state, int index, void *stream);
    tdm_status (*stream_sync)(void *state, int index, void *stream);
    tdm_status (*mark_create)(void *state, int index, void **mark);
    void (*mark_destroy)(void *state, int index, void *mark);
    tdm_status (*mark_record)(void *state, int index, void *mark, void *stream);
    tdm_status (*mark_sync)(void *state, int index, void *mark);
    tdm_status (*mark_wait)(void *state, int index, void *mark, void *stream);
    tdm_status (*mark_elapsed)(void *state, int index, void *first, void *last, float *milliseconds);
    tdm_status (*graph_begin)(void *state, int index, void *stream);
    tdm_status (*graph_end)(void *state, int index, void *stream, void **graph);
    tdm_status (*graph_run)(void *state, int index, void *graph, void *stream);
    void (*graph_destroy)(void *state, int index, void *graph);
};

/* The vendor's own matrix product, which ours are measured against: out[m, n] = sum over k of a[m, k] * b[n, k], dense
 * f16 with sums in f32. A handle serves one stream at a time. */
struct vendor_product {
    int64_t m, n, k;
    const void *a, *b;
    void *out;
};
struct vendor_calls {
    tdm_status (*open)(void *state, int index, void **handle);
    void (*close)(void *state, int index, void *handle);
    tdm_status (*multiply)(void *state, int index, void *handle, const struct vendor_product *product, void *stream);
};

/* One way to run an op. Rows are tried in order; `fits` and `takes` alone know a row's limits. They return
 * false with a reason (REASON_SIZE bytes); NULL stands for always. */
struct impl {
    const char *name;
    enum op_kind op;
    bool approximate;
    bool (*fits)(const struct tdm_op *op, char *reason);
    bool (*takes)(const struct tdm_op *op, const tdm_lengths *lengths, char *reason);
    size_t (*workspace)(const struct tdm_op *op);
    tdm_status (*run)(const struct tdm_op *op, const struct run *run);
};

struct backend {
    uint32_t abi; /* BACKEND_ABI; the first member for ever */
    tdm_device_kind kind;
    const char *name; /* "cpu" */
    tdm_status (*open)(const struct services *services, void **state);
    void (*close)(void *state);
    int (*device_count)(void *state);
    void (*device_info)(void *state, int index, tdm_device_info *info);
    tdm_status (*alloc)(void *state, int index, tdm_memory kind, size_t bytes, void **pointer);
    void (*free)(void *state, int index, tdm_memory kind, void *pointer);
    /* to and from are this backend's devices or the CPU. */
    tdm_status (*copy)(void *state, tdm_device to, void *dst, tdm_device from, const void *src, size_t bytes,
                       void *stream);
    tdm_status (*host_register)(void *state, int index, void *pointer, size_t bytes);
    tdm_status (*host_unregister)(void *state, int index, void *pointer);
    const struct stream_calls *streams; /* NULL: all work is done when a call returns */
    /* The scratch of one run in flight, in `memory` or in memory of its own where that is NULL, and whatever else a
     * run needs. NULL: the common layer gives plain memory. */
    tdm_status (*scratch_open)(const struct tdm_op *op, void *memory, void **scratch);
    void (*scratch_close)(const struct tdm_op *op, void *scratch);
    const struct impl *const *impls; /* ordered, ended by NULL */
    /* Leaf row `index` of its table: false past the end; reason is "" when this machine can run it. A backend without
     * leaves has neither of these two functions. */
    bool (*leaf)(void *state, int index, tdm_kernel *row);
    /* The leaf row that op calls at these lengths, -1 when it has none; why[i], when given, receives why row
     * i is passed over. */
    int (*leaf_for)(const struct tdm_op *op, const tdm_lengths *lengths, char (*why)[REASON_SIZE], int rows);
    const struct vendor_calls *vendor; /* NULL: none */
};

/* The one symbol of a plugin. */
typedef const struct backend *backend_entry(uint32_t abi);
#define BACKEND_ENTRY "tandem_backend"

#endif
