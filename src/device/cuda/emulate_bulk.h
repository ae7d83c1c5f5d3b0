/* Twins of the instructions in bulk.h. What a copy reads of the matrix stands here, so that a watch sees it;
 * what comes into shared memory is written in emulate_bulk.cpp, and the rules for it are kept there.
 *
 * A copy is as late as it may be: its place is NaN until a thread waits for its barrier. These end the
 * program with a sentence: a barrier that is used before all have met since it was made, that the engine was
 * not shown, or whose memory was written over; more arrivals than it was made for; a phase that is over
 * before all has come that was begun in it; a copy to a place where another one is on its way, where threads
 * wrote and did not show it, out of shared memory or not at a multiple of 1024 bytes; a product of what has
 * not come, or of what the thread that begins it has not waited for; a block that ends before all has come.
 * More bytes expected than come, or an arrival that is missing, leave threads that wait for ever.
 *
 * Who arrives last in a phase lets all others run first: so a buffer that is given back too early is filled
 * before its product is done, which emulate_mma_group.h finds. */
#pragma once

namespace emulate {
/* A barrier is known by where it lies. */
void bulk_barrier_make(const void *at, unsigned count);
void bulk_barrier_arrive(const void *at, unsigned bytes, site where); /* bytes: more are expected */
void bulk_barrier_wait(const void *at, unsigned parity, site where);

/* A copy of `pieces` times sixteen bytes begins; then each of them, in order: where it lies is the engine's
 * to say. */
void bulk_copy_begins(const void *to, unsigned pieces, const void *barrier);
void bulk_copy_reads(const eight &bytes);
[[noreturn]] void bulk_refused(const char *why);
} // namespace emulate

struct gpu_bulk_map {
    gpu_bulk_matrix of;
};

inline bool gpu_bulk_map_make(gpu_bulk_map *map, const gpu_bulk_matrix &m) {
    *map = { m };
    return gpu_bulk_reads(m);
}

inline void gpu_barrier_make(gpu_barrier *b, unsigned count) { emulate::bulk_barrier_make(b, count); }
inline void gpu_barrier_expect(gpu_barrier *b, unsigned bytes, EMULATE_SITE) {
    emulate::bulk_barrier_arrive(b, bytes, { "mbarrier.arrive.expect_tx", file, line });
}
inline void gpu_barrier_arrive(gpu_barrier *b, EMULATE_SITE) {
    emulate::bulk_barrier_arrive(b, 0, { "mbarrier.arrive", file, line });
}
inline void gpu_barrier_wait(gpu_barrier *b, unsigned parity, EMULATE_SITE) {
    emulate::bulk_barrier_wait(b, parity, { "mbarrier.try_wait", file, line });
}

inline void gpu_bulk_copy(void *to, const gpu_bulk_map *map, int x, int y, gpu_barrier *b) {
    enum { PIECE = 16, PIECES = GPU_GROUP_ROW / PIECE };
    const gpu_bulk_matrix m = map->of;
    emulate::aside(true);
    if (x < 0 || y < 0 || (unsigned)x * m.bytes % PIECE)
        emulate::bulk_refused("a tile begins where the emulation doesn't know one to");
    emulate::bulk_copy_begins(to, m.tile_high * PIECES, b);
    for (unsigned n = 0; n < m.tile_high * PIECES; n++) {
        emulate::eight bytes = {};
        int64_t row = (int64_t)y + n / PIECES, first = (int64_t)x * m.bytes + n % PIECES * PIECE;
        int64_t inside = row < m.high ? m.wide * m.bytes - first : 0;
        const unsigned char *from = (const unsigned char *)m.data + row * m.stride + first;
        if (inside >= PIECE)
            bytes = *emulate::wide<emulate::eight>((void *)from);
        else if (inside > 0)
            emulate_some_of(bytes, from, (int)inside);
        emulate::bulk_copy_reads(bytes);
    }
    emulate::aside(false);
}
inline void gpu_bulk_prefetch(const gpu_bulk_map *) {}

template <int MOST>
inline void gpu_registers_give() {}
template <int MOST>
inline void gpu_registers_take() {}
