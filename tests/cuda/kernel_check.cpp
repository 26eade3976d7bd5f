#include "kernel_check.h"

#include <cstdarg>
#include <cstring>

namespace
{

const char *const orders[] = {"forward", "reverse", "1", "2"};

struct {
    const char *group = "", *order = "";
    int failures = 0;
} now;

bool is_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return argc == 1;
}

} // namespace

void choose_order(const char *order)
{
    now.order = order;
    setenv("SHIM_ORDER", order, 1);
}

bool expect(bool ok, const char *format, ...)
{
    if (ok)
        return true;
    now.failures++;
    printf("FAILED %s, order %s: ", now.group, now.order);
    va_list values;
    va_start(values, format);
    vprintf(format, values);
    va_end(values);
    printf("\n");
    return false;
}

int kernel_check(const check_group *groups, size_t count, int argc, char **argv)
{
    int ran = 0;
    for (size_t i = 0; i < count; i++)
        if (is_wanted(groups[i].name, argc, argv)) {
            now.group = groups[i].name;
            const int before = now.failures;
            for (const char *order : orders) {
                choose_order(order);
                groups[i].run();
            }
            printf("%s: %s\n", now.group, now.failures == before ? "passed" : "FAILED");
            ran++;
        }
    return now.failures || !ran;
}
