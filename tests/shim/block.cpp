#include "block.h"

#include "fiber.h"
#include "warp.h"

#include <algorithm>
#include <cfenv>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace shim
{

dim3 thread_index, block_index, block_size, grid_size;
unsigned char *shared_bytes;

namespace
{

/* Blocks take turns on two sets of fibers, so that ThreadSanitizer tells the threads of neighbouring blocks apart. */
enum { SETS = 2 };

enum class state { ready, at_barrier, at_warp, done };

struct gpu_thread {
    gpu_thread() = default;
    gpu_thread(const gpu_thread &) = delete;
    gpu_thread &operator=(const gpu_thread &) = delete;
    ~gpu_thread()
    {
        fiber_release(stack);
    }
    fiber stack;
    int number = 0;
    dim3 index;
    state now = state::done;
    site at = {"", 0};
    warp_op op = warp_op::sync;
    unsigned mask = 0;
    int from = 0;
    warp_words *words = nullptr;
    int barriers = 0, warp_syncs = 0; /* that it passed: which token orders the next */
};

/* One for all threads of the host: who runs a kernel holds the lock of queue.h. */
struct engine {
    fiber home;
    std::unique_ptr<gpu_thread[]> set[SETS];
    gpu_thread *threads = nullptr; /* of the block that runs */
    gpu_thread *current = nullptr;
    int count = 0;
    const kernel *running = nullptr;
    std::mt19937_64 random;
    enum { forward, reverse, shuffled } order = forward;
    std::string chosen;
    bool coarse = false, failed = false;
    char misuse[512] = "";
    /* Lanes of each warp that wait in an operation, and that cannot come to one: at a barrier, or done. */
    unsigned waiting[MOST_THREADS / WARP_SIZE] = {}, absent[MOST_THREADS / WARP_SIZE] = {};
    char launch_token = 0, finish_token = 0;
    char barrier_token[SETS][2] = {}, warp_token[SETS][MOST_THREADS / WARP_SIZE][2] = {};
    int set_index = 0;
};
engine e;

void record(const gpu_thread *who, site at, const char *format, va_list values)
{
    if (e.failed)
        return;
    e.failed = true;
    int used = snprintf(e.misuse, sizeof e.misuse, "%s:%d: ", at.file, at.line);
    if (who)
        used += snprintf(e.misuse + used, sizeof e.misuse - static_cast<size_t>(used),
                         "block (%u,%u,%u) thread (%u,%u,%u): ", block_index.x, block_index.y, block_index.z,
                         who->index.x, who->index.y, who->index.z);
    vsnprintf(e.misuse + used, sizeof e.misuse - static_cast<size_t>(used), format, values);
    fprintf(stderr, "shim: %s\n", e.misuse);
}

__attribute__((format(printf, 3, 4))) void complain(const gpu_thread *who, site at, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    record(who, at, format, values);
    va_end(values);
}

/* After a failure: nobody goes on with this thread. */
[[noreturn]] void leave()
{
    order_release(&e.finish_token);
    e.current->now = state::done;
    fiber_switch(e.current->stack, e.home);
    abort();
}

/* Let others run until this thread is ready again. */
void wait()
{
    fiber_switch(e.current->stack, e.home);
    if (e.failed)
        leave();
}

void thread_entry()
{
    fiber_enter();
    if (e.failed)
        leave();
    for (;;) {
        order_acquire(&e.launch_token);
        e.running->body();
        order_release(&e.finish_token);
        e.current->now = state::done;
        e.absent[e.current->number / WARP_SIZE] |= 1u << lane();
        wait();
    }
}

/* ---- warps ---- */

gpu_thread *warp_of(const gpu_thread *who)
{
    return e.threads + who->number / WARP_SIZE * WARP_SIZE;
}

bool exists(const gpu_thread *warp, int lane)
{
    return warp - e.threads + lane < e.count;
}

const char *name(warp_op op)
{
    static const char *const names[] = {"__syncwarp", "a shuffle", "mma", "mma"};
    return names[static_cast<int>(op)];
}

/* Complain unless the lane of a mask can still come, and for the same. */
void check_partner(const gpu_thread &me, const gpu_thread &partner, int lane)
{
    if (partner.now == state::done)
        complain(&me, me.at, "%s waits for lane %d, which has returned", name(me.op), lane);
    else if (partner.now == state::at_barrier)
        complain(&me, me.at, "%s waits for lane %d, which is at __syncthreads in line %d", name(me.op), lane,
                 partner.at.line);
    else if (partner.now == state::at_warp && (partner.op != me.op || partner.mask != me.mask))
        complain(&me, me.at, "%s with mask %08x meets lane %d in %s with mask %08x, line %d", name(me.op), me.mask,
                 lane, name(partner.op), partner.mask, partner.at.line);
    else if (partner.now == state::at_warp && partner.at.line != me.at.line)
        complain(&me, me.at, "%s meets lane %d in line %d", name(me.op), lane, partner.at.line);
}

void check_partners(const gpu_thread &me)
{
    for (int i = 0; i < WARP_SIZE; i++)
        if (me.mask >> i & 1)
            check_partner(me, warp_of(&me)[i], i);
}

/* The same in most cases, and quickly: a look at one of those that wait. */
void check_some_partners(const gpu_thread &me, unsigned waiting, unsigned absent)
{
    if (absent & me.mask)
        check_partners(me);
    else if (waiting & me.mask) {
        const int first = __builtin_ctz(waiting & me.mask);
        check_partner(me, warp_of(&me)[first], first);
    }
}

void shuffle(gpu_thread *warp, const gpu_thread &me)
{
    for (int lane = 0; lane < WARP_SIZE; lane++) {
        if (!(me.mask >> lane & 1))
            continue;
        const int from = warp[lane].from;
        if (from < 0 || from >= WARP_SIZE || !(me.mask >> from & 1))
            misuse(me.at, "lane %d reads lane %d, which is not in the mask %08x", lane, from, me.mask);
        warp[lane].words->out[0] = warp[from].words->in[0];
    }
}

void execute(gpu_thread *warp, const gpu_thread &me)
{
    if (me.op == warp_op::shuffle)
        shuffle(warp, me);
    if (me.op == warp_op::mma_f16 || me.op == warp_op::mma_bf16) {
        warp_words *lanes[WARP_SIZE];
        for (int lane = 0; lane < WARP_SIZE; lane++)
            lanes[lane] = warp[lane].words;
        multiply(lanes, me.op == warp_op::mma_bf16, e.coarse);
    }
    for (int lane = 0; lane < WARP_SIZE; lane++)
        if (me.mask >> lane & 1)
            warp[lane].now = state::ready;
    e.waiting[me.number / WARP_SIZE] &= ~me.mask;
}

} // namespace

unsigned lane()
{
    return static_cast<unsigned>(e.current->number % WARP_SIZE);
}

void collective(warp_op op, unsigned mask, int from, warp_words &words, site at)
{
    gpu_thread &me = *e.current;
    gpu_thread *warp = warp_of(&me);
    me.op = op, me.mask = mask, me.from = from, me.words = &words, me.at = at;
    if (!(mask >> lane() & 1))
        misuse(at, "%s: the mask %08x is without the calling lane %u", name(op), mask, lane());
    if (op >= warp_op::mma_f16 && mask != 0xffffffffu)
        misuse(at, "mma with mask %08x, want the whole warp", mask);
    const int number = me.number / WARP_SIZE;
    for (int i = WARP_SIZE - 1; i >= 0 && !exists(warp, i); i--)
        if (mask >> i & 1)
            misuse(at, "%s: lane %d of the mask %08x does not exist", name(op), i, mask);
    check_some_partners(me, e.waiting[number], e.absent[number]);
    me.now = state::at_warp;
    e.waiting[number] |= 1u << lane();
    const bool all = (e.waiting[number] & mask) == mask;
    if (all)
        check_partners(me);
    if (e.failed)
        leave();
    char *token = e.warp_token[e.set_index][number];
    if (op == warp_op::sync) /* shuffles order no memory */
        order_release(&token[me.warp_syncs % 2]);
    if (all)
        execute(warp, me);
    wait();
    if (op == warp_op::sync)
        order_acquire(&token[me.warp_syncs++ % 2]);
}

void barrier(site at)
{
    gpu_thread &me = *e.current;
    me.at = at;
    me.now = state::at_barrier;
    e.absent[me.number / WARP_SIZE] |= 1u << lane();
    order_release(&e.barrier_token[e.set_index][me.barriers % 2]);
    wait();
    order_acquire(&e.barrier_token[e.set_index][me.barriers++ % 2]);
}

void misuse(site at, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    record(e.current, at, format, values);
    va_end(values);
    leave();
}

const char *last_misuse()
{
    return e.misuse;
}

/* ---- a block ---- */

namespace
{

/* All that live are at one barrier: let them go. */
void open_barrier()
{
    const gpu_thread *first =
        std::find_if(e.threads, e.threads + e.count, [](const gpu_thread &t) { return t.now == state::at_barrier; });
    for (int i = 0; i < e.count; i++) {
        const gpu_thread &t = e.threads[i];
        if (t.now == state::done)
            complain(&t, first->at, "returned before this barrier, at which others wait");
        else if (t.at.line != first->at.line)
            complain(&t, t.at, "waits at another barrier than thread %d, line %d", first->number, first->at.line);
    }
    for (int i = 0; i < e.count; i++)
        e.threads[i].now = state::ready;
    std::fill(std::begin(e.absent), std::end(e.absent), 0u);
}

/* Nothing can run: the block is done, at a barrier, or stuck. True when it goes on. */
bool settle()
{
    int done = 0, at_barrier = 0;
    for (int i = 0; i < e.count; i++) {
        done += e.threads[i].now == state::done;
        at_barrier += e.threads[i].now == state::at_barrier;
    }
    if (done == e.count)
        return false;
    if (done + at_barrier == e.count) {
        open_barrier();
        return !e.failed;
    }
    for (int i = 0; i < e.count; i++)
        if (e.threads[i].now == state::at_warp)
            check_partners(e.threads[i]);
    return false;
}

void arrange(std::vector<int> &turn)
{
    if (e.order == engine::reverse)
        std::reverse(turn.begin(), turn.end());
    else if (e.order == engine::shuffled)
        std::shuffle(turn.begin(), turn.end(), e.random);
}

void run_threads()
{
    std::vector<int> turn;
    do {
        turn.clear();
        for (int i = 0; i < e.count; i++)
            if (e.threads[i].now == state::ready)
                turn.push_back(i);
        arrange(turn);
        for (size_t i = 0; i < turn.size() && !e.failed; i++) {
            e.current = &e.threads[turn[i]];
            thread_index = e.current->index;
            fiber_switch(e.home, e.current->stack);
        }
        e.current = nullptr;
    } while (!e.failed && (!turn.empty() || settle()));
}

void start_threads()
{
    e.set_index = (e.set_index + 1) % SETS;
    e.threads = e.set[e.set_index].get();
    std::fill(std::begin(e.waiting), std::end(e.waiting), 0u);
    std::fill(std::begin(e.absent), std::end(e.absent), 0u);
    for (int i = 0; i < e.count; i++) {
        gpu_thread &t = e.threads[i];
        const unsigned n = static_cast<unsigned>(i);
        if (!t.stack.stack)
            fiber_prepare(t.stack, thread_entry);
        t.number = i;
        t.index = dim3(n % block_size.x, n / block_size.x % block_size.y, n / block_size.x / block_size.y);
        t.now = state::ready;
        t.barriers = t.warp_syncs = 0;
    }
}

/* Threads stopped anywhere: each leaves. */
void abandon_threads()
{
    for (auto &set : e.set)
        for (int i = 0; i < e.count; i++) {
            e.current = &set[i];
            if (set[i].now != state::done)
                fiber_switch(e.home, set[i].stack);
            fiber_release(set[i].stack);
        }
    e.current = nullptr;
}

/* Shared memory of one block, of the exact size, holding NaN in every format. Freed when the kernel is done: to
 * ThreadSanitizer freeing is a write. */
using memory = std::unique_ptr<unsigned char, decltype(&free)>;
memory new_shared(size_t bytes)
{
    void *pointer = nullptr;
    if (posix_memalign(&pointer, 128, bytes ? bytes : 1))
        abort();
    memset(pointer, 0xFF, bytes);
    return memory(static_cast<unsigned char *>(pointer), &free);
}

void apply_order(const char *order)
{
    order = order ? order : "";
    if (order == e.chosen)
        return; /* a random one goes on */
    e.chosen = order;
    e.order = !*order || !strcmp(order, "forward") ? engine::forward
              : !strcmp(order, "reverse")          ? engine::reverse
                                                   : engine::shuffled;
    if (e.order == engine::shuffled)
        e.random.seed(strtoull(order, nullptr, 10));
}

void prepare_engine()
{
    if (!e.set[0])
        for (auto &set : e.set)
            set.reset(new gpu_thread[MOST_THREADS]);
    fiber_adopt(e.home);
    apply_order(getenv("SHIM_ORDER"));
}

} // namespace

bool is_possible(const kernel &k)
{
    const uint64_t threads = static_cast<uint64_t>(k.block.x) * k.block.y * k.block.z;
    return threads && threads <= MOST_THREADS && k.block.z <= 64 && k.grid.x && k.grid.y && k.grid.z &&
           k.grid.x <= 0x7fffffffu && k.grid.y <= 65535 && k.grid.z <= 65535 && k.shared <= MOST_SHARED;
}

bool run(const kernel &k)
{
    fenv_t of_host;
    fegetenv(&of_host);
    fesetenv(FE_DFL_ENV); /* a GPU does not round or flush as the host has chosen */
    prepare_engine();
    e.running = &k;
    e.failed = false;
    e.count = static_cast<int>(k.block.x * k.block.y * k.block.z);
    grid_size = k.grid;
    block_size = k.block;
    std::vector<memory> shared;
    std::vector<int> blocks(static_cast<size_t>(k.grid.x) * k.grid.y * k.grid.z);
    for (size_t i = 0; i < blocks.size(); i++)
        blocks[i] = static_cast<int>(i);
    arrange(blocks);
    for (size_t i = 0; i < blocks.size() && !e.failed; i++) {
        const unsigned n = static_cast<unsigned>(blocks[i]);
        block_index = dim3(n % k.grid.x, n / k.grid.x % k.grid.y, n / k.grid.x / k.grid.y);
        shared.push_back(new_shared(k.shared));
        shared_bytes = shared.back().get();
        start_threads();
        order_release(&e.launch_token);
        run_threads();
#if !defined(SHIM_TSAN)
        shared.clear();
#endif
    }
    if (e.failed)
        abandon_threads();
    order_acquire(&e.finish_token);
    e.running = nullptr;
    fesetenv(&of_host);
    return !e.failed;
}

size_t pick(size_t count)
{
    apply_order(getenv("SHIM_ORDER"));
    return e.order == engine::forward ? 0 : e.order == engine::reverse ? count - 1 : e.random() % count;
}

void set_coarse_sums(bool coarse)
{
    e.coarse = coarse;
}

} // namespace shim
