#include "error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last_error[1024];

tdm_status fail(tdm_status status, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(last_error, sizeof last_error, format, values);
    va_end(values);
    return status;
}

const char *tdm_last_error(void)
{
    return last_error;
}

const char *tdm_status_name(tdm_status status)
{
    static const char *const names[] = {"TDM_OK",        "TDM_BAD_ARG",   "TDM_UNSUPPORTED",
                                        "TDM_NO_DEVICE", "TDM_NO_MEMORY", "TDM_DEVICE_ERROR"};
    unsigned index = (unsigned)status;
    return index < sizeof names / sizeof *names ? names[index] : "unknown status";
}

uint32_t tdm_version(void)
{
    return TDM_VERSION;
}
