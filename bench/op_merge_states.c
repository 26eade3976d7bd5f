/* merge_states: the partial results of --parts ranges of keys. */
#include "cache.h"
#include "error.h"
#include "tests/reference/reference.h"
#include "tests/reference/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PARTS, PART_LSE, OUT, LSE, MOST_PARTS = 1024 };

static void describe(struct job *job)
{
    const struct gqa_shape *s = &job->gqa;
    tdm_tensor part = tensor4((tdm_dtype)job->value[OPTION_DTYPE], s->batch, s->q_heads, s->q_len, s->v_head_dim);
    job->desc.merge_states = (tdm_merge_states_desc){.struct_size = sizeof(tdm_merge_states_desc),
                                                     .part = part,
                                                     .out = part,
                                                     .max_parts = (int32_t)job->value[OPTION_PARTS]};
}

static tdm_status create(tdm_ctx *ctx, const struct job *job, tdm_op **op)
{
    return tdm_merge_states_create(ctx, job->device, &job->desc.merge_states, op);
}

static size_t rows(const struct job *job)
{
    return (size_t)(job->gqa.batch * job->gqa.q_heads * job->gqa.q_len);
}

static void reserve(struct job *job)
{
    size_t parts = (size_t)job->value[OPTION_PARTS];
    data_reserve(&job->data, PARTS, parts * (size_t)tensor_bytes(&job->desc.merge_states.part));
    data_reserve(&job->data, PART_LSE, parts * rows(job) * sizeof(float));
    reserve_tensor(job, OUT, &job->desc.merge_states.out);
    data_reserve(&job->data, LSE, rows(job) * sizeof(float));
}

/* Where part i and its log-sum-exp lie. */
static void *part_at(const struct job *job, int copy, int64_t i)
{
    return (char *)data_at(&job->data, PARTS, copy) + i * tensor_bytes(&job->desc.merge_states.part);
}
static float *lse_at(const struct job *job, int copy, int64_t i)
{
    return (float *)data_at(&job->data, PART_LSE, copy) + (size_t)i * rows(job);
}

static void fill(struct job *job, struct random *random)
{
    tdm_tensor lse = tensor4(TDM_F32, 1, 1, 1, (int64_t)rows(job));
    for (int64_t i = 0; i < job->value[OPTION_PARTS]; i++) {
        random_fill(&job->desc.merge_states.part, part_at(job, 0, i), 1, random);
        random_fill(&lse, lse_at(job, 0, i), 3, random);
    }
}

static tdm_status run(const struct job *job, const tdm_op *op, tdm_workspace *workspace, void *stream, int copy)
{
    const void *part[MOST_PARTS];
    const float *lse[MOST_PARTS];
    for (int64_t i = 0; i < job->value[OPTION_PARTS]; i++) {
        part[i] = part_at(job, copy, i);
        lse[i] = lse_at(job, copy, i);
    }
    tdm_merge_states_args args = {.struct_size = sizeof args,
                                  .part = part,
                                  .part_lse = lse,
                                  .parts = (int32_t)job->value[OPTION_PARTS],
                                  .out = data_at(&job->data, OUT, copy),
                                  .lse = data_at(&job->data, LSE, copy)};
    return tdm_merge_states_run(op, workspace, stream, &args);
}

static const char *check(const struct job *job, int spare, double *error)
{
    const tdm_merge_states_desc *desc = &job->desc.merge_states;
    int32_t parts = desc->max_parts;
    struct gqa_expected *part = calloc((size_t)parts, sizeof *part);
    for (int32_t i = 0; i < parts; i++)
        part[i] = reference_part(desc, part_at(job, spare, i), lse_at(job, spare, i));
    struct gqa_expected expected = reference_merge_states(desc, part, parts);
    const void *out = data_at(&job->data, OUT, 0);
    const char *wrong = compare_tensor(&desc->out, out, &expected.out, NULL);
    *error = largest_error(&desc->out, out, expected.out.value);
    for (int32_t i = 0; i < parts; i++)
        gqa_expected_free(&part[i]);
    free(part);
    gqa_expected_free(&expected);
    return wrong;
}

static void label(const struct job *job, char *shape, char *dtypes)
{
    const struct gqa_shape *s = &job->gqa;
    snprintf(shape, LABEL_SIZE, "b%" PRId64 " h%" PRId64 " d%" PRId64 " q%" PRId64 " parts%" PRId64, s->batch,
             s->q_heads, s->v_head_dim, s->q_len, job->value[OPTION_PARTS]);
    snprintf(dtypes, LABEL_SIZE, "%s", option_name(OPTION_DTYPE, job->value[OPTION_DTYPE]));
}

const struct bench_op bench_merge_states = {
    "merge_states", OP_BIT_MERGE_STATES, describe, create, reserve, fill, run, check, label};
