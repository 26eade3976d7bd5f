/* The tile unit (AMX): eight registers of 16 rows of 64 bytes, and C += A B on them. A tile B holds the values that are
 * multiplied together side by side: row i of it meets bytes 4 * i .. 4 * i + 3 of a row of A.
 *
 * The compilers' own intrinsics do not say all that these instructions read and write (gcc 12 moves stores past them), so
 * they are spelt out here; `volatile` keeps them in order. With TANDEM_EMULATE the tests supply them in C. */
#ifndef TILES_H
#define TILES_H

#include <stdint.h>

enum { TILE_ROWS = 16, TILE_LINE = 64, TILE_BYTES = TILE_ROWS * TILE_LINE };

#define LINES _Alignas(TILE_LINE) /* a row of a tile is one line of the cache */

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t line[16]; /* bytes of a row of each register */
    uint8_t rows[16];
};

#ifndef TANDEM_EMULATE
#define TILES_CONFIGURE(config) __asm__ volatile("ldtilecfg %0" : : "m"(*(config)) : "memory")
#define TILES_RELEASE() __asm__ volatile("tilerelease" : : : "memory")
#define TILE_ZERO(t) __asm__ volatile("tilezero %%tmm" #t : :)
#define TILE_LOAD(t, from) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t : : "r"(from), "r"((int64_t)TILE_LINE) : "memory")
#define TILE_STORE(t, to) \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" : : "r"(to), "r"((int64_t)TILE_LINE) : "memory")
#define TILE_DOT_I8(c, a, b) __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #c : :)
#define TILE_DOT_BF16(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c : :)
#endif

/* Every leaf uses all registers in full. */
static inline void tiles_enter(void)
{
    static const struct tile_config full = {
        .palette = 1, .line = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    TILES_CONFIGURE(&full);
}

static inline void tiles_leave(void)
{
    TILES_RELEASE();
}

#endif
