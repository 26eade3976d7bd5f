/* Memory of a GPU, pinned and registered memory, and copies. */
#include "product.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const tdm_device cpu = {TDM_CPU, 0};

static void fill(unsigned char *bytes, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(i * 37 + i / 251 + seed);
}

/* Host to device, to another place there, and back: every byte. */
Test(memory, there_and_back)
{
    static const size_t sizes[] = {1, 3, 64, 4097, 1 << 20};
    static const tdm_memory kinds[] = {TDM_DEVICE_MEMORY, TDM_PINNED_HOST};
    tdm_ctx *ctx = device_open();
    const tdm_device gpu = test_device();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t n = sizes[i];
        unsigned char *from = malloc(n), *back = malloc(n);
        void *place[2];
        fill(from, n, (unsigned)i);
        memset(back, 0, n);
        for (int j = 0; j < 2; j++) {
            MUST(tdm_alloc(ctx, gpu, kinds[j], n, &place[j]));
            cr_expect_eq((uintptr_t)place[j] % 64, 0, "%zu bytes lie at %p", n, place[j]);
        }
        MUST(tdm_copy(ctx, gpu, place[0], cpu, from, n, NULL));
        MUST(tdm_copy(ctx, cpu, place[1], gpu, place[0], n, NULL));
        MUST(tdm_copy(ctx, gpu, place[0], gpu, place[0], 0, NULL));
        MUST(tdm_copy(ctx, cpu, back, cpu, back, 0, NULL));
        MUST(tdm_stream_sync(ctx, gpu, NULL));
        cr_expect_arr_eq(place[1], from, n, "%zu bytes, pinned", n);
        memset(place[1], 0xA5, n);
        MUST(tdm_copy(ctx, gpu, place[0], cpu, place[1], n, NULL));
        MUST(tdm_copy(ctx, cpu, back, gpu, place[0], n, NULL));
        MUST(tdm_stream_sync(ctx, gpu, NULL));
        cr_expect_arr_eq(back, place[1], n, "%zu bytes, from pinned", n);
        for (int j = 0; j < 2; j++)
            tdm_free(ctx, gpu, kinds[j], place[j]);
        free(from);
        free(back);
    }
    tdm_close(ctx);
}

/* 0 bytes are no memory; more than there is, is an error after which all goes on. */
Test(memory, none_and_too_much)
{
    static const tdm_memory kinds[] = {TDM_DEVICE_MEMORY, TDM_PINNED_HOST};
    tdm_ctx *ctx = device_open();
    for (int i = 0; i < 2; i++) {
        void *pointer = &pointer;
        MUST(tdm_alloc(ctx, test_device(), kinds[i], 0, &pointer));
        cr_expect_null(pointer);
        pointer = &pointer;
        EXPECT_FAILURE(TDM_NO_MEMORY, "bytes", tdm_alloc(ctx, test_device(), kinds[i], (size_t)1 << 50, &pointer));
        cr_expect_null(pointer, "a failed call leaves NULL");
        MUST(tdm_alloc(ctx, test_device(), kinds[i], 100, &pointer));
        tdm_free(ctx, test_device(), kinds[i], pointer);
        tdm_free(ctx, test_device(), kinds[i], NULL);
    }
    tdm_close(ctx);
}

Test(memory, registered)
{
    enum { N = 5000 };
    tdm_ctx *ctx = device_open();
    const tdm_device gpu = test_device();
    unsigned char *host = aligned_alloc(4096, 8192), back[N];
    void *there;
    fill(host, N, 1);
    MUST(tdm_host_register(ctx, gpu, host, N));
    EXPECT_FAILURE(TDM_BAD_ARG, "pointer", tdm_host_register(ctx, gpu, host, N));
    MUST(tdm_alloc(ctx, gpu, TDM_DEVICE_MEMORY, N, &there));
    MUST(tdm_copy(ctx, gpu, there, cpu, host, N, NULL));
    MUST(tdm_copy(ctx, cpu, back, gpu, there, N, NULL));
    MUST(tdm_stream_sync(ctx, gpu, NULL));
    cr_expect_arr_eq(back, host, N);
    MUST(tdm_host_unregister(ctx, gpu, host));
    EXPECT_FAILURE(TDM_BAD_ARG, "pointer", tdm_host_unregister(ctx, gpu, host));
    MUST(tdm_host_register(ctx, gpu, host, N)); /* again */
    MUST(tdm_host_unregister(ctx, gpu, host));
    tdm_free(ctx, gpu, TDM_DEVICE_MEMORY, there);
    tdm_close(ctx);
    free(host);
}

/* Two devices: each its own memory, and copies between them. */
Test(memory, of_several_devices)
{
    enum { N = 300 };
    tdm_ctx *ctx = device_open_emulated("SHIM_DEVICES", "90,80");
    const tdm_device gpu[] = {{TDM_CUDA, 0}, {TDM_CUDA, 1}};
    unsigned char from[N], back[N] = {0};
    void *there[2];
    fill(from, N, 7);
    for (int i = 0; i < 2; i++)
        MUST(tdm_alloc(ctx, gpu[i], TDM_DEVICE_MEMORY, N, &there[i]));
    MUST(tdm_copy(ctx, gpu[0], there[0], cpu, from, N, NULL));
    MUST(tdm_stream_sync(ctx, gpu[0], NULL));
    MUST(tdm_copy(ctx, gpu[1], there[1], gpu[0], there[0], N, NULL));
    MUST(tdm_copy(ctx, cpu, back, gpu[1], there[1], N, NULL));
    MUST(tdm_stream_sync(ctx, gpu[1], NULL));
    cr_expect_arr_eq(back, from, N);
    for (int i = 0; i < 2; i++)
        tdm_free(ctx, gpu[i], TDM_DEVICE_MEMORY, there[i]);
    EXPECT_FAILURE(TDM_NO_DEVICE, "device.index",
                   tdm_alloc(ctx, (tdm_device){TDM_CUDA, 2}, TDM_DEVICE_MEMORY, N, &there[0]));
    tdm_close(ctx);
}

/* A workspace in memory of the caller's, at any multiple of 64. */
Test(memory, workspace_of_the_caller)
{
    tdm_ctx *ctx = device_open();
    void *stream = device_stream(ctx), *memory;
    struct product p;
    size_t bytes;
    product_new(&p, ctx, stream, MANY);
    MUST(tdm_workspace_size(p.op, &bytes));
    cr_assert(bytes > 0);
    MUST(tdm_alloc(ctx, test_device(), TDM_DEVICE_MEMORY, bytes + 256, &memory));
    for (int shift = 0; shift < 256; shift += 64) {
        tdm_workspace_destroy(p.workspace);
        MUST(tdm_workspace_create(p.op, (char *)memory + shift, bytes, &p.workspace));
        product_set(&p, (float)shift);
        product_enqueue(&p, ctx, stream);
        MUST(tdm_stream_sync(ctx, test_device(), stream));
        product_expect(&p, (float)shift, "in a workspace of the caller's");
    }
    product_free(&p, ctx);
    tdm_free(ctx, test_device(), TDM_DEVICE_MEMORY, memory);
    tdm_stream_destroy(ctx, test_device(), stream);
    tdm_close(ctx);
}
