#include "safetensors.h"

#include <cJSON.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LENGTH_BYTES = 8, MAX_HEADER = 100 * 1000 * 1000 };

static const struct {
    const char *name;
    size_t size;
} dtypes[ST_DTYPES] = {
    [ST_BOOL] = {"BOOL", 1},       [ST_U8] = {"U8", 1},           [ST_I8] = {"I8", 1},   [ST_F8_E5M2] = {"F8_E5M2", 1},
    [ST_F8_E4M3] = {"F8_E4M3", 1}, [ST_F8_E8M0] = {"F8_E8M0", 1}, [ST_I16] = {"I16", 2}, [ST_U16] = {"U16", 2},
    [ST_F16] = {"F16", 2},         [ST_BF16] = {"BF16", 2},       [ST_I32] = {"I32", 4}, [ST_U32] = {"U32", 4},
    [ST_F32] = {"F32", 4},         [ST_I64] = {"I64", 8},         [ST_U64] = {"U64", 8}, [ST_F64] = {"F64", 8},
};

const char *st_dtype_name(st_dtype dtype)
{
    return dtypes[dtype].name;
}

/* A whole number that a double holds exactly; JSON knows no other numbers. */
static bool read_size(const cJSON *item, int64_t *value)
{
    const double largest = 9007199254740992.0;
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= largest)) {
        return false;
    }
    *value = (int64_t)item->valuedouble;
    return (double)*value == item->valuedouble;
}

static bool read_dtype(const cJSON *item, st_tensor *tensor, error *err)
{
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    if (!cJSON_IsString(dtype)) {
        return fail(err, "dtype of %s: got no string", tensor->name);
    }
    for (int i = 0; i < ST_DTYPES; i++) {
        if (strcmp(dtypes[i].name, dtype->valuestring) == 0) {
            tensor->dtype = (st_dtype)i;
            return true;
        }
    }
    /* F8_E4M3FNUZ ends here: its codes mean other numbers than those of F8_E4M3. */
    return fail(err, "dtype of %s: %.32s is not handled", tensor->name, dtype->valuestring);
}

/* Read the shape, and the bytes that it makes, into the tensor. */
static bool read_shape(const cJSON *item, st_tensor *tensor, error *err)
{
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(item, "shape"), *dim;
    if (!cJSON_IsArray(shape)) {
        return fail(err, "shape of %s: got no array", tensor->name);
    }
    size_t bytes = dtypes[tensor->dtype].size;
    cJSON_ArrayForEach(dim, shape)
    {
        if (tensor->rank == ST_MAX_RANK) {
            return fail(err, "shape of %s: more than %d dimensions", tensor->name, ST_MAX_RANK);
        }
        int64_t *size = &tensor->dim[tensor->rank++];
        if (!read_size(dim, size)) {
            return fail(err, "shape of %s: dimension %d is not a size", tensor->name, tensor->rank - 1);
        }
        if (__builtin_mul_overflow(bytes, (size_t)*size, &bytes)) {
            return fail(err, "shape of %s: the number of bytes overflows", tensor->name);
        }
    }
    tensor->bytes = bytes;
    return true;
}

/* Read where the data lies and check that against the shape and the file. */
static bool read_place(const cJSON *item, st_tensor *tensor, const unsigned char *data, size_t available, error *err)
{
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    int64_t begin, end;
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !read_size(cJSON_GetArrayItem(offsets, 0), &begin) || !read_size(cJSON_GetArrayItem(offsets, 1), &end)) {
        return fail(err, "data_offsets of %s: want two sizes", tensor->name);
    }
    if (begin > end || (uint64_t)end > available) {
        return fail(err, "data_offsets of %s: got %lld..%lld, the file holds %zu bytes of data", tensor->name,
                    (long long)begin, (long long)end, available);
    }
    if ((size_t)(end - begin) != tensor->bytes) {
        return fail(err, "data_offsets of %s: got %lld bytes, its dtype and shape make %zu", tensor->name,
                    (long long)(end - begin), tensor->bytes);
    }
    tensor->data = data + begin;
    if ((uintptr_t)tensor->data % dtypes[tensor->dtype].size != 0) {
        return fail(err, "data_offsets of %s: %lld is not aligned to its dtype", tensor->name, (long long)begin);
    }
    return true;
}

static bool read_tensors(safetensors *file, const unsigned char *data, size_t available, error *err)
{
    const cJSON *item;
    file->tensors = calloc((size_t)cJSON_GetArraySize(file->header) + 1, sizeof *file->tensors);
    if (file->tensors == NULL) {
        return fail(err, "header: no memory for its tensors");
    }
    cJSON_ArrayForEach(item, file->header)
    {
        if (strcmp(item->string, "__metadata__") == 0) {
            continue;
        }
        st_tensor *tensor = &file->tensors[file->count++];
        tensor->name = item->string;
        if (!read_dtype(item, tensor, err) || !read_shape(item, tensor, err) ||
            !read_place(item, tensor, data, available, err)) {
            return false;
        }
    }
    return true;
}

static int by_place(const void *a, const void *b)
{
    const st_tensor *x = a, *y = b;
    if (x->data != y->data) {
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    }
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const st_tensor *)a)->name, ((const st_tensor *)b)->name);
}

/* The tensors must cover the data exactly, and no two may have one name. Leaves them sorted by name. */
static bool check_tensors(safetensors *file, const unsigned char *data, size_t available, error *err)
{
    const unsigned char *expected = data;
    qsort(file->tensors, file->count, sizeof *file->tensors, by_place);
    for (size_t i = 0; i < file->count; i++) {
        const st_tensor *tensor = &file->tensors[i];
        if (tensor->data != expected) {
            return fail(err, "data_offsets of %s: it does not start where the tensor before it ends", tensor->name);
        }
        expected += tensor->bytes;
    }
    if (expected != data + available) {
        return fail(err, "header: the last tensor ends at %zu, the data at %zu", (size_t)(expected - data), available);
    }
    qsort(file->tensors, file->count, sizeof *file->tensors, by_name);
    for (size_t i = 1; i < file->count; i++) {
        if (by_name(&file->tensors[i - 1], &file->tensors[i]) == 0) {
            return fail(err, "%s: there are two tensors of this name", file->tensors[i].name);
        }
    }
    return true;
}

static bool check_metadata(const safetensors *file, error *err)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(file->header, "__metadata__"), *item;
    if (metadata != NULL && !cJSON_IsObject(metadata)) {
        return fail(err, "__metadata__: got no object");
    }
    cJSON_ArrayForEach(item, metadata)
    {
        if (!cJSON_IsString(item)) {
            return fail(err, "__metadata__: the value of %s is no string", item->string);
        }
    }
    return true;
}

static bool parse_header(safetensors *file, size_t length, error *err)
{
    const char *text = (const char *)file->bytes + LENGTH_BYTES, *end;
    file->header = cJSON_ParseWithLengthOpts(text, length, &end, false);
    if (!cJSON_IsObject(file->header)) {
        return fail(err, "header: not a JSON object");
    }
    while (end < text + length && *end == ' ') {
        end++;
    }
    return end == text + length || fail(err, "header: text after the JSON object");
}

static bool open_bytes(safetensors *file, error *err)
{
    uint64_t length = 0;
    if (file->size < LENGTH_BYTES) {
        return fail(err, "header length: the file has only %zu bytes", file->size);
    }
    for (int i = LENGTH_BYTES - 1; i >= 0; i--) {
        length = length << 8 | file->bytes[i];
    }
    if (length > file->size - LENGTH_BYTES || length > MAX_HEADER) {
        return fail(err, "header length: got %llu, the file has %zu bytes", (unsigned long long)length, file->size);
    }
    const unsigned char *data = file->bytes + LENGTH_BYTES + length;
    size_t available = file->size - LENGTH_BYTES - length;
    return parse_header(file, length, err) && check_metadata(file, err) && read_tensors(file, data, available, err) &&
           check_tensors(file, data, available, err);
}

bool st_open_memory(safetensors *file, const void *bytes, size_t size, error *err)
{
    *file = (safetensors){.bytes = bytes, .size = size};
    if (!open_bytes(file, err)) {
        st_close(file);
        return false;
    }
    return true;
}

bool st_open(safetensors *file, const char *path, error *err)
{
    struct stat status;
    *file = (safetensors){0};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) {
        if (descriptor >= 0) {
            close(descriptor);
        }
        return fail(err, "cannot read it, or it is empty or no regular file");
    }
    void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    close(descriptor);
    if (bytes == MAP_FAILED) {
        return fail(err, "cannot map it into memory");
    }
    *file = (safetensors){.bytes = bytes, .size = (size_t)status.st_size, .mapped = true};
    if (!open_bytes(file, err)) {
        st_close(file);
        return false;
    }
    return true;
}

void st_close(safetensors *file)
{
    cJSON_Delete(file->header);
    free(file->tensors);
    if (file->mapped) {
        munmap((void *)(uintptr_t)file->bytes, file->size);
    }
    *file = (safetensors){0};
}

const st_tensor *st_find(const safetensors *file, const char *name)
{
    const st_tensor key = {.name = name};
    return file->count == 0 ? NULL : bsearch(&key, file->tensors, file->count, sizeof key, by_name);
}

const st_tensor *st_require(const safetensors *file, const char *name, st_dtype dtype, int rank, const int64_t *dim,
                            error *err)
{
    const st_tensor *tensor = st_find(file, name);
    if (tensor == NULL) {
        fail(err, "%s: this tensor is missing", name);
        return NULL;
    }
    if (tensor->dtype != dtype) {
        fail(err, "dtype of %s: got %s, want %s", name, st_dtype_name(tensor->dtype), st_dtype_name(dtype));
        return NULL;
    }
    if (tensor->rank != rank) {
        fail(err, "shape of %s: got %d dimensions, want %d", name, tensor->rank, rank);
        return NULL;
    }
    for (int i = 0; i < rank; i++) {
        if (dim[i] != -1 && dim[i] != tensor->dim[i]) {
            fail(err, "shape of %s: dimension %d: got %lld, want %lld", name, i, (long long)tensor->dim[i],
                 (long long)dim[i]);
            return NULL;
        }
    }
    return tensor;
}

const char *st_metadata(const safetensors *file, const char *key)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(file->header, "__metadata__");
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(metadata, key);
    return item != NULL ? item->valuestring : NULL;
}
