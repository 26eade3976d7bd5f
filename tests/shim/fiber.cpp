#include "fiber.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

/* This file and block.cpp are built without ThreadSanitizer: they move data between fibers on purpose. */
#if defined(SHIM_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(SHIM_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace shim
{

namespace
{
enum : size_t { STACK_BYTES = 256 * 1024 };
}

#if defined(__x86_64__)
extern "C" void shim_switch(void **save, void *load);
asm(".text\n"
    ".type shim_switch, @function\n"
    "shim_switch:\n"
    "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
    "    ret\n"
    ".size shim_switch, . - shim_switch\n");

/* Six registers, the address to return to, and one more word: a function starts 8 bytes off a multiple of 16. */
static void *first_frame(char *top, void (*entry)())
{
    void **frame = reinterpret_cast<void **>(top) - 8;
    memset(frame, 0, 8 * sizeof *frame);
    frame[6] = reinterpret_cast<void *>(entry);
    return frame;
}
#elif defined(__aarch64__)
extern "C" void shim_switch(void **save, void *load);
asm(".text\n"
    ".type shim_switch, %function\n"
    "shim_switch:\n"
    "    sub sp, sp, #160\n"
    "    stp x19, x20, [sp, #0]\n    stp x21, x22, [sp, #16]\n    stp x23, x24, [sp, #32]\n"
    "    stp x25, x26, [sp, #48]\n    stp x27, x28, [sp, #64]\n    stp x29, x30, [sp, #80]\n"
    "    stp d8, d9, [sp, #96]\n    stp d10, d11, [sp, #112]\n    stp d12, d13, [sp, #128]\n"
    "    stp d14, d15, [sp, #144]\n"
    "    mov x9, sp\n    str x9, [x0]\n    mov sp, x1\n"
    "    ldp x19, x20, [sp, #0]\n    ldp x21, x22, [sp, #16]\n    ldp x23, x24, [sp, #32]\n"
    "    ldp x25, x26, [sp, #48]\n    ldp x27, x28, [sp, #64]\n    ldp x29, x30, [sp, #80]\n"
    "    ldp d8, d9, [sp, #96]\n    ldp d10, d11, [sp, #112]\n    ldp d12, d13, [sp, #128]\n"
    "    ldp d14, d15, [sp, #144]\n"
    "    add sp, sp, #160\n    ret\n"
    ".size shim_switch, . - shim_switch\n");

static void *first_frame(char *top, void (*entry)())
{
    char *frame = top - 160;
    memset(frame, 0, 160);
    memcpy(frame + 88, &entry, sizeof entry); /* x30 */
    return frame;
}
#endif

static char *new_stack()
{
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void *map =
        mmap(nullptr, STACK_BYTES + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED || mprotect(map, page, PROT_NONE)) { /* an overflow is a fault */
        perror("shim: stack");
        abort();
    }
    return static_cast<char *>(map) + page;
}

void fiber_adopt(fiber &self)
{
#if defined(SHIM_ASAN)
    thread_local void *low = nullptr;
    thread_local size_t bytes = 0;
    if (!low) {
        pthread_attr_t attributes;
        pthread_getattr_np(pthread_self(), &attributes);
        pthread_attr_getstack(&attributes, &low, &bytes);
        pthread_attr_destroy(&attributes);
    }
    self.stack = static_cast<char *>(low);
    self.stack_bytes = bytes;
#endif
#if defined(SHIM_TSAN)
    self.tsan = __tsan_get_current_fiber();
#endif
    (void)self;
}

void fiber_prepare(fiber &f, void (*entry)())
{
    f.stack = new_stack();
    f.stack_bytes = STACK_BYTES;
#if defined(SHIM_TSAN)
    f.tsan = __tsan_create_fiber(0);
#endif
#if defined(__x86_64__) || defined(__aarch64__)
    f.stack_pointer = first_frame(f.stack + f.stack_bytes, entry);
#else
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack;
    f.context.uc_stack.ss_size = f.stack_bytes;
    f.context.uc_link = nullptr;
    makecontext(&f.context, entry, 0);
#endif
}

void fiber_release(fiber &f)
{
    if (!f.stack)
        return;
#if defined(SHIM_ASAN)
    __asan_unpoison_memory_region(f.stack, f.stack_bytes); /* frames that were given up */
#endif
#if defined(SHIM_TSAN)
    __tsan_destroy_fiber(f.tsan);
#endif
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    munmap(f.stack - page, f.stack_bytes + page);
    f = fiber{};
}

void fiber_enter()
{
#if defined(SHIM_ASAN)
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

void fiber_switch(fiber &from, fiber &to)
{
#if defined(SHIM_ASAN)
    __sanitizer_start_switch_fiber(&from.asan, to.stack, to.stack_bytes);
#endif
#if defined(SHIM_TSAN)
    __tsan_switch_to_fiber(to.tsan, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(__x86_64__) || defined(__aarch64__)
    shim_switch(&from.stack_pointer, to.stack_pointer);
#else
    swapcontext(&from.context, &to.context);
#endif
#if defined(SHIM_ASAN)
    __sanitizer_finish_switch_fiber(from.asan, nullptr, nullptr);
#endif
}

void order_release(void *token)
{
#if defined(SHIM_TSAN)
    __tsan_release(token);
#else
    (void)token;
#endif
}

void order_acquire(void *token)
{
#if defined(SHIM_TSAN)
    __tsan_acquire(token);
#else
    (void)token;
#endif
}

} // namespace shim
