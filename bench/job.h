/* One case of `tandem bench`, and what each op must supply to be measured. */
#ifndef BENCH_JOB_H
#define BENCH_JOB_H

#include "data.h"
#include "options.h"
#include "shapes.h"
#include "tandem.h"
#include "tests/reference/random.h"

#define LABEL_SIZE 96

struct job {
    const struct bench_op *op;
    tdm_device device;
    struct gqa_shape gqa;        /* of the ops on caches             */
    struct fp8_shape fp8;        /* of fp8_matmul                    */
    int64_t value[OPTION_COUNT]; /* one choice of each option        */
    union {
        tdm_gqa_desc gqa;
        tdm_kv_append_desc kv_append;
        tdm_fp8_matmul_desc fp8_matmul;
        tdm_convert_desc convert;
        tdm_product_desc product;
        tdm_merge_states_desc merge_states;
        tdm_kv_shift_desc kv_shift;
    } desc;
    struct data data;
    tdm_event event; /* of the first run: what ran, and how much there was to do */
};

struct bench_op {
    const char *name;
    enum op_bit bit;
    void (*describe)(struct job *job); /* fill in desc                    */
    tdm_status (*create)(tdm_ctx *ctx, const struct job *job, tdm_op **op);
    void (*reserve)(struct job *job);                     /* the buffers, for a valid desc   */
    void (*fill)(struct job *job, struct random *random); /* the first copy                  */
    tdm_status (*run)(const struct job *job, const tdm_op *op, tdm_workspace *workspace, void *stream, int copy);
    /* Compare the first copy's outputs, on the host, with the reference's, which may write to the copy `spare`; NULL
     * when they are right, else what is wrong. *error is the largest difference from an exact value, relative to the
     * largest exact value. */
    const char *(*check)(const struct job *job, int spare, double *error);
    void (*label)(const struct job *job, char *shape, char *dtypes); /* LABEL_SIZE bytes each           */
};

extern const struct bench_op bench_gqa, bench_kv_append, bench_fp8_matmul, bench_quantize, bench_dequantize, bench_qk,
    bench_sv, bench_merge_states, bench_kv_shift;

#endif
