/* The smallest host: the header and the library that are installed belong together and work. */
#include <tandem.h>

#include <stdio.h>

/* A host has such names of its own; a static library must not take them. */
int fail(void), check_data(void), cpu_detect(void), log_open(void), leaf_scalar;

int fail(void)
{
    return 1;
}

int check_data(void)
{
    return fail();
}

int cpu_detect(void)
{
    return fail();
}

int log_open(void)
{
    return fail();
}

int main(void)
{
    tdm_ctx *ctx = NULL;
    tdm_device_info info = TDM_INIT(tdm_device_info);
    if (tdm_open(TDM_VERSION, NULL, &ctx) || tdm_device_get(ctx, (tdm_device){TDM_CPU, 0}, &info)) {
        fprintf(stderr, "%s\n", tdm_last_error());
        return 1;
    }
    printf("%s\n", info.name);
    tdm_close(ctx);
    return tdm_version() != TDM_VERSION || !info.present;
}
