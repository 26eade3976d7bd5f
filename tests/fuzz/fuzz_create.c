/* The create calls, and runs of what they accept. An input picks an op and small dimensions, then overwrites words
 * of the desc with values that are apt to be wrong. Data lies in blocks of exactly the size that the desc gives, so
 * that AddressSanitizer sees a stray access. */
#include "tandem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { APPEND, GQA, FP8, QUANTIZE, DEQUANTIZE, OPS, MOST_BYTES = 1 << 16, MOST_SCRATCH = 1 << 26, LONGEST = 1 << 16 };

static const tdm_device cpu = {TDM_CPU, 0};
static tdm_ctx *ctx;

/* ---- the input ------------------------------------------------------------------------ */

struct input {
    const uint8_t *next, *end;
};

static uint8_t take(struct input *in)
{
    return in->next < in->end ? *in->next++ : 0;
}

static int64_t small(struct input *in, int64_t least, int64_t most)
{
    return least + take(in) % (most - least + 1);
}

static int64_t odd_value(struct input *in)
{
    static const int64_t values[] = {0,         1,         -1,        2,         3,         4,         7,
                                     8,         24,        64,        INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN,
                                     1LL << 31, 1LL << 32, 1LL << 40, 1LL << 58, 1LL << 61, 1LL << 62, 0x7FC00000};
    uint8_t code = take(in);
    return code < 128 ? values[code % (sizeof values / sizeof *values)] : code - 128;
}

/* A dimension that all tensors of a desc agree on, at times a huge one. */
static int64_t dimension(struct input *in, int64_t most)
{
    uint8_t code = take(in);
    return code >= 250 ? odd_value(in) : 1 + code % most;
}

/* ---- descs: valid ones, then not --------------------------------------------------------- */

/* Every desc fits, with zeros behind it as far as a struct_size may claim. */
static union {
    tdm_kv_append_desc append;
    tdm_gqa_desc gqa;
    tdm_fp8_matmul_desc fp8;
    tdm_convert_desc convert;
    size_t words[LONGEST / sizeof(size_t)];
} desc;

static tdm_tensor tensor(tdm_dtype dtype, int rank, int64_t d0, int64_t d1, int64_t d2, int64_t d3)
{
    return (tdm_tensor){.dtype = dtype, .rank = rank, .dim = {d0, d1, d2, d3}};
}

static tdm_dtype float_type(struct input *in)
{
    return (tdm_dtype)small(in, TDM_F32, TDM_BF16);
}

static tdm_tensor stored(struct input *in, int rank, const int64_t dim[4])
{
    static const tdm_dtype types[] = {TDM_F32, TDM_F16, TDM_BF16, TDM_I8, TDM_I4};
    tdm_tensor t = tensor(types[take(in) % 5], rank, dim[0], dim[1], dim[2], dim[3]);
    if (t.dtype >= TDM_I8)
        t.scaling = (tdm_scaling)small(in, TDM_PER_TENSOR, TDM_PER_TOKEN);
    return t;
}

static size_t describe(struct input *in, int op)
{
    int64_t batch = dimension(in, 3), heads = dimension(in, 3), group = small(in, 1, 3), rows = dimension(in, 9);
    int64_t k_dim = dimension(in, 40), v_dim = dimension(in, 40), capacity = dimension(in, 150);
    tdm_dtype dtype = float_type(in);
    tdm_kv_cache cache = {.k = stored(in, 4, (int64_t[]){batch, heads, capacity, k_dim}),
                          .v = stored(in, 4, (int64_t[]){batch, heads, capacity, v_dim})};
    int rank = (int)small(in, 1, 4);
    int64_t dims[4] = {batch, heads, rows, k_dim};
    tdm_tensor plain = tensor(dtype, rank, dims[0], dims[1], dims[2], dims[3]), packed = stored(in, rank, dims);
    memset(&desc, 0, sizeof desc);
    switch (op) {
    case APPEND:
        desc.append = (tdm_kv_append_desc){sizeof desc.append, tensor(dtype, 4, batch, heads, rows, k_dim),
                                           tensor(dtype, 4, batch, heads, rows, v_dim), cache};
        return sizeof desc.append;
    case GQA:
        tdm_gqa_desc_init(&desc.gqa);
        heads = heads > INT32_MAX || heads < 0 ? heads : heads * group;
        desc.gqa.q = tensor(dtype, 4, batch, heads, rows, k_dim);
        desc.gqa.out = tensor(dtype, 4, batch, heads, rows, v_dim);
        desc.gqa.cache = cache;
        desc.gqa.window_left = (int32_t)small(in, -1, 20);
        desc.gqa.window_right = (int32_t)small(in, -1, 5);
        return sizeof desc.gqa;
    case FP8:
        desc.fp8 = (tdm_fp8_matmul_desc){sizeof desc.fp8,
                                         tensor(dtype, 2, capacity, k_dim, 0, 0),
                                         tensor(TDM_F8E4M3, 2, v_dim, k_dim, 0, 0),
                                         tensor(dtype, 2, capacity, v_dim, 0, 0),
                                         take(in) & 1,
                                         take(in) & 1};
        desc.fp8.b.scaling = TDM_PER_BLOCK;
        desc.fp8.b.scale_dtype = (tdm_dtype[]){0, TDM_F32, TDM_BF16, TDM_E8M0}[take(in) % 4];
        desc.fp8.b.block[0] = small(in, 1, 20);
        desc.fp8.b.block[1] = small(in, 1, 20);
        return sizeof desc.fp8;
    default:
        desc.convert = (tdm_convert_desc){sizeof desc.convert, plain, packed};
        if (op == DEQUANTIZE)
            desc.convert = (tdm_convert_desc){sizeof desc.convert, packed, plain};
        return sizeof desc.convert;
    }
}

/* Overwrite some 4- or 8-byte words. */
static void spoil(struct input *in, size_t bytes)
{
    for (int n = take(in) % 4; n > 0; n--) {
        size_t wide = take(in) & 1 ? 8 : 4;
        size_t at = (take(in) | (size_t)take(in) << 8) % (bytes / wide) * wide;
        int64_t value = odd_value(in);
        memcpy((char *)&desc + at, &value, wide);
    }
}

static tdm_status create(int op, tdm_op **made)
{
    switch (op) {
    case APPEND:
        return tdm_kv_append_create(ctx, cpu, &desc.append, made);
    case GQA:
        return tdm_gqa_create(ctx, cpu, &desc.gqa, made);
    case FP8:
        return tdm_fp8_matmul_create(ctx, cpu, &desc.fp8, made);
    case QUANTIZE:
        return tdm_quantize_create(ctx, cpu, &desc.convert, made);
    default:
        return tdm_dequantize_create(ctx, cpu, &desc.convert, made);
    }
}

/* ---- data of exactly the size that an accepted desc has ------------------------------------ */

static void *blocks[16];
static int block_count;

/* NULL when it would be large. */
static void *block(struct input *in, double bytes)
{
    if (bytes > MOST_BYTES)
        return NULL;
    uint8_t *data = malloc((size_t)bytes);
    for (size_t i = 0; i < (size_t)bytes; i++)
        data[i] = in->next < in->end ? take(in) : (uint8_t)(i * 37);
    return blocks[block_count++] = data;
}

static double row_bytes(tdm_dtype dtype, double n)
{
    static const double bits[] = {
        [TDM_F32] = 32, [TDM_F16] = 16, [TDM_BF16] = 16, [TDM_F8E4M3] = 8, [TDM_E8M0] = 8, [TDM_I8] = 8, [TDM_I4] = 4};
    return ceil(n * bits[dtype] / 8);
}

static double tensor_bytes(const tdm_tensor *t)
{
    double dense = row_bytes(t->dtype, (double)t->dim[t->rank - 1]), bytes = dense;
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] == 0)
            return 0;
    for (int i = t->rank - 2; i >= 0; i--) {
        double stride = t->stride[i] ? (double)t->stride[i] : dense, extent = stride * (double)t->dim[i];
        bytes += stride * (double)(t->dim[i] - 1);
        dense = extent > dense ? extent : dense;
    }
    return bytes;
}

static double dim(const tdm_tensor *t, int from_last)
{
    return from_last < t->rank ? (double)t->dim[t->rank - 1 - from_last] : 1;
}

static float *scales(struct input *in, const tdm_tensor *t)
{
    switch (t->scaling) {
    case TDM_PER_TENSOR:
        return block(in, 4);
    case TDM_PER_CHANNEL:
        return block(in, 4 * dim(t, 2) * dim(t, 0));
    case TDM_PER_TOKEN:
        return block(in, 4 * dim(t, 3) * dim(t, 2) * dim(t, 1));
    default:
        return NULL;
    }
}

static int32_t *lengths(struct input *in, double n, int64_t most)
{
    int32_t *length = block(in, 4 * n);
    for (int i = 0; length && i < (int)n; i++)
        length[i] = (int32_t)(take(in) % (uint64_t)(most + 2)) - (take(in) == 255);
    return length;
}

static tdm_kv_data cache_data(struct input *in, const tdm_kv_cache *cache)
{
    return (tdm_kv_data){.k = block(in, tensor_bytes(&cache->k)),
                         .v = block(in, tensor_bytes(&cache->v)),
                         .k_scale = scales(in, &cache->k),
                         .v_scale = scales(in, &cache->v)};
}

static void run_fp8(struct input *in, const tdm_op *op, tdm_workspace *workspace)
{
    const tdm_fp8_matmul_desc *d = &desc.fp8;
    double rows = (double)((d->b.dim[0] - 1) / d->b.block[0] + 1),
           columns = (double)((d->b.dim[1] - 1) / d->b.block[1] + 1);
    tdm_fp8_matmul_args args = TDM_INIT(tdm_fp8_matmul_args);
    args.a = block(in, tensor_bytes(&d->a));
    args.b = block(in, tensor_bytes(&d->b));
    args.b_scale = block(in, row_bytes(d->b.scale_dtype ? d->b.scale_dtype : TDM_F32, rows * columns));
    args.bias = d->has_bias ? block(in, row_bytes(d->a.dtype, (double)d->b.dim[0])) : NULL;
    args.a_scale = d->has_a_scale ? block(in, 4) : NULL;
    args.out = block(in, tensor_bytes(&d->out));
    args.m = small(in, -1, 152);
    tdm_fp8_matmul_run(op, workspace, NULL, &args);
}

static void run(struct input *in, int kind, const tdm_op *op, tdm_workspace *workspace)
{
    if (kind == APPEND) {
        const tdm_kv_append_desc *d = &desc.append;
        tdm_kv_append_args args = {sizeof args,
                                   block(in, tensor_bytes(&d->k)),
                                   block(in, tensor_bytes(&d->v)),
                                   cache_data(in, &d->cache),
                                   lengths(in, dim(&d->k, 3), d->k.dim[2]),
                                   lengths(in, dim(&d->k, 3), d->cache.k.dim[2])};
        tdm_kv_append_run(op, workspace, NULL, &args);
    } else if (kind == GQA) {
        const tdm_gqa_desc *d = &desc.gqa;
        tdm_gqa_args args = {sizeof args,
                             block(in, tensor_bytes(&d->q)),
                             cache_data(in, &d->cache),
                             lengths(in, dim(&d->q, 3), d->q.dim[2]),
                             lengths(in, dim(&d->q, 3), d->cache.k.dim[2]),
                             block(in, tensor_bytes(&d->out)),
                             block(in, 4 * dim(&d->q, 3) * dim(&d->q, 2) * dim(&d->q, 1))};
        tdm_gqa_run(op, workspace, NULL, &args);
    } else if (kind == FP8) {
        run_fp8(in, op, workspace);
    } else {
        const tdm_convert_desc *d = &desc.convert;
        tdm_convert_args args = {sizeof args, block(in, tensor_bytes(&d->src)), block(in, tensor_bytes(&d->dst)),
                                 scales(in, kind == QUANTIZE ? &d->dst : &d->src)};
        if (kind == QUANTIZE)
            tdm_quantize_run(op, workspace, NULL, &args);
        else
            tdm_dequantize_run(op, workspace, NULL, &args);
    }
}

/* ---- one input --------------------------------------------------------------------------------- */

static void use(struct input *in, int kind, const tdm_op *op)
{
    size_t bytes = 0;
    int32_t count = 0;
    tdm_workspace *workspace = NULL;
    tdm_lengths some = {sizeof some, odd_value(in), odd_value(in), odd_value(in)};
    tdm_explain(op, &some, NULL, 0, &count);
    if (tdm_workspace_size(op, &bytes) || bytes > MOST_SCRATCH || tdm_workspace_create(op, NULL, 0, &workspace))
        return;
    run(in, kind, op, workspace);
    tdm_workspace_destroy(workspace);
    while (block_count > 0)
        free(blocks[--block_count]);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    static const char *const environment[] = {"TANDEM_CUDA_PLUGIN=/nonexistent", NULL};
    tdm_options options = TDM_INIT(tdm_options);
    options.threads = 1;
    options.env = environment;
    if (tdm_open(TDM_VERSION, &options, &ctx)) {
        fprintf(stderr, "%s\n", tdm_last_error());
        exit(EXIT_FAILURE);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    int kind = take(&in) % OPS;
    tdm_op *op = (tdm_op *)&desc;
    spoil(&in, describe(&in, kind));
    tdm_status status = create(kind, &op);
    if (status ? op != NULL || !*tdm_last_error() : op == NULL)
        abort();
    if (!status)
        use(&in, kind, op);
    tdm_op_destroy(op);
    return 0;
}
