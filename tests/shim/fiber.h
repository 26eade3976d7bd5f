/* Fibers: stacks that run by turns in one thread of the CPU, known to the sanitizers. */
#ifndef TESTS_SHIM_FIBER_H
#define TESTS_SHIM_FIBER_H

#include <cstddef>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

namespace shim
{

struct fiber {
    void *stack_pointer = nullptr; /* where it goes on */
    char *stack = nullptr;         /* the lowest byte  */
    size_t stack_bytes = 0;
    void *asan = nullptr, *tsan = nullptr;
#if !defined(__x86_64__) && !defined(__aarch64__)
    ucontext_t context;
#endif
};

/* The fiber that the calling thread is now. */
void fiber_adopt(fiber &self);

/* Make it run `entry`, which never returns, from the start: with a stack of its own. */
void fiber_prepare(fiber &f, void (*entry)());

/* Give up what it was doing, and its stack. */
void fiber_release(fiber &f);

/* What every fiber does first. */
void fiber_enter();

/* Go on in `to`; returns when somebody switches back. */
void fiber_switch(fiber &from, fiber &to);

/* For ThreadSanitizer: what was done before a release happened before what follows an acquire of the same token. */
void order_release(void *token);
void order_acquire(void *token);

} // namespace shim
#endif
