/* The copy engine and its barriers (emulate_bulk.h). The swizzle is the PTX ISA's, on addresses,
 * independently of how a kernel counts its places. */
#include "device/cuda/bulk.h"

#include <string.h>

#include <memory>
#include <vector>

#include "device/cuda/emulate_hooks.h"

namespace emulate {
namespace {

enum { MOST_THREADS = 1024, PIECE = 16, ROW_PIECES = GPU_GROUP_ROW / PIECE };
const unsigned BY_THREADS = ~0u;
const int64_t MOST_BYTES = (1 << 20) - 1; /* that a barrier counts */

struct barrier_now {
    unsigned offset;      /* in shared memory, */
    uint64_t bits;        /* and what stands there */
    unsigned count, left; /* threads of a phase, and those that are still to arrive */
    int64_t expected;     /* bytes that are still to come; below 0: they came before they were expected */
    unsigned phase;
    unsigned maker, made; /* by which thread, after how many meetings of all */
    bool shown;
    unsigned waited[MOST_THREADS]; /* so many phases were over when the thread last came from a wait */
    tmem_read_so_far coming, told; /* what who arrived knew, up to now and up to the last phase's end */
};

struct sixteen {
    eight bytes;
};
struct bulk_copy {
    unsigned barrier, phase, to; /* offset in shared memory */
    std::vector<sixteen> pieces;
};

/* Of the block that runs on this thread of the host. */
struct engine {
    std::vector<std::unique_ptr<barrier_now>> barriers;
    std::vector<std::unique_ptr<bulk_copy>> under_way;
    std::vector<const bulk_copy *> coming; /* by piece; NULL: nothing is */
    struct came {
        unsigned barrier, phase; /* barrier: 1 + its number; 0: nothing came; BY_THREADS */
    };
    std::vector<came> here; /* by piece */
};
engine &now() {
    static thread_local std::unique_ptr<engine> e; /* a thread that runs no block has none */
    if (!e) e.reset(new engine());
    return *e;
}

running thread_now() {
    running r;
    if (!is_running(&r)) __builtin_trap();
    return r;
}

unsigned offset_in_shared(const void *at, size_t bytes, const char *why) {
    size_t offset = (uintptr_t)at - (uintptr_t)shared();
    if (offset > now().here.size() * PIECE || offset + bytes > now().here.size() * PIECE) stop(why);
    return (unsigned)offset;
}

unsigned number_of(const void *at) {
    unsigned offset = offset_in_shared(at, sizeof(gpu_barrier), "a barrier lies out of shared memory");
    engine &e = now();
    for (unsigned i = 0; i < e.barriers.size(); i++)
        if (e.barriers[i]->offset == offset) return i;
    stop("a barrier is used that nobody has made");
}

barrier_now &usable(unsigned number) {
    barrier_now &b = *now().barriers[number];
    running r = thread_now();
    if (memcmp(shared() + b.offset, &b.bits, sizeof b.bits) != 0) stop("a barrier's memory was written over");
    if (r.thread != b.maker && r.barriers == b.made)
        stop("a barrier is used before all have met since it was made");
    return b;
}

/* Is the phase over? Then the next one begins. */
bool turns(barrier_now &b) {
    if (b.left || b.expected) return false;
    b.phase++, b.left = b.count, b.told = b.coming;
    went_on();
    return true;
}

/* Rows of 128 bytes, one after the other; by address, bits 4 to 6 are those of the piece in its row and bits
 * 7 to 9 of the row. */
unsigned place_of(unsigned to, unsigned piece) {
    unsigned address = shared_at(shared() + to) + piece * PIECE;
    address ^= (address >> 7 & (ROW_PIECES - 1)) << 4;
    return address - shared_at(shared());
}

/* The youngest copy that this barrier counts comes: nobody promises an order. False: none is under way. */
bool lands(unsigned number) {
    engine &e = now();
    for (size_t i = e.under_way.size(); i-- > 0;) {
        const bulk_copy &c = *e.under_way[i];
        barrier_now &b = *e.barriers[number];
        if (c.barrier != number) continue;
        if (c.phase != b.phase)
            stop("a barrier's phase was over before all came that was begun in it: too few bytes were "
                 "expected");
        for (unsigned n = 0; n < c.pieces.size(); n++) {
            unsigned at = place_of(c.to, n);
            shared_brought(at, c.pieces[n].bytes);
            e.coming[at / PIECE] = NULL;
            e.here[at / PIECE] = { number + 1, c.phase };
        }
        b.expected -= (int64_t)c.pieces.size() * PIECE;
        if (b.expected < -MOST_BYTES) stop("more bytes come than a barrier counts");
        e.under_way.erase(e.under_way.begin() + (long)i);
        turns(b);
        went_on();
        return true;
    }
    return false;
}

} // namespace

/* ---- a block ---- */

void bulk_begins(size_t bytes) {
    engine &e = now();
    e.barriers.clear(), e.under_way.clear();
    e.coming.assign((bytes + PIECE - 1) / PIECE, NULL);
    e.here.assign(e.coming.size(), { 0, 0 });
}

void bulk_ends() {
    if (!now().under_way.empty()) stop("a block ends before its bulk copies have come");
}

void bulk_shown(unsigned thread) {
    for (auto &b : now().barriers)
        if (b->maker == thread) b->shown = true;
}

void bulk_read(unsigned offset, unsigned thread) {
    engine &e = now();
    const engine::came &c = e.here[offset / PIECE];
    if (e.coming[offset / PIECE] || (!c.barrier && !e.barriers.empty()))
        stop("tensor cores multiply what has not come yet (mbarrier)");
    if (c.barrier && c.barrier != BY_THREADS && e.barriers[c.barrier - 1]->waited[thread] <= c.phase)
        stop("a thread has tensor cores multiply what it has not waited for (mbarrier)");
}

void bulk_written(unsigned offset) {
    engine &e = now();
    if (e.coming[offset / PIECE]) stop("a thread writes where a bulk copy is on its way");
    e.here[offset / PIECE] = { BY_THREADS, 0 };
}

/* ---- barriers ---- */

void bulk_barrier_make(const void *at, unsigned count) {
    wide<gpu_barrier>((void *)at);
    unsigned offset = offset_in_shared(at, sizeof(gpu_barrier), "a barrier lies out of shared memory");
    engine &e = now();
    running r = thread_now();
    if (count < 1 || count > MOST_BYTES) stop("a barrier is made for a number of threads that none can have");
    for (const auto &b : e.barriers)
        if (b->offset == offset) stop("a barrier is made twice");
    std::unique_ptr<barrier_now> b(new barrier_now());
    b->offset = offset, b->bits = 0x5bd1e995c0de0000u + e.barriers.size();
    b->count = b->left = count;
    b->maker = r.thread, b->made = r.barriers;
    memcpy(shared() + offset, &b->bits, sizeof b->bits);
    e.barriers.push_back(std::move(b));
}

void bulk_barrier_arrive(const void *at, unsigned bytes, site where) {
    barrier_now &b = usable(number_of(at));
    if (b.left == 0) stop("more threads arrive at a barrier than it was made for");
    b.left--, b.expected += bytes;
    if (b.expected > MOST_BYTES) stop("more bytes are expected than a barrier counts");
    tmem_arrives(thread_now().thread, &b.coming);
    if (turns(b)) let_others_run(where);
}

void bulk_barrier_wait(const void *at, unsigned parity, site where) {
    unsigned number = number_of(at);
    barrier_now &b = usable(number);
    while ((b.phase & 1) == parity)
        if (!lands(number) && !tmem_lands(number)) give_way(where);
    b.waited[thread_now().thread] = b.phase;
    tmem_waited(thread_now().thread, b.told);
}

unsigned bulk_committed(const void *at) {
    unsigned number = number_of(at);
    if (!usable(number).shown) stop("tensor cores have not been shown a barrier (fence.proxy.async)");
    return number;
}

unsigned bulk_arrived(unsigned number) {
    barrier_now &b = *now().barriers[number];
    const unsigned phase = b.phase;
    if (b.left == 0) stop("more arrive at a barrier than it was made for");
    b.left--, went_on();
    turns(b);
    return phase;
}

bool bulk_waited(unsigned number, unsigned phase, unsigned thread) {
    return now().barriers[number]->waited[thread] > phase;
}

/* ---- copies ---- */

void bulk_refused(const char *why) { stop(why); }

void bulk_copy_begins(const void *to, unsigned pieces, const void *barrier) {
    engine &e = now();
    std::unique_ptr<bulk_copy> c(new bulk_copy());
    c->barrier = number_of(barrier);
    barrier_now &b = usable(c->barrier);
    if (!b.shown) stop("the copy engine has not been shown a barrier (fence.proxy.async)");
    c->phase = b.phase;
    c->to = offset_in_shared(to, (size_t)pieces * PIECE, "a bulk copy goes out of shared memory");
    if (shared_at(to) % GPU_GROUP_ALIGNED) stop("a bulk copy goes to no multiple of 1024 bytes");
    for (unsigned n = 0; n < pieces; n++) {
        unsigned at = place_of(c->to, n);
        if (e.coming[at / PIECE]) stop("a bulk copy goes where another one is on its way");
        shared_awaits(at);
        e.coming[at / PIECE] = c.get();
    }
    c->pieces.reserve(pieces);
    e.under_way.push_back(std::move(c));
    went_on(); /* who waits for it may have it come */
}

void bulk_copy_reads(const eight &bytes) { now().under_way.back()->pieces.push_back({ bytes }); }

} // namespace emulate
