#include "error.h"

#include <stdarg.h>
#include <stdio.h>

bool fail(error *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return false;
}

bool check(error *err, tdm_status status, const char *what)
{
    return status == TDM_OK || fail(err, "%s: %s (%s)", what, tdm_last_error(), tdm_status_name(status));
}
