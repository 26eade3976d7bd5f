/* The row of kv_append on CUDA. */
#include "attention_rows.h"
#include "cuda.h"
#include "kv_append.h"

#include <stdio.h>

static bool append_fits(const struct tdm_op *op, char *reason)
{
    const tdm_kv_append_desc *d = &op->desc.kv_append;
    const struct wish wishes[] = {{"past", d->past.k.rank != 0}};
    return cuda_fits_device(op, reason) && fits_wishes(wishes, sizeof wishes / sizeof *wishes, reason);
}

static cudaError_t append_enqueue(const struct tdm_op *op, const struct run *run)
{
    const tdm_kv_append_desc *d = &op->desc.kv_append;
    const tdm_kv_append_args *a = run->args;
    const tdm_kv_data *data = &a->cache;
    static const tdm_norm no_norm;
    static const tdm_rotary no_rotary;
    struct append_params params = {
        .half = {{stored_of(&d->k, a->k, NULL), stored_half(&d->cache, &d->cache.k, data->k, data->k_scale),
                  prepare_of(&d->k_norm, a->k_norm, &d->rotary, a->cos, a->sin, data->k_offset,
                             rotation_factor(d->cache.rotate_k, d->k.dim[3]))},
                 {stored_of(&d->v, a->v, NULL), stored_half(&d->cache, &d->cache.v, data->v, data->v_scale),
                  prepare_of(&no_norm, NULL, &no_rotary, NULL, NULL, NULL,
                             rotation_factor(d->cache.rotate_v, d->v.dim[3]))}}};
    struct tokens tokens = {
        .length = a->new_len, .positions = a->positions, .batch = d->k.dim[0], .stride = d->k.dim[2], .most = MAX_RUN};
    cudaError_t error = cudaSuccess;
    while (!error && token_runs_next(&tokens, &params.runs)) {
        for (int32_t i = 0; i < params.runs.count; i++)
            params.runs.run[i].position = a->pos[params.runs.run[i].sequence] + params.runs.run[i].first;
        error = append_launch(&params, run->stream);
    }
    return error;
}

static tdm_status append_run(const struct tdm_op *op, const struct run *run)
{
    return cuda_run(op, run, append_enqueue);
}

const struct impl cuda_append = {.name = "cuda_append", .op = OP_KV_APPEND, .fits = append_fits, .run = append_run};
