/* Status names and the calling thread's error text, the library's only thread-local. */
#ifndef COMMON_ERROR_H
#define COMMON_ERROR_H

#include "tandem.h"

/* Set the error text of this thread, as "field: got X, want Y", and return status. */
__attribute__((format(printf, 2, 3))) tdm_status fail(tdm_status status, const char *format, ...);

#endif
