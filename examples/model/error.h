/* error.h - what went wrong, in words for the user.
 *
 * A function that can fail takes an error, fills it in and returns false; only main prints and exits. */
#ifndef ERROR_H
#define ERROR_H

#include <stdbool.h>

#include <tandem.h>

typedef struct error {
    char text[512];
} error;

/* Write the message and return false, so that a caller can say: return fail(err, ...). */
__attribute__((format(printf, 2, 3))) bool fail(error *err, const char *format, ...);

/* True when a call of the library succeeded; else its message goes into the error, after `what`. */
bool check(error *err, tdm_status status, const char *what);

#endif
