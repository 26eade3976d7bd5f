// A C++ host: TDM_INIT sets up a struct of any kind, and the library sees the size that C++ gave it.
#include <tandem.h>

#include <cstdio>

int main()
{
    tdm_options options = TDM_INIT(tdm_options);
    options.threads = 1;
    tdm_ctx *ctx = nullptr;
    auto info = TDM_INIT(tdm_device_info);
    if (tdm_open(TDM_VERSION, &options, &ctx) || tdm_device_get(ctx, tdm_device{TDM_CPU, 0}, &info)) {
        std::fprintf(stderr, "%s\n", tdm_last_error());
        return 1;
    }
    tdm_close(ctx);
    return options.struct_size != sizeof(tdm_options) || info.threads != 1;
}
