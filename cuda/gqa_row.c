/* The row of gqa on CUDA, and how it splits keys. Parts follow from the desc and the sequence's own lengths, so that
 * batch neighbours never change a bit. */
#include "attention_rows.h"
#include "cuda.h"
#include "gqa.h"

static bool flash_fits(const struct tdm_op *op, char *reason)
{
    const tdm_gqa_desc *d = &op->desc.gqa;
    const struct wish wishes[] = {{"bias", d->bias.rank != 0},
                                  {"mask", d->mask.rank != 0},
                                  {"has_alibi", d->has_alibi != 0},
                                  {"has_tree", d->has_tree != 0},
                                  {"capture", d->capture != TDM_CAPTURE_NONE}};
    return cuda_fits_device(op, reason) && fits_wishes(wishes, sizeof wishes / sizeof *wishes, reason);
}

static int64_t between(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* ---- workspace ---------------------------------------------------------------------- */

static int64_t blocks_of(int64_t keys)
{
    return (keys + KEY_BLOCK - 1) / KEY_BLOCK;
}

static int64_t parts_of(int64_t blocks)
{
    return between(blocks / (PART_KEYS / KEY_BLOCK), 1, MAX_PARTS);
}

static int64_t group_of(const tdm_gqa_desc *d)
{
    return d->q.dim[1] / d->cache.k.dim[1];
}

/* The most parts and rows of a sequence that is split. */
static int64_t max_parts(const tdm_gqa_desc *d)
{
    return group_of(d) > SPLIT_ROWS ? 1 : parts_of(blocks_of(d->cache.k.dim[2]));
}

static int64_t split_rows(const tdm_gqa_desc *d)
{
    return d->q.dim[2] > SPLIT_ROWS ? SPLIT_ROWS : between(d->q.dim[2] * group_of(d), 1, SPLIT_ROWS);
}

static size_t flash_workspace(const struct tdm_op *op)
{
    const tdm_gqa_desc *d = &op->desc.gqa;
    size_t bytes = (size_t)(max_parts(d) * split_rows(d) * (ROW_STATE + d->out.dim[3])) * sizeof(float);
    if (max_parts(d) == 1)
        return 0;
    if (__builtin_mul_overflow(bytes, d->q.dim[0], &bytes) || __builtin_mul_overflow(bytes, d->cache.k.dim[1], &bytes))
        return SIZE_MAX;
    return bytes;
}

/* ---- run ---------------------------------------------------------------------------- */

/* What the sequence's queries see together: keys [0, sinks) and [first, end). */
static struct gqa_keys keys_of(const tdm_gqa_desc *d, int32_t q_len, int32_t kv_len)
{
    int64_t start = (int64_t)kv_len - q_len;
    int64_t end = d->window_right < 0 ? kv_len : between(start + q_len + d->window_right, 0, kv_len);
    int64_t first = d->window_left < 0 ? 0 : between(start - d->window_left, 0, end);
    int64_t sink_blocks = blocks_of(between(d->sink_tokens, 0, end));
    int64_t first_block = between(first / KEY_BLOCK, sink_blocks, INT32_MAX);
    int64_t blocks = sink_blocks + between(blocks_of(end) - first_block, 0, INT32_MAX), parts = 1;
    if (q_len * group_of(d) <= SPLIT_ROWS)
        parts = between(parts_of(blocks), 1, max_parts(d)); /* a ring's window may touch a block more than fill it */
    int64_t part_blocks = (blocks + parts - 1) / parts;
    return (struct gqa_keys){.kv_len = kv_len,
                             .start = (int32_t)start,
                             .blocks = (int32_t)blocks,
                             .sink_blocks = (int32_t)sink_blocks,
                             .first_block = (int32_t)first_block,
                             .parts = blocks ? (int32_t)((blocks + part_blocks - 1) / part_blocks) : 1,
                             .part_blocks = (int32_t)part_blocks};
}

static struct gqa_params params_of(const tdm_gqa_desc *d, const tdm_gqa_args *a, void *workspace)
{
    const tdm_kv_data *data = &a->cache;
    return (struct gqa_params){.q = stored_of(&d->q, a->q, NULL),
                               .k = stored_half(&d->cache, &d->cache.k, data->k, data->k_scale),
                               .v = stored_half(&d->cache, &d->cache.v, data->v, data->v_scale),
                               .out = stored_of(&d->out, a->out, NULL),
                               .prepare = prepare_of(&d->q_norm, a->q_norm, &d->rotary, a->cos, a->sin, data->k_offset,
                                                     rotation_factor(d->cache.rotate_k, d->q.dim[3])),
                               .head_sink = a->head_sink,
                               .lse = a->lse,
                               .partials = workspace,
                               .scale = d->scale,
                               .softcap = d->softcap,
                               .rotate_v = rotation_factor(d->cache.rotate_v, d->out.dim[3]),
                               .has_sink = d->has_head_sink || d->smooth_softmax,
                               .window_left = d->window_left,
                               .window_right = d->window_right,
                               .sink_tokens = d->sink_tokens,
                               .group = (int32_t)group_of(d),
                               .max_parts = (int32_t)max_parts(d),
                               .split_rows = (int32_t)split_rows(d)};
}

static cudaError_t flash_enqueue(const struct tdm_op *op, const struct run *run)
{
    const tdm_gqa_desc *d = &op->desc.gqa;
    const tdm_gqa_args *a = run->args;
    struct gqa_params params =
        params_of(d, a, op->workspace ? ((const struct cuda_scratch *)run->scratch)->memory : NULL);
    struct tokens tokens = {.length = a->q_len,
                            .positions = a->positions,
                            .batch = d->q.dim[0],
                            .stride = d->q.dim[2],
                            .most = (int32_t)between(MAX_RUN / group_of(d), 1, MAX_RUN)};
    cudaError_t error = cudaSuccess;
    while (!error && token_runs_next(&tokens, &params.runs)) {
        for (int32_t i = 0; i < params.runs.count; i++) {
            struct token_run *r = &params.runs.run[i];
            params.keys[i] = keys_of(d, a->q_len[r->sequence], a->kv_len[r->sequence]);
            r->position = params.keys[i].start + r->first;
        }
        error = gqa_launch(&params, run->stream);
    }
    return error;
}

static tdm_status flash_run(const struct tdm_op *op, const struct run *run)
{
    return cuda_run(op, run, flash_enqueue);
}

const struct impl cuda_flash = {
    .name = "cuda_flash", .op = OP_GQA, .fits = flash_fits, .workspace = flash_workspace, .run = flash_run};
