/* Streams and marks of a GPU: what waits for what. */
#include "product.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1000 };

static const char *const orders[] = {"forward", "reverse", "1", "2", "3", "4"};

/* An enqueued copy is done when the stream was waited for; the emulated device does it no sooner. */
Test(streams, a_copy_is_done_by_the_sync)
{
    tdm_ctx *ctx = device_open();
    void *streams[] = {NULL, device_stream(ctx)};
    float *there = device_floats(ctx, TDM_DEVICE_MEMORY, 1), *pinned = device_floats(ctx, TDM_PINNED_HOST, 1);
    for (int i = 0; i < 2; i++) {
        const float x = 5 + (float)i;
        *pinned = -1;
        to_device(ctx, there, &x, 1, streams[i]);
        to_host(ctx, pinned, there, 1, streams[i]);
        cr_expect(!test_shares_memory() || *pinned == -1, "the copy did not wait");
        MUST(tdm_stream_sync(ctx, test_device(), streams[i]));
        cr_expect_eq(*pinned, x);
    }
    tdm_free(ctx, test_device(), TDM_DEVICE_MEMORY, there);
    tdm_free(ctx, test_device(), TDM_PINNED_HOST, pinned);
    tdm_stream_destroy(ctx, test_device(), streams[1]);
    tdm_close(ctx);
}

/* What one stream writes, another reads behind a mark, whichever of them the device favours. */
Test(streams, a_mark_orders_them)
{
    for (size_t order = 0; order < sizeof orders / sizeof *orders; order++) {
        setenv("SHIM_ORDER", orders[order], 1);
        tdm_ctx *ctx = device_open();
        void *writer = device_stream(ctx), *reader = device_stream(ctx);
        float *there = device_floats(ctx, TDM_DEVICE_MEMORY, N), *from = device_floats(ctx, TDM_PINNED_HOST, N),
              *back = device_floats(ctx, TDM_PINNED_HOST, N);
        tdm_mark *written, *read;
        MUST(tdm_mark_create(ctx, test_device(), &written));
        MUST(tdm_mark_create(ctx, test_device(), &read));
        for (int turn = 0; turn < 3; turn++) {
            for (int i = 0; i < N; i++)
                from[i] = (float)(i + turn);
            MUST(tdm_mark_wait(read, writer)); /* the first time it was never recorded: nothing to wait for */
            to_device(ctx, there, from, N, writer);
            MUST(tdm_mark_record(written, writer));
            MUST(tdm_mark_wait(written, reader));
            to_host(ctx, back, there, N, reader);
            MUST(tdm_mark_record(read, reader));
            MUST(tdm_mark_sync(read));
            cr_expect_arr_eq(back, from, N * sizeof(float), "order %s, turn %d", orders[order], turn);
        }
        tdm_mark_destroy(written);
        tdm_mark_destroy(read);
        tdm_free(ctx, test_device(), TDM_DEVICE_MEMORY, there);
        tdm_free(ctx, test_device(), TDM_PINNED_HOST, from);
        tdm_free(ctx, test_device(), TDM_PINNED_HOST, back);
        tdm_stream_destroy(ctx, test_device(), writer);
        tdm_stream_destroy(ctx, test_device(), reader);
        tdm_close(ctx);
    }
}

Test(streams, marks_and_their_time)
{
    tdm_ctx *ctx = device_open();
    void *stream = device_stream(ctx);
    float *there = device_floats(ctx, TDM_DEVICE_MEMORY, N), from[N] = {0}, milliseconds = -1;
    tdm_mark *first, *last;
    MUST(tdm_mark_create(ctx, test_device(), &first));
    MUST(tdm_mark_create(ctx, test_device(), &last));
    MUST(tdm_mark_sync(first));
    EXPECT_FAILURE(TDM_BAD_ARG, "first", tdm_mark_elapsed(first, last, &milliseconds));
    MUST(tdm_mark_record(first, stream));
    EXPECT_FAILURE(TDM_BAD_ARG, "last", tdm_mark_elapsed(first, last, &milliseconds));
    to_device(ctx, there, from, N, stream);
    MUST(tdm_mark_record(last, stream));
    if (test_shares_memory())
        EXPECT_FAILURE(TDM_BAD_ARG, "last", tdm_mark_elapsed(first, last, &milliseconds));
    cr_expect_eq(milliseconds, -1, "a failed call writes nothing");
    MUST(tdm_mark_sync(last));
    MUST(tdm_mark_elapsed(first, last, &milliseconds));
    cr_expect(milliseconds >= 0, "%g ms", milliseconds);
    tdm_mark_destroy(first);
    tdm_mark_destroy(last);
    tdm_free(ctx, test_device(), TDM_DEVICE_MEMORY, there);
    tdm_stream_destroy(ctx, test_device(), stream);
    tdm_close(ctx);
}

/* A stream belongs to one device; using it with another is the caller's mistake and enqueues nothing. */
Test(streams, of_another_device)
{
    tdm_ctx *ctx = device_open_emulated("SHIM_DEVICES", "90,90");
    const tdm_device cpu = {TDM_CPU, 0}, other = {TDM_CUDA, 1};
    float *there = device_floats(ctx, TDM_DEVICE_MEMORY, 1), x = 1, back = 0;
    void *strange, *own = device_stream(ctx);
    tdm_mark *here, *elsewhere;
    struct product p;
    product_new(&p, ctx, own, FEW);
    MUST(tdm_stream_create(ctx, other, &strange));
    MUST(tdm_mark_create(ctx, test_device(), &here));
    MUST(tdm_mark_create(ctx, other, &elsewhere));
    to_device(ctx, there, &x, 1, own);
    MUST(tdm_stream_sync(ctx, test_device(), own));
    x = 2;
    EXPECT_FAILURE(TDM_BAD_ARG, "stream", tdm_copy(ctx, test_device(), there, cpu, &x, sizeof x, strange));
    EXPECT_FAILURE(TDM_BAD_ARG, "stream", tdm_mark_record(here, strange));
    EXPECT_FAILURE(TDM_BAD_ARG, "stream", tdm_stream_sync(ctx, test_device(), strange));
    EXPECT_FAILURE(TDM_BAD_ARG, "stream", tdm_graph_begin(ctx, test_device(), strange));
    EXPECT_FAILURE(TDM_BAD_ARG, "stream", tdm_fp8_matmul_run(p.op, p.workspace, strange, &p.args));
    MUST(tdm_mark_record(elsewhere, strange));
    MUST(tdm_mark_record(here, own));
    EXPECT_FAILURE(TDM_BAD_ARG, "last", tdm_mark_elapsed(here, elsewhere, &back));
    to_host(ctx, &back, there, 1, own);
    MUST(tdm_stream_sync(ctx, other, strange));
    MUST(tdm_stream_sync(ctx, test_device(), own));
    cr_expect_eq(back, 1);
    product_free(&p, ctx);
    tdm_mark_destroy(here);
    tdm_mark_destroy(elsewhere);
    tdm_free(ctx, test_device(), TDM_DEVICE_MEMORY, there);
    tdm_stream_destroy(ctx, other, strange);
    tdm_stream_destroy(ctx, test_device(), own);
    tdm_close(ctx);
}

static void set_symbol(void *function, void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    cr_assert_not_null(symbol, "%s", dlerror());
    memcpy(function, &symbol, sizeof symbol);
}

/* A thread's current device is what the host made it, whatever Tandem did in between. */
Test(streams, leave_the_current_device_alone)
{
    tdm_ctx *ctx = device_open_emulated("SHIM_DEVICES", "90,75");
    const tdm_device cpu = {TDM_CPU, 0}, gpu = test_device();
    void *stream, *memory, *pinned;
    int (*set)(int), (*get)(int *), now = -1;
    float x = 1;
    tdm_mark *mark;
    MUST(tdm_alloc(ctx, gpu, TDM_DEVICE_MEMORY, 4, &memory)); /* loads the plugin */
    void *plugin = dlopen(strchr(test_plugin(), '=') + 1, RTLD_NOW | RTLD_NOLOAD);
    cr_assert_not_null(plugin, "%s", dlerror());
    set_symbol(&set, plugin, "cudaSetDevice");
    set_symbol(&get, plugin, "cudaGetDevice");
    cr_assert_eq(set(1), 0);
    MUST(tdm_stream_create(ctx, gpu, &stream));
    MUST(tdm_alloc(ctx, gpu, TDM_PINNED_HOST, 4, &pinned));
    MUST(tdm_mark_create(ctx, gpu, &mark));
    MUST(tdm_copy(ctx, gpu, memory, cpu, &x, 4, stream));
    MUST(tdm_mark_record(mark, stream));
    MUST(tdm_mark_wait(mark, stream));
    MUST(tdm_mark_sync(mark));
    MUST(tdm_stream_sync(ctx, gpu, stream));
    EXPECT_FAILURE(TDM_NO_MEMORY, "bytes", tdm_alloc(ctx, gpu, TDM_DEVICE_MEMORY, (size_t)1 << 50, (void *[]){NULL}));
    tdm_mark_destroy(mark);
    tdm_free(ctx, gpu, TDM_PINNED_HOST, pinned);
    tdm_free(ctx, gpu, TDM_DEVICE_MEMORY, memory);
    tdm_stream_destroy(ctx, gpu, stream);
    cr_assert_eq(get(&now), 0);
    cr_expect_eq(now, 1);
    tdm_close(ctx);
    dlclose(plugin);
}
