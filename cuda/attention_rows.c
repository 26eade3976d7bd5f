#include "attention_rows.h"

#include <stdio.h>

bool fits_wishes(const struct wish *wishes, size_t count, char *reason)
{
    for (size_t i = 0; i < count; i++)
        if (wishes[i].wanted) {
            snprintf(reason, REASON_SIZE, "%s is set, which this device has no kernel for", wishes[i].field);
            return false;
        }
    return true;
}
