/* The matrix product of cuBLAS, loaded when a device was found: linking it costs every start 60 ms and 155 MB. */
#ifndef CUDA_BLAS_H
#define CUDA_BLAS_H

#include "cuda.h"

#ifndef BLAS_WORKSPACE_MIB
#define BLAS_WORKSPACE_MIB 32 /* what the manual of cuBLAS recommends from sm_90 on */
#endif
enum { BLAS_WORKSPACE = BLAS_WORKSPACE_MIB << 20 }; /* bytes */

/* Load the library; without it state->blas stays NULL, with the reason. */
void blas_open(struct cuda_state *state);
void blas_close(struct cuda_state *state);

tdm_status blas_handle_create(const struct cuda_state *state, void **handle);
void blas_handle_destroy(const struct cuda_state *state, void *handle);

/* out[m, n] = sum over k of a[m, k] * b[n, k]; a and b are f32, f16 or bf16, sums f32. Leading dimensions in elements.
 * `workspace` is BLAS_WORKSPACE bytes on the device. */
struct blas_product {
    int64_t m, n, k;
    tdm_dtype dtype, out_dtype; /* of out: a's, or 0: f32 */
    const void *a, *b;
    void *out;
    int64_t a_stride, b_stride, out_stride;
    void *workspace;
};
cudaError_t blas_multiply(const struct cuda_state *state, void *handle, const struct blas_product *p,
                          cudaStream_t stream);

#endif
