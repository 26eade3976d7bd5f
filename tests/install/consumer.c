/* The smallest host: the header and the library that are installed belong together and work. */
#include <tandem.h>

#include <stdio.h>

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
