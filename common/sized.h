/* Public structs that may be shorter or longer than this library knows them. */
#ifndef COMMON_SIZED_H
#define COMMON_SIZED_H

#include "tandem.h"

/* Copy the caller's struct, whose first member is struct_size, into `known` bytes at dst.
 * BAD_ARG when it is NULL, shorter than `least`, or longer than known and not zero past that. */
tdm_status sized_read(const char *field, void *dst, size_t known, size_t least, const void *src);

/* Give the caller as much of src (known bytes) as its struct_size has room for; struct_size stays. */
tdm_status sized_write(const char *field, void *dst, const void *src, size_t known);

#endif
