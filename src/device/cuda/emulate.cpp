/* Blocks of threads as fibers (emulate.h). A thread of the host runs a block at a time; blocks are shared
 * out by the project's own threads. A fiber gives way only where it waits, to its block's scheduler, which
 * runs a warp until that makes no progress and then the next one. */
#include "device/cuda/emulate.h"

#include <stdio.h>
#include <stdlib.h>

#include "device/cuda/emulate_hooks.h"
#include "device/cuda/emulate_lanes.h"

extern "C" {
#include "base/threads.h"
}
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulate {

thread_local place here __attribute__((tls_model("initial-exec")));
const watcher *watching;

namespace {

enum { MOST_THREADS = 1024, WARP = 32, GROUP = 4 * WARP, STACK_BYTES = 64 << 10, MOST_SHARED = 227 << 10 };

/* Threads that wait for each other: how many have come, whom they wait for, and where. `turn` counts how
 * often they went on. */
struct meeting {
    unsigned come, turn, lanes;
    site at;
};

/* A meeting of lanes is kept at the lowest of them: so two halves of a warp may meet on their own. What was
 * given stands in one of two rows by turns: who reads an old one is not overtaken. */
struct warp {
    meeting of_lane[WARP];
    unsigned alive;
    alignas(16) unsigned char given[2][WARP][SLOT];
};

struct fiber {
#if defined(__x86_64__)
    void *stack_pointer;
#else
    ucontext_t context;
#endif
    char *stack;
    place at;
    bool ended;
    site waits;
};

struct block {
    fiber fibers[MOST_THREADS];
    warp warps[MOST_THREADS / WARP];
    meeting groups[MOST_THREADS / GROUP]; /* of four warps each */
    meeting all;
    unsigned count, alive, stacks;
    unsigned char *shared;
    size_t shared_bytes;
    void (*thread)(const void *);
    const void *arguments;
    const char *kernel;
    bool apart;
    bool aside; /* of who runs, which gives way to nobody meanwhile */
    unsigned current;
    unsigned long progress, rounds; /* rounds: of all warps */
    uint64_t random;
#if defined(__x86_64__)
    void *scheduler;
#else
    ucontext_t scheduler;
#endif
    const void *host_stack; /* of the scheduler, for the address sanitizer */
    size_t host_stack_bytes;
};

emulate_order order_now;
thread_local block *now __attribute__((tls_model("initial-exec")));

} // namespace

void stop(const char *why) {
    const place &p = now->fibers[now->current].at;
    fprintf(stderr, "emulated GPU: %s: %s, in block (%u,%u,%u)\n", now->kernel, why, p.block.x, p.block.y,
            p.block.z);
    const site *last = NULL;
    for (unsigned t = 0; t < now->count; t++) {
        const fiber &f = now->fibers[t];
        if (f.ended || (last && last->line == f.waits.line && last->what == f.waits.what)) continue;
        last = &f.waits;
        fprintf(stderr, "  thread %u is at %s, %s:%d\n", t, last->what, last->file, last->line);
    }
    abort();
}

namespace {

/* ---- fibers ---- */

#if defined(__x86_64__)
/* Keeps what a callee must keep on the stack of who gives way, and goes on with the other stack. */
extern "C" void emulate_switch(void **from, void *to);
__asm__(".text\n.globl emulate_switch\n.hidden emulate_switch\nemulate_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
#endif

void to_scheduler(fiber *f, bool last) {
#if defined(__SANITIZE_ADDRESS__)
    void *fake = NULL;
    __sanitizer_start_switch_fiber(last ? NULL : &fake, now->host_stack, now->host_stack_bytes);
#endif
    (void)last;
#if defined(__x86_64__)
    emulate_switch(&f->stack_pointer, now->scheduler);
#else
    swapcontext(&f->context, &now->scheduler);
#endif
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
#endif
}

void go_on(meeting &m) {
    m.come = 0, m.turn++;
    now->progress++;
}

/* Until `needed` threads are here. */
void wait(meeting &m, unsigned lanes, unsigned needed, site at) {
    if (now->apart) stop("threads meet, where the launch says that they never do");
    unsigned self = now->current, turn = m.turn;
    fiber *f = &now->fibers[self];
    f->waits = at;
    if (!m.come) m.lanes = lanes, m.at = at;
    if (m.lanes != lanes || m.at.line != at.line || strcmp(m.at.file, at.file) != 0)
        stop("threads wait for each other at different places");
    if (++m.come >= needed) {
        go_on(m);
        return;
    }
    while (m.turn == turn) to_scheduler(f, false);
}

/* Who has ended is no longer waited for. */
void leave(fiber *f, unsigned self) {
    f->ended = true;
    warp &w = now->warps[self / WARP];
    w.alive &= ~(1u << self % WARP);
    now->alive--, now->progress++;
    if (now->alive && now->all.come == now->alive) go_on(now->all);
    for (meeting &m : w.of_lane)
        if (m.come && m.come == (unsigned)__builtin_popcount(m.lanes & w.alive)) go_on(m);
}

void fiber_body() {
    unsigned self = now->current;
    fiber *f = &now->fibers[self];
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(NULL, &now->host_stack, &now->host_stack_bytes);
#endif
    now->thread(now->arguments);
    copies_end(now->kernel);
    groups_end();
    leave(f, self);
    to_scheduler(f, true);
    abort();
}

void prepare(fiber *f) {
    f->ended = false;
    f->waits = { "its beginning", "", 0 };
#if defined(__x86_64__)
    void **s = (void **)(((uintptr_t)f->stack + STACK_BYTES) & ~(uintptr_t)15);
    *--s = NULL; /* where it would return to */
    *--s = (void *)fiber_body;
    for (int saved = 0; saved < 6; saved++) *--s = NULL;
    f->stack_pointer = s;
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack, f->context.uc_stack.ss_size = STACK_BYTES;
    f->context.uc_link = NULL;
    makecontext(&f->context, fiber_body, 0);
#endif
}

void resume(unsigned which) {
    fiber *f = &now->fibers[which];
    now->current = which;
    here = f->at;
#if defined(__SANITIZE_ADDRESS__)
    void *fake;
    __sanitizer_start_switch_fiber(&fake, f->stack, STACK_BYTES);
#endif
#if defined(__x86_64__)
    emulate_switch(&now->scheduler, f->stack_pointer);
#else
    swapcontext(&now->scheduler, &f->context);
#endif
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
#endif
}

/* ---- blocks ---- */

/* 0 .. n-1 as the order has it. */
void arrange(block &b, unsigned *v, unsigned n) {
    for (unsigned i = 0; i < n; i++) v[i] = order_now == EMULATE_REVERSED ? n - 1 - i : i;
    for (unsigned i = n; order_now == EMULATE_SHUFFLED && i > 1; i--) {
        b.random = b.random * 6364136223846793005u + 1442695040888963407u;
        std::swap(v[i - 1], v[(b.random >> 33) % i]);
    }
}

void place_threads(block &b, const launch_shape &s, unsigned long number) {
    dim3 at((unsigned)(number % s.blocks.x), (unsigned)(number / s.blocks.x % s.blocks.y),
            (unsigned)(number / s.blocks.x / s.blocks.y));
    for (unsigned t = 0; t < b.count; t++)
        b.fibers[t].at = { dim3(t % s.threads.x, t / s.threads.x % s.threads.y,
                                t / s.threads.x / s.threads.y),
                           at, s.threads, s.blocks, t % WARP };
}

/* Threads that never meet run one after the other. */
void run_apart(block &b) {
    static thread_local unsigned order[MOST_THREADS];
    arrange(b, order, b.count);
    for (unsigned i = 0; i < b.count; i++) {
        b.current = order[i];
        here = b.fibers[order[i]].at;
        b.thread(b.arguments);
    }
}

/* One warp until it makes no progress. */
void run_warp(block &b, unsigned w) {
    unsigned first = w * WARP, n = b.count - first < WARP ? b.count - first : (unsigned)WARP, order[WARP];
    arrange(b, order, n);
    for (unsigned long before = b.progress - 1; before != b.progress && b.warps[w].alive;) {
        before = b.progress;
        for (unsigned i = 0; i < n; i++)
            if (!b.fibers[first + order[i]].ended) resume(first + order[i]);
    }
}

void run_meeting(block &b) {
    unsigned warps = (b.count + WARP - 1) / WARP, order[MOST_THREADS / WARP];
    for (unsigned w = 0; w < warps; w++) {
        unsigned left = b.count - w * WARP;
        memset(b.warps[w].of_lane, 0, sizeof b.warps[w].of_lane);
        b.warps[w].alive = left < WARP ? (1u << left) - 1 : ~0u;
    }
    memset(b.groups, 0, sizeof b.groups);
    b.all = meeting(), b.alive = b.count, b.progress = 1, b.rounds = 0;
    for (unsigned t = 0; t < b.count; t++) prepare(&b.fibers[t]);
    while (b.alive) {
        unsigned long before = b.progress;
        b.rounds++;
        arrange(b, order, warps);
        for (unsigned i = 0; i < warps; i++) run_warp(b, order[i]);
        if (b.progress == before && b.alive) stop("threads wait for ever");
    }
}

/* ---- launches ---- */

struct grid {
    const launch_shape *shape;
    void (*thread)(const void *);
    const void *arguments;
};

/* A block is kept by each thread of the host, with the stacks that it has needed so far. */
block *block_of_thread() {
    static thread_local struct kept {
        block *b = NULL;
        ~kept() {
            for (unsigned t = 0; b && t < b->stacks; t++) free(b->fibers[t].stack);
            if (b) free(b->shared);
            free(b);
        }
    } mine;
    if (!mine.b) mine.b = (block *)calloc(1, sizeof *mine.b);
    if (!mine.b) abort();
    return mine.b;
}

void give_room(block &b, const launch_shape &s) {
    for (; !s.apart && b.stacks < b.count; b.stacks++)
        if (!(b.fibers[b.stacks].stack = (char *)malloc(STACK_BYTES))) abort();
    if (b.shared_bytes == s.shared) return;
    free(b.shared); /* exactly as large as asked for, so that a sanitizer sees its edges */
    b.shared = (unsigned char *)aligned_alloc(16, (s.shared + 15) / 16 * 16);
    b.shared_bytes = s.shared;
    if (!b.shared) abort();
}

void run_block(void *context, int64_t tile, int) {
    const grid *g = (const grid *)context;
    const launch_shape &s = *g->shape;
    unsigned long blocks = (unsigned long)s.blocks.x * s.blocks.y * s.blocks.z;
    block &b = *block_of_thread();
    block *outer = now;
    now = &b;
    b.count = s.threads.x * s.threads.y * s.threads.z;
    b.thread = g->thread, b.arguments = g->arguments, b.kernel = s.kernel, b.apart = s.apart;
    give_room(b, s);
    if (s.shared) memset(b.shared, 0xff, s.shared); /* NaN in every type */
    shared_begins(s.shared), bulk_begins(s.shared), tmem_begins_block();
    place_threads(b, s,
                  order_now == EMULATE_REVERSED ? blocks - 1 - (unsigned long)tile : (unsigned long)tile);
    if (watching) watching->block(b.shared, s.shared, b.warps, sizeof b.warps);
    if (s.apart)
        run_apart(b);
    else
        run_meeting(b);
    tmem_ends_block(), bulk_ends();
    if (watching) watching->block_ends();
    now = outer;
}

void run_watched(const grid &g, const void *arguments, size_t bytes, int64_t blocks) {
    int64_t most = watching->most_blocks, runs = most && most < blocks ? most : blocks;
    watching->launch(*g.shape, arguments, bytes);
    for (int64_t i = 0; i < runs; i++) run_block((void *)&g, i * blocks / runs, 0);
}

} // namespace

bool is_running(running *r) {
    const block *b = now;
    if (!b) return false;
    *r = { b->current, b->all.turn, b->apart ? NULL : b->fibers[b->current].stack, STACK_BYTES, b->aside };
    return true;
}

void aside(bool yes) { now->aside = yes; }

unsigned char *shared() { return now->shared; }

void misaligned(const void *at, size_t bytes) {
    fprintf(stderr, "emulated GPU: an access of %zu bytes at %p, which is not aligned to them\n", bytes, at);
    abort();
}

void barrier(site at) { wait(now->all, 0, now->alive, at); }

void give_way(site at) {
    if (now->apart) stop("threads meet, where the launch says that they never do");
    fiber *f = &now->fibers[now->current];
    f->waits = at;
    to_scheduler(f, false);
}

void went_on() { now->progress++; }

/* When the next round of all warps is over, all others have had their turn, in whatever order. */
void let_others_run(site at) {
    went_on();
    for (unsigned long round = now->rounds, last = round + 2; round < last;) {
        give_way(at);
        if (now->rounds != round) round = now->rounds, went_on();
    }
}

void meet_group(site at) { wait(now->groups[now->current / GROUP], 0, GROUP, at); }

const unsigned char *exchange(unsigned lanes, const void *value, size_t bytes, site at) {
    unsigned self = now->current, lane = self % WARP;
    warp &w = now->warps[self / WARP];
    now->fibers[self].waits = at;
    if (!(lanes >> lane & 1)) stop("a thread is not among those it waits for");
    meeting &m = w.of_lane[__builtin_ctz(lanes)];
    unsigned turn = m.turn, row = turn & 1;
    memcpy(w.given[row][lane], value, bytes);
    bool orders = watching && strcmp(at.what, "__syncwarp") == 0; /* memory; shuffles don't */
    if (orders) watching->come(lanes, turn, !m.come);
    wait(m, lanes, (unsigned)__builtin_popcount(lanes & w.alive), at);
    if (orders) watching->go(lanes, turn);
    return w.given[row][0];
}

void run(const launch_shape &shape, void (*thread)(const void *), const void *arguments, size_t bytes) {
    grid g = { &shape, thread, arguments };
    int64_t blocks = (int64_t)shape.blocks.x * shape.blocks.y * shape.blocks.z;
    unsigned long threads = (unsigned long)shape.threads.x * shape.threads.y * shape.threads.z;
    if (!threads || threads > MOST_THREADS || shape.shared > MOST_SHARED || blocks < 1 ||
        shape.blocks.y > 65535 || shape.blocks.z > 65535) {
        fprintf(stderr, "emulated GPU: %s: no GPU takes %ld blocks (%u, %u, %u) of %lu threads, %zu bytes\n",
                shape.kernel, (long)blocks, shape.blocks.x, shape.blocks.y, shape.blocks.z, threads,
                shape.shared);
        abort();
    }
    if (watching)
        run_watched(g, arguments, bytes, blocks);
    else
        threads_for(blocks, run_block, &g);
}

void launch(const launch_shape &shape, void (*thread)(const void *), const void *arguments, size_t bytes) {
    if (!lanes_take(shape, thread, arguments, bytes)) run(shape, thread, arguments, bytes);
}

} // namespace emulate

void emulate_order_set(emulate_order order) { emulate::order_now = order; }
