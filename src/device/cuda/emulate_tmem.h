/* Twins of the instructions in mma_tmem.h. A block has a tensor memory of its own, NaN at first, of which
 * columns are taken from the last one on, so that no address is 0 but by reading it.
 *
 * Products and reads are as late as they may be: products are done when a thread waits for a barrier that a
 * commit behind them arrives at, and what is read is NaN until gpu_tmem_wait. These end the program with a
 * sentence: columns that nobody has taken, or that are not given back when the block ends; lanes of another
 * warp; sums that are read before their products are done, or without a wait for a commit behind them; a
 * second thread that begins products; a missing gpu_tmem_after behind a wait, or gpu_tmem_before behind a
 * read; shared memory that tensor cores haven't been shown, that has not come, or that is written before
 * products are done; a descriptor, or a shape, that says what the emulation doesn't know; products that
 * nobody waits for; sums that are multiplied into, or given back, where who does so was not told that they
 * have been read; sums that are begun anew before all their lanes were read.
 *
 * Readers are late by that rule, and not by when they run: a thread knows of a read where its warp has made
 * it, where a barrier has told it, directly or through others, or where all have met since. What a warp tells
 * is what all of its lanes have read and called gpu_tmem_before after. */
#pragma once

namespace emulate {
struct tmem_product {
    uint32_t d, shape;
    uint64_t a, b;
    bool onto, eight; /* eight: numbers have 8 bits */
};
/* The n-th sixteen bytes of the operands; NULL: there are no more. What is found there goes to
 * tmem_operand_read. */
const void *tmem_reads(const tmem_product &p, unsigned n);
void tmem_operand_read(const tmem_product &p, unsigned n, const eight &bytes);
void tmem_begins(const tmem_product &p);
void tmem_commit(const void *barrier);

uint32_t tmem_take(unsigned columns); /* the same for all lanes of the warp */
void tmem_give(uint32_t address, unsigned columns);
void tmem_before();
void tmem_after();
/* By all lanes of a warp, of the same address. */
void tmem_read(float *x, unsigned columns, uint32_t address, site at);
void tmem_wait(site at); /* of all that it reads */
} // namespace emulate

template <int COLUMNS>
inline void gpu_tmem_take(uint32_t *address, EMULATE_SITE) {
    const uint32_t none = 0;
    emulate::exchange(~0u, &none, sizeof none, { "tcgen05.alloc", file, line });
    uint32_t taken = emulate::tmem_take(COLUMNS);
    if (emulate::here.lane == 0) *address = taken;
}
template <int COLUMNS>
inline void gpu_tmem_give(uint32_t address, EMULATE_SITE) {
    emulate::exchange(~0u, &address, sizeof address, { "tcgen05.dealloc", file, line });
    if (emulate::here.lane == 0) emulate::tmem_give(address, COLUMNS);
}
inline void gpu_tmem_before() { emulate::tmem_before(); }
inline void gpu_tmem_after() { emulate::tmem_after(); }

/* By reference, so read where no watch looks: what brings it about that operands are there are mbarriers,
 * which the watch takes for no order. The emulation sees itself whether they were waited for
 * (emulate_tmem.cpp). */
template <int BYTES>
inline void gpu_tmem_mma(uint32_t d, uint64_t a, uint64_t b, uint32_t form, int onto) {
    const emulate::tmem_product p = { d, form, a, b, onto != 0, BYTES == 1 };
    for (unsigned n = 0; const void *from = emulate::tmem_reads(p, n); n++)
        emulate::tmem_operand_read(p, n, *emulate::wide<emulate::eight>((void *)from));
    emulate::tmem_begins(p);
}
inline void gpu_tmem_commit(gpu_barrier *b) { emulate::tmem_commit(b); }

inline void gpu_tmem_read(float (&x)[GPU_TMEM_READ], uint32_t address, EMULATE_SITE) {
    emulate::tmem_read(x, GPU_TMEM_READ, address, { "tcgen05.ld", file, line });
}
inline void gpu_tmem_wait(float (&)[GPU_TMEM_READ], EMULATE_SITE) {
    emulate::tmem_wait({ "tcgen05.wait::ld", file, line });
}
