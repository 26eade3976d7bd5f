#include "input.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tdm_ctx *ctx;
union any_desc desc;

uint8_t take(struct input *in)
{
    return in->next < in->end ? *in->next++ : 0;
}

int64_t small(struct input *in, int64_t least, int64_t most)
{
    return least + take(in) % (most - least + 1);
}

int64_t odd_value(struct input *in)
{
    static const int64_t values[] = {0,         1,         -1,        2,         3,         4,         7,
                                     8,         24,        64,        INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN,
                                     1LL << 31, 1LL << 32, 1LL << 40, 1LL << 58, 1LL << 61, 1LL << 62, 0x7FC00000};
    uint8_t code = take(in);
    return code < 128 ? values[code % (sizeof values / sizeof *values)] : code - 128;
}

/* A dimension that all tensors of a desc agree on, at times a huge one. */
int64_t dimension(struct input *in, int64_t most)
{
    uint8_t code = take(in);
    return code >= 250 ? odd_value(in) : 1 + code % most;
}

tdm_tensor tensor(tdm_dtype dtype, int rank, int64_t d0, int64_t d1, int64_t d2, int64_t d3)
{
    return (tdm_tensor){.dtype = dtype, .rank = rank, .dim = {d0, d1, d2, d3}};
}

tdm_dtype float_type(struct input *in)
{
    return (tdm_dtype)small(in, TDM_F32, TDM_BF16);
}

tdm_tensor stored(struct input *in, int rank, const int64_t dim[4])
{
    static const tdm_dtype types[] = {TDM_F32, TDM_F16, TDM_BF16, TDM_F8E4M3, TDM_I8, TDM_I4};
    static const tdm_scaling scalings[] = {TDM_PER_TENSOR, TDM_PER_CHANNEL, TDM_PER_TOKEN, TDM_PER_GROUP};
    tdm_tensor t = tensor(types[take(in) % 6], rank, dim[0], dim[1], dim[2], dim[3]);
    if (t.dtype >= TDM_F8E4M3)
        t.scaling = scalings[take(in) % 4];
    if (t.scaling == TDM_PER_GROUP) {
        t.block[0] = 1;
        t.block[1] = 16 * small(in, 1, 3);
    }
    return t;
}

tdm_rotary rotary(struct input *in, int64_t head_dim)
{
    return (tdm_rotary){float_type(in), (int32_t)(head_dim / 2 * 2), (int32_t)small(in, 1, 200), take(in) & 1};
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

/* ---- data of exactly the size that an accepted desc has ------------------------------------ */

static void *blocks[32];
static int block_count;

/* NULL when it would be large. */
void *block(struct input *in, double bytes)
{
    if (bytes > MOST_BYTES)
        return NULL;
    uint8_t *data = malloc((size_t)bytes);
    for (size_t i = 0; i < (size_t)bytes; i++)
        data[i] = in->next < in->end ? take(in) : (uint8_t)(i * 37);
    return blocks[block_count++] = data;
}

double row_bytes(tdm_dtype dtype, double n)
{
    static const double bits[] = {[TDM_F32] = 32, [TDM_F16] = 16, [TDM_BF16] = 16, [TDM_F8E4M3] = 8, [TDM_E8M0] = 8,
                                  [TDM_I8] = 8,   [TDM_I4] = 4,   [TDM_BOOL] = 8,  [TDM_BITS] = 1};
    return ceil(n * bits[dtype] / 8);
}

double tensor_bytes(const tdm_tensor *t)
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

double dim(const tdm_tensor *t, int from_last)
{
    return from_last < t->rank ? (double)t->dim[t->rank - 1 - from_last] : 1;
}

float *scales(struct input *in, const tdm_tensor *t)
{
    switch (t->scaling) {
    case TDM_PER_TENSOR:
        return block(in, 4);
    case TDM_PER_CHANNEL:
        return block(in, 4 * dim(t, 2) * dim(t, 0));
    case TDM_PER_TOKEN:
        return block(in, 4 * dim(t, 3) * dim(t, 2) * dim(t, 1));
    case TDM_PER_GROUP:
        return block(in, 4 * dim(t, 3) * dim(t, 2) * dim(t, 1) * ceil(dim(t, 0) / (double)t->block[1]));
    default:
        return NULL;
    }
}

int32_t *lengths(struct input *in, double n, int64_t most)
{
    int32_t *length = block(in, 4 * n);
    for (int i = 0; length && i < (int)n; i++)
        length[i] = (int32_t)(take(in) % (uint64_t)(most + 2)) - (take(in) == 255);
    return length;
}

tdm_kv_data cache_data(struct input *in, const tdm_kv_cache *cache)
{
    return (tdm_kv_data){.k = block(in, tensor_bytes(&cache->k)),
                         .v = block(in, tensor_bytes(&cache->v)),
                         .k_scale = scales(in, &cache->k),
                         .v_scale = scales(in, &cache->v),
                         .k_offset = cache->has_k_offset ? block(in, 4 * dim(&cache->k, 2) * dim(&cache->k, 0)) : NULL};
}

const void *table(struct input *in, const tdm_rotary *rotary)
{
    return rotary->dtype ? block(in, row_bytes(rotary->dtype, (double)rotary->positions * rotary->dim / 2)) : NULL;
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

static void use(struct input *in, const tdm_op *op, int kind, run_function *run)
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

int fuzz(const uint8_t *data, size_t size, int ops, describe_function *describe, create_function *create,
         run_function *run)
{
    struct input in = {data, data + size};
    int kind = take(&in) % ops;
    tdm_op *op = (tdm_op *)&desc;
    spoil(&in, describe(&in, kind));
    tdm_status status = create(kind, &op);
    if (status ? op != NULL || !*tdm_last_error() : op == NULL)
        abort();
    if (!status)
        use(&in, op, kind, run);
    tdm_op_destroy(op);
    return 0;
}
