#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, Q_HEADS = 6, KV_HEADS = 2, NEW = 3, CAPACITY = 1200, DIM = 40, FEW = 5, MANY = 20, N = 150, K = 260 };

struct load_memory {
    float q[BATCH * Q_HEADS * NEW * DIM], out[BATCH * Q_HEADS * NEW * DIM], lse[BATCH * Q_HEADS * NEW];
    float new_k[BATCH * KV_HEADS * NEW * DIM], new_v[BATCH * KV_HEADS * NEW * DIM];
    int8_t k[BATCH * KV_HEADS * CAPACITY * DIM];
    float v[BATCH * KV_HEADS * CAPACITY * DIM]; /* some of it subnormal */
    float k_scale[BATCH * KV_HEADS * CAPACITY];
    int32_t new_len[BATCH], pos[BATCH], kv_len[BATCH];
    float a[MANY * K], few[FEW * N], many[MANY * N], b_scale[N * 3], a_scale;
    uint8_t b[N * K];
};

static void fill(float *x, size_t n, float size)
{
    for (size_t i = 0; i < n; i++)
        x[i] = ((float)(i * 2654435761U >> 8 & 0xFFFF) / 32768 - 1) * size;
}

#define FILL(array, size) fill(array, sizeof(array) / sizeof *(array), size)

static void start_memory(struct load_memory *m)
{
    FILL(m->q, 1.1F);
    FILL(m->new_k, 2);
    FILL(m->new_v, 2);
    FILL(m->v, 2);
    FILL(m->a, 3);
    FILL(m->b_scale, 0.02F);
    for (size_t i = 0; i < sizeof m->v / sizeof *m->v; i++)
        m->v[i] = i % DIM == 7 ? m->v[i] * 1e-39F : m->v[i];
    for (size_t i = 0; i < sizeof m->k; i++)
        m->k[i] = (int8_t)(i * 97 >> 3);
    for (size_t i = 0; i < sizeof m->k_scale / sizeof *m->k_scale; i++)
        m->k_scale[i] = 0.011F + (float)(i % 7) * 0.001F;
    for (size_t i = 0; i < sizeof m->b; i++)
        m->b[i] = (uint8_t)(i * 31 % 126 + i % 2 * 128);
    for (int b = 0; b < BATCH; b++) {
        m->new_len[b] = NEW;
        m->pos[b] = CAPACITY - NEW - 7 - b * 900;
        m->kv_len[b] = m->pos[b] + NEW;
    }
    m->a_scale = 0.013F;
}

static tdm_tensor rank4(tdm_dtype dtype, int64_t heads, int64_t rows)
{
    return (tdm_tensor){.dtype = dtype, .rank = 4, .dim = {BATCH, heads, rows, DIM}};
}

static tdm_fp8_matmul_desc matmul(int64_t m)
{
    tdm_fp8_matmul_desc desc = TDM_INIT(tdm_fp8_matmul_desc);
    desc.a = (tdm_tensor){.dtype = TDM_F32, .rank = 2, .dim = {m, K}};
    desc.b = (tdm_tensor){.dtype = TDM_F8E4M3, .rank = 2, .scaling = TDM_PER_BLOCK, .dim = {N, K}, .block = {1, 128}};
    desc.out = (tdm_tensor){.dtype = TDM_F32, .rank = 2, .dim = {m, N}};
    desc.has_a_scale = 1;
    return desc;
}

tdm_ctx *load_open(int threads, const tdm_threads *host)
{
    static const char *const environment[] = {"TANDEM_CUDA_PLUGIN=/nonexistent", NULL};
    tdm_options options = TDM_INIT(tdm_options);
    options.threads = threads;
    options.host = host;
    options.env = environment;
    tdm_ctx *ctx;
    load_expect(!tdm_open(TDM_VERSION, &options, &ctx), tdm_last_error());
    return ctx;
}

tdm_status load_create(tdm_ctx *ctx, struct load_ops *ops)
{
    const tdm_device cpu = {TDM_CPU, 0};
    tdm_kv_append_desc append = TDM_INIT(tdm_kv_append_desc);
    tdm_gqa_desc gqa;
    tdm_gqa_desc_init(&gqa);
    gqa.cache.k = rank4(TDM_I8, KV_HEADS, CAPACITY);
    gqa.cache.v = rank4(TDM_F32, KV_HEADS, CAPACITY);
    gqa.cache.k.scaling = TDM_PER_TOKEN;
    gqa.cache.rotate_k = gqa.cache.rotate_v = 1;
    gqa.softcap = 20;
    gqa.smooth_softmax = 1;
    gqa.q = gqa.out = rank4(TDM_F32, Q_HEADS, NEW);
    append.k = append.v = rank4(TDM_F32, KV_HEADS, NEW);
    append.cache = gqa.cache;
    tdm_fp8_matmul_desc few = matmul(FEW), many = matmul(MANY);
    memset(ops, 0, sizeof *ops);
    tdm_status status = tdm_kv_append_create(ctx, cpu, &append, &ops->op[LOAD_APPEND]);
    if (!status)
        status = tdm_gqa_create(ctx, cpu, &gqa, &ops->op[LOAD_GQA]);
    if (!status)
        status = tdm_fp8_matmul_create(ctx, cpu, &few, &ops->op[LOAD_FEW_ROWS]);
    if (!status)
        status = tdm_fp8_matmul_create(ctx, cpu, &many, &ops->op[LOAD_MANY_ROWS]);
    return status;
}

void load_destroy(struct load_ops *ops)
{
    for (int i = 0; i < LOAD_OPS; i++)
        tdm_op_destroy(ops->op[i]);
}

tdm_status load_job_start(const struct load_ops *ops, struct load_job *job)
{
    tdm_status status = TDM_OK;
    *job = (struct load_job){.memory = calloc(1, sizeof *job->memory)};
    start_memory(job->memory);
    for (int i = 0; i < LOAD_OPS && !status; i++)
        status = tdm_workspace_create(ops->op[i], NULL, 0, &job->workspace[i]);
    return status;
}

void load_job_end(struct load_job *job)
{
    for (int i = 0; i < LOAD_OPS; i++)
        tdm_workspace_destroy(job->workspace[i]);
    free(job->memory);
}

tdm_status load_job_run(const struct load_ops *ops, struct load_job *job)
{
    struct load_memory *m = job->memory;
    tdm_kv_data cache = {.k = m->k, .v = m->v, .k_scale = m->k_scale};
    tdm_kv_append_args append = {.struct_size = sizeof append,
                                 .k = m->new_k,
                                 .v = m->new_v,
                                 .cache = cache,
                                 .new_len = m->new_len,
                                 .pos = m->pos};
    tdm_gqa_args gqa = {.struct_size = sizeof gqa,
                        .q = m->q,
                        .cache = cache,
                        .q_len = m->new_len,
                        .kv_len = m->kv_len,
                        .out = m->out,
                        .lse = m->lse};
    tdm_fp8_matmul_args few = {sizeof few, m->a, m->b, m->b_scale, NULL, &m->a_scale, FEW, m->few};
    tdm_fp8_matmul_args many = {sizeof many, m->a, m->b, m->b_scale, NULL, &m->a_scale, MANY, m->many};
    tdm_status status = tdm_kv_append_run(ops->op[LOAD_APPEND], job->workspace[LOAD_APPEND], NULL, &append);
    if (!status)
        status = tdm_gqa_run(ops->op[LOAD_GQA], job->workspace[LOAD_GQA], NULL, &gqa);
    if (!status)
        status = tdm_fp8_matmul_run(ops->op[LOAD_FEW_ROWS], job->workspace[LOAD_FEW_ROWS], NULL, &few);
    if (!status)
        status = tdm_fp8_matmul_run(ops->op[LOAD_MANY_ROWS], job->workspace[LOAD_MANY_ROWS], NULL, &many);
    return status;
}

bool load_job_same(const struct load_job *a, const struct load_job *b)
{
    return !memcmp(a->memory, b->memory, sizeof *a->memory);
}

struct load_job load_serial(void)
{
    struct load_ops ops;
    struct load_job job;
    tdm_ctx *ctx = load_open(1, NULL);
    load_expect(!load_create(ctx, &ops), tdm_last_error());
    load_expect(!load_job_start(&ops, &job), tdm_last_error());
    load_expect(!load_job_run(&ops, &job), tdm_last_error());
    for (int i = 0; i < LOAD_OPS; i++) {
        tdm_workspace_destroy(job.workspace[i]);
        job.workspace[i] = NULL;
    }
    load_destroy(&ops);
    tdm_close(ctx);
    return job;
}

void load_expect(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "FAILED: %s\n", what);
    exit(EXIT_FAILURE);
}
