/* fp8_matmul on CUDA: what its rows (C) and its kernels (CUDA C++) share. Strides are in bytes. */
#ifndef CUDA_FP8_MATMUL_H
#define CUDA_FP8_MATMUL_H

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    FP8_CHUNK = 16,    /* weights of one vector load                                                     */
    FP8_WINDOW = 64,   /* columns of K that mma_gemv multiplies before it scales: four chunks of a row   */
    FP8_MMA_ROWS = 64, /* the most rows of activations of mma_gemv                                       */
    FP8_ALIGNMENT = 16 /* bytes, of what vector loads read                                               */
};

struct fp8_weights {
    const uint8_t *codes;
    int64_t stride;
    const void *scale;                  /* [ceil(n / block_n), k_blocks] of scale_dtype */
    tdm_dtype scale_dtype;              /* f32, bf16 or e8m0                            */
    int64_t n, k;                       /* below 2^31                                   */
    int64_t block_n, block_k, k_blocks; /* blocks no larger than the matrix             */
};

/* Activations [m, k] of dtype, the bias and the output. */
struct fp8_gemv {
    struct fp8_weights b;
    tdm_dtype dtype;
    int64_t m;
    const void *a;
    int64_t a_stride;
    const float *a_scale; /* row i of a stands for itself times a_scale[i * a_scale_step]; NULL: for itself */
    int64_t a_scale_step;
    bool round;   /* a is first divided by that and rounded to e4m3: mma_gemv of up to 8 rows  */
    bool vectors; /* rows of a and b may be read by 16 bytes                                   */
    int multiprocessors;
    const void *bias; /* NULL: none */
    void *out;
    int64_t out_stride;
};

/* out = the sums, scaled, plus the bias. mma_gemv: f16 and bf16, `vectors`. */
cudaError_t fp8_mma_gemv(const struct fp8_gemv *p, cudaStream_t stream);
cudaError_t fp8_warp_gemv(const struct fp8_gemv *p, cudaStream_t stream);

/* W8A8: each row of a becomes e4m3(a / s), again as dtype, which holds it exactly, and its s. */
struct fp8_rounding {
    tdm_dtype dtype;
    int64_t m, k;
    const void *a;
    int64_t a_stride;
    const float *a_scale; /* s of all rows; NULL: each row's own, from its largest magnitude */
    void *codes;          /* [m, k] dense                                                    */
    float *scales;        /* [m]                                                             */
};
cudaError_t fp8_round(const struct fp8_rounding *p, cudaStream_t stream);

/* Weights for a product in dtype: row n is weights * 2^-exponent[n / block_n], so that it fits f16 whatever its scales
 * are. */
struct fp8_dequantization {
    struct fp8_weights b;
    tdm_dtype dtype;
    int64_t first, rows; /* rows [first, first + rows) of b                                      */
    int32_t *exponents;  /* of each row of scales: written by fp8_exponents, read by the others */
    bool vectors;        /* 16 neighbours have one scale and may be read by 16 bytes            */
    void *out;           /* [rows, k] dense                                                      */
};
cudaError_t fp8_exponents(const struct fp8_dequantization *p, cudaStream_t stream);
cudaError_t fp8_dequantize(const struct fp8_dequantization *p, cudaStream_t stream);

/* out = sums * 2^exponent * a_scale + bias, rounded once. */
struct fp8_result {
    tdm_dtype dtype;
    int64_t m, n;
    int64_t first;     /* column of the weights that column 0 stands for, also in bias and out */
    const float *sums; /* [m, n] dense; NULL: zeros                                            */
    const int32_t *exponents;
    int64_t block_n;
    const float *a_scale; /* [m]; NULL: 1 */
    const void *bias;
    void *out;
    int64_t out_stride;
};
cudaError_t fp8_finish(const struct fp8_result *p, cudaStream_t stream);

/* What the rows share: fp8_rows.c. */
extern const struct impl cuda_fp8_mma_gemv, cuda_fp8_warp_gemv, cuda_fp8_dequant_cublas;
struct fp8_weights fp8_weights_of(const tdm_fp8_matmul_desc *desc, const tdm_fp8_matmul_args *args);
int64_t fp8_element(tdm_dtype dtype); /* bytes */

/* Whether a run of the op may call cuBLAS, so that its scratch needs a handle. */
bool fp8_calls_blas(const struct tdm_op *op);

#ifdef __cplusplus
}
#endif
#endif
