/* safetensors.h - read a safetensors file, trusting nothing that it says about itself.
 *
 * The file is 8 bytes of header length, a JSON header that names each tensor's dtype, shape and place, and the
 * data. After a successful open every tensor lies inside the file, aligned to its element, its bytes agree with
 * its shape, and the tensors cover the data without overlap or hole. */
#ifndef SAFETENSORS_H
#define SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"

enum { ST_MAX_RANK = 8 };

typedef enum st_dtype {
    ST_BOOL,
    ST_U8,
    ST_I8,
    ST_F8_E5M2,
    ST_F8_E4M3,
    ST_F8_E8M0,
    ST_I16,
    ST_U16,
    ST_F16,
    ST_BF16,
    ST_I32,
    ST_U32,
    ST_F32,
    ST_I64,
    ST_U64,
    ST_F64,
    ST_DTYPES
} st_dtype;

typedef struct st_tensor {
    const char *name;
    st_dtype dtype;
    int rank;
    int64_t dim[ST_MAX_RANK];
    const void *data;
    size_t bytes;
} st_tensor;

typedef struct safetensors {
    const unsigned char *bytes;
    size_t size;
    bool mapped;
    struct cJSON *header; /* owns the names and the metadata */
    st_tensor *tensors;   /* sorted by name */
    size_t count;
} safetensors;

/* Map a file and check all of its header. */
bool st_open(safetensors *file, const char *path, error *err);

/* The same for bytes in memory, which stay the caller's, must outlive the reader and start on 8 bytes. */
bool st_open_memory(safetensors *file, const void *bytes, size_t size, error *err);

void st_close(safetensors *file);

const char *st_dtype_name(st_dtype dtype);

/* The tensor of that name, or NULL. */
const st_tensor *st_find(const safetensors *file, const char *name);

/* The tensor of that name, dtype and shape; NULL and a message when it is not so. A dim of -1 takes any size. */
const st_tensor *st_require(const safetensors *file, const char *name, st_dtype dtype, int rank, const int64_t *dim,
                            error *err);

/* The string of that key in the file's metadata, or NULL. */
const char *st_metadata(const safetensors *file, const char *key);

#endif
