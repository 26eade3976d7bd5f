/* The threads of a block, each a fiber, and what they do together. Kernels meet this through device.cuh. */
#ifndef TESTS_SHIM_BLOCK_H
#define TESTS_SHIM_BLOCK_H

#include <cstddef>
#include <cstdint>
#include <functional>

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

namespace shim
{

enum { WARP_SIZE = 32, MOST_THREADS = 1024, MOST_SHARED = 48 * 1024, MOST_PARAMETERS = 4096 };

/* A line of a kernel. */
struct site {
    const char *file;
    int line;
};

/* The thread that runs, its block and the grid. */
extern dim3 thread_index, block_index, block_size, grid_size;
extern unsigned char *shared_bytes;

/* ---- what threads do together ---- */

void barrier(site at);

enum class warp_op { sync, shuffle, mma_f16, mma_bf16 };

/* Wait until all lanes of the mask are here with the same operation, which is then done for all at once. in: what this
 * lane brings, out: what it gets; shuffle: `from` is the lane it reads. */
struct warp_words {
    uint32_t in[10], out[4];
};
void collective(warp_op op, unsigned mask, int from, warp_words &words, site at);
unsigned lane();

/* A kernel did what a GPU does not allow: the launch ends here. */
[[noreturn]] __attribute__((format(printf, 2, 3))) void misuse(site at, const char *format, ...);

/* ---- launches ---- */

struct kernel {
    dim3 grid, block;
    size_t shared;
    std::function<void()> body;
};

/* Whether a GPU would take this launch. */
bool is_possible(const kernel &k);

/* Run all blocks. False, with the reason in last_misuse(), when a thread misbehaved. */
bool run(const kernel &k);
const char *last_misuse();

/* Which of `count` things goes first: 0 in forward order, the last in reverse, any in a random one. */
size_t pick(size_t count);

/* The environment variable SHIM_ORDER, read each time, says in which order threads and blocks run, and work of several
 * streams: "forward", "reverse", or a number, the seed of a random order. */

/* Let the tensor core's sums lose bits as any known one's may: addends cut to 24 bits of the largest, sums too (Fasi et
 * al., 2021, doi:10.7717/peerj-cs.330). Otherwise they are exact until they are rounded once. */
void set_coarse_sums(bool coarse);

} // namespace shim
#endif
