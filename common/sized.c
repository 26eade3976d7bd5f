#include "sized.h"

#include "error.h"

#include <string.h>

enum { LONGEST = 1 << 16 }; /* far beyond any struct: a larger size is an uninitialised one */

static tdm_status check_size(const char *field, const void *record, size_t least, size_t *size)
{
    *size = 0;
    if (!record)
        return fail(TDM_BAD_ARG, "%s: got NULL, want a pointer", field);
    memcpy(size, record, sizeof *size);
    if (*size < least || *size > LONGEST)
        return fail(TDM_BAD_ARG, "%s.struct_size: got %zu, want %zu (set it with TDM_INIT)", field, *size, least);
    return TDM_OK;
}

tdm_status sized_read(const char *field, void *dst, size_t known, size_t least, const void *src)
{
    size_t size;
    tdm_status status = check_size(field, src, least, &size);
    if (status)
        return status;
    const unsigned char *bytes = src;
    for (size_t i = known; i < size; i++)
        if (bytes[i])
            return fail(TDM_BAD_ARG, "%s: byte %zu is set, but this library (%d.%d) knows %zu bytes of the struct",
                        field, i, TDM_VERSION_MAJOR, TDM_VERSION_MINOR, known);
    memset(dst, 0, known);
    memcpy(dst, src, size < known ? size : known);
    memcpy(dst, &known, sizeof known);
    return TDM_OK;
}

tdm_status sized_write(const char *field, void *dst, const void *src, size_t known)
{
    size_t size;
    tdm_status status = check_size(field, dst, sizeof size, &size);
    if (status)
        return status;
    size_t end = size < known ? size : known;
    memcpy((char *)dst + sizeof size, (const char *)src + sizeof size, end - sizeof size);
    return TDM_OK;
}
