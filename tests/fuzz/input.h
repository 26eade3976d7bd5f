/* What the targets share that create ops and run what is accepted: an input as numbers, a desc to spoil, and data in
 * blocks of exactly the size that the desc gives, so that AddressSanitizer sees a stray access. */
#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H

#include "tandem.h"

enum { MOST_BYTES = 1 << 16, MOST_SCRATCH = 1 << 26, LONGEST = 1 << 16 };

static const tdm_device cpu = {TDM_CPU, 0};
extern tdm_ctx *ctx;

struct input {
    const uint8_t *next, *end;
};
uint8_t take(struct input *in);
int64_t small(struct input *in, int64_t least, int64_t most);
int64_t odd_value(struct input *in);

/* A dimension that all tensors of a desc agree on, at times a huge one. */
int64_t dimension(struct input *in, int64_t most);

/* ---- descs ------------------------------------------------------------------------------ */

/* Every desc fits, with zeros behind it as far as a struct_size may claim. */
extern union any_desc {
    tdm_kv_append_desc append;
    tdm_gqa_desc gqa;
    tdm_kv_shift_desc shift;
    tdm_merge_states_desc merge;
    tdm_product_desc product;
    tdm_fp8_matmul_desc fp8;
    tdm_convert_desc convert;
    size_t words[LONGEST / sizeof(size_t)];
} desc;

tdm_tensor tensor(tdm_dtype dtype, int rank, int64_t d0, int64_t d1, int64_t d2, int64_t d3);
tdm_dtype float_type(struct input *in);
/* Of any cache type. */
tdm_tensor stored(struct input *in, int rank, const int64_t dim[4]);
tdm_rotary rotary(struct input *in, int64_t head_dim);

/* ---- data -------------------------------------------------------------------------------- */

/* NULL when it would be large. */
void *block(struct input *in, double bytes);
double row_bytes(tdm_dtype dtype, double n);
double tensor_bytes(const tdm_tensor *tensor);
double dim(const tdm_tensor *tensor, int from_last);
float *scales(struct input *in, const tdm_tensor *tensor);
/* n lengths, at times one past `most` or negative. */
int32_t *lengths(struct input *in, double n, int64_t most);
tdm_kv_data cache_data(struct input *in, const tdm_kv_cache *cache);
/* The cosines or sines of the rotary; NULL without one. */
const void *table(struct input *in, const tdm_rotary *rotary);

/* ---- one input ----------------------------------------------------------------------------- */

typedef size_t describe_function(struct input *in, int kind); /* fills desc, returns its size */
typedef tdm_status create_function(int kind, tdm_op **op);
typedef void run_function(struct input *in, int kind, const tdm_op *op, tdm_workspace *workspace);

/* Describe one of `ops` kinds, overwrite some words of the desc, create it and run what is accepted. */
int fuzz(const uint8_t *data, size_t size, int ops, describe_function *describe, create_function *create,
         run_function *run);

#endif
