/* What emulated kernels read and write (emulate_watch.h). GCC's -fsanitize=thread puts a call before each
 * access; the calls end here and not in its library, which knows nothing of blocks and warps. */
#include "device/cuda/emulate_watch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <vector>

#include "device/cuda/emulate_hooks.h"

extern "C" char __executable_start, __data_start; /* of the program's image: the linker's */

namespace {

using emulate::running;
enum { WARP = 32, MOST_WARPS = 32, PAGE = 4096, SECTOR = 32, BANKS = 32, WORD = 4 /* of a bank */ };

/* ---- who did what ---- */

/* Of one byte. Blocks have numbers of their own over all launches, so what was before a launch is known by
 * its number. */
struct access {
    uint32_t block, barriers, clock; /* when: after so many barriers, and at this clock of its thread */
    uint32_t thread;
    uintptr_t where; /* in the program */
    bool atomic;
};

/* The last write and the last read; of reads also the last one by another thread of the same warp, by
 * another warp, and by another block than the last read's. */
struct cell {
    access write, read, same_warp, same_block, other_block;
};

/* Cells of 4 bytes each as long as nothing smaller is touched in the page. */
struct page {
    unsigned grain;
    std::unique_ptr<cell[]> cells;
    uint32_t touched[2][PAGE / 32]; /* a bit for each byte */
};

/* Vector clocks of the lanes of a warp: seen[a][b] is the last clock of b that a is after. */
struct lanes_clock {
    uint32_t seen[WARP][WARP];
    uint32_t given[WARP][2][WARP]; /* by the meeting's lowest lane and its turn's parity */
};

struct range {
    uintptr_t first, last; /* the byte after it */
    emulate_watch_kind kind;
};

struct request { /* what sorts alike is one */
    uint64_t of; /* kind, place of the program, warp, how often so far */
    uint64_t sector;
    bool operator<(const request &r) const { return of != r.of ? of < r.of : sector < r.sector; }
    bool operator==(const request &r) const { return of == r.of && sector == r.sector; }
};

struct lane_access { /* of shared memory */
    uint64_t of;     /* as a request's */
    uintptr_t at;
    uint32_t thread, bytes;
    bool writes;
    bool operator<(const lane_access &r) const { return of != r.of ? of < r.of : thread < r.thread; }
};

struct place_turns {
    uintptr_t where;
    uint64_t turns, conflicts;
};

struct watch {
    emulate_watch_options options;
    std::vector<range> ranges;
    std::unordered_map<uintptr_t, std::unique_ptr<page>> pages;
    page *recent[64]; /* of the pages, by the end of their number */
    uintptr_t recent_number[64];
    uint32_t first_block, launch_block, block; /* of this watch, of this launch, now */
    range arguments, shared, given, host_stack;
    lanes_clock warps[MOST_WARPS];
    std::unordered_map<uintptr_t, uint32_t> places; /* of the program, numbered */
    std::vector<std::vector<uint32_t>> times;       /* by place and thread */
    std::vector<request> requests[2];
    std::vector<lane_access> shared_requests;
    std::vector<place_turns> by_place;
    emulate_traffic traffic;
    const char *kernel;
    uint64_t mistakes;
    bool race_said;
    char said[512];
};
watch w;
uint32_t blocks_so_far; /* never begins anew: memory is used again by the next watch */

bool is_in(const range &r, uintptr_t a, uintptr_t last) { return a >= r.first && last <= r.last; }

/* ---- saying it ---- */

/* "FILE:LINE" of an address in the program, by binutils where they are; else its offset. A call comes back to
 * the line after it. Of an instruction's twin the place that uses it. */
void name_place(uintptr_t where, char *out, size_t bytes) {
    char command[256], line[192] = "";
    snprintf(out, bytes, "+0x%zx", (size_t)(where - 1 - (uintptr_t)&__executable_start));
    snprintf(command, sizeof command, "addr2line -i -e /proc/%d/exe %s 2>/dev/null", (int)getpid(), out + 1);
    FILE *f = popen(command, "r");
    if (!f) return;
    while (fgets(line, sizeof line, f) && strstr(line, "/src/device/cuda/")) {}
    pclose(f);
    line[strcspn(line, " \n")] = 0;
    const char *slash = strstr(line, "/src/");
    if (!slash) slash = strstr(line, "/tests/");
    if (line[0] && line[0] != '?') snprintf(out, bytes, "%s", slash ? slash + 1 : line);
}

/* The first is told, a race rather than what may follow from it. */
bool is_told(bool race) {
    bool told = w.mistakes++ == 0 || (race && !w.race_said);
    w.race_said = w.race_said || race;
    return told;
}

void say_race(const access &before, bool wrote, const access &now, bool writes) {
    if (!is_told(true)) return;
    char here[192], there[192];
    name_place(before.where, there, sizeof there);
    name_place(now.where, here, sizeof here);
    snprintf(w.said, sizeof w.said,
             "%s: a race: thread %u%s %s it (%s), and thread %u %s it (%s), with nothing between them",
             w.kernel, before.thread, before.block == now.block ? "" : " of another block",
             wrote ? "wrote" : "read", there, now.thread, writes ? "writes" : "reads", here);
}

void say(const char *what, const running &r, uintptr_t where, uintptr_t at, unsigned bytes) {
    if (!is_told(false)) return;
    char here[192];
    name_place(where, here, sizeof here);
    snprintf(w.said, sizeof w.said, "%s: thread %u %s: %u bytes at %p (%s)", w.kernel, r.thread, what, bytes,
             (void *)at, here);
}

/* ---- races ---- */

page *page_of(uintptr_t a) {
    uintptr_t number = a / PAGE;
    unsigned slot = number % 64;
    if (w.recent[slot] && w.recent_number[slot] == number) return w.recent[slot];
    std::unique_ptr<page> &p = w.pages[number];
    if (!p) p.reset(new page());
    w.recent[slot] = p.get(), w.recent_number[slot] = number;
    return p.get();
}

void split_cells(page *p, unsigned grain) {
    if (p->grain == grain) return;
    std::unique_ptr<cell[]> cells(new cell[PAGE / grain]());
    for (unsigned i = 0; p->grain && i < PAGE / grain; i++) cells[i] = p->cells[i * grain / p->grain];
    p->cells.swap(cells), p->grain = grain;
}

/* Whether `a` is done when `now` is. Shared memory is another one in each block. */
bool is_before(const access &a, const access &now, bool is_shared) {
    if (a.block < w.launch_block || (a.block == now.block && a.thread == now.thread)) return true;
    if (a.block != now.block) return is_shared;
    if (a.barriers != now.barriers) return true;
    unsigned warp = now.thread / WARP;
    return a.thread / WARP == warp && w.warps[warp].seen[now.thread % WARP][a.thread % WARP] >= a.clock;
}

void look(const access &before, bool wrote, const access &now, bool writes, bool is_shared) {
    if ((before.atomic && now.atomic) || is_before(before, now, is_shared)) return;
    say_race(before, wrote, now, writes);
}

void keep_read(cell &c, const access &now) {
    const access &last = c.read;
    if (last.block != now.block)
        c.other_block = last;
    else if (last.thread / WARP != now.thread / WARP)
        c.same_block = last;
    else if (last.thread != now.thread)
        c.same_warp = last;
    c.read = now;
}

void touch(cell &c, const access &now, bool writes, bool is_shared) {
    look(c.write, true, now, writes, is_shared);
    if (!writes) {
        keep_read(c, now);
        return;
    }
    for (const access *read : { &c.read, &c.same_warp, &c.same_block, &c.other_block })
        look(*read, false, now, true, is_shared);
    c.write = now;
}

/* False where something raw was read that nobody wrote. */
bool touch_all(uintptr_t a, unsigned bytes, const access &now, bool writes, bool raw) {
    bool is_shared = is_in(w.shared, a, a + bytes), written = true;
    for (uintptr_t at = a; at < a + bytes;) {
        page *p = page_of(at);
        unsigned offset = at % PAGE, grain = p->grain == 1 || a % 4 || bytes % 4 ? 1 : 4;
        split_cells(p, grain);
        cell &c = p->cells[offset / grain];
        if (raw && !writes && c.write.block < w.first_block) written = false;
        touch(c, now, writes, is_shared);
        at += grain;
    }
    return written;
}

/* ---- traffic ---- */

uint32_t place_number(uintptr_t where) {
    auto found = w.places.insert({ where, (uint32_t)w.places.size() });
    if (found.second) {
        w.times.emplace_back(MOST_WARPS * WARP);
        w.by_place.push_back({ where, 0, 0 });
    }
    return found.first->second;
}

enum { PLACE_SHIFT = 37, WARP_SHIFT = 32 };

enum { ROW = 8 /* accesses of sixteen bytes, in which the copy engine reads a row */ };

/* The request that the running thread's next access at this place belongs to. */
uint64_t request_of(const running &r, uintptr_t where) {
    uint64_t place = place_number(where), time = w.times[place][r.thread]++;
    if (r.aside) time /= ROW;
    return (place << PLACE_SHIFT) | ((uint64_t)(r.thread / WARP) << WARP_SHIFT) | (uint32_t)time;
}

void count(uintptr_t a, unsigned bytes, const running &r, uintptr_t where, bool writes, bool operand) {
    uint64_t of = request_of(r, where);
    for (uintptr_t s = a / SECTOR; s <= (a + bytes - 1) / SECTOR; s++)
        w.requests[writes].push_back({ of, s });
    w.traffic.asked[writes] += bytes;
    for (uintptr_t at = a; operand && at < a + bytes; at++)
        page_of(at)->touched[writes][at % PAGE / 32] |= 1u << at % 32;
}

/* How often banks take turns for the accesses of some lanes at once. */
unsigned turns_of(const lane_access *first, const lane_access *last) {
    uintptr_t words[WARP * 4];
    unsigned count = 0, of_bank[BANKS] = { 0 }, most = 0;
    for (const lane_access *x = first; x < last; x++)
        for (uintptr_t word = x->at / WORD; word <= (x->at + x->bytes - 1) / WORD; word++)
            if (count < sizeof words / sizeof *words) words[count++] = word;
    std::sort(words, words + count);
    count = (unsigned)(std::unique(words, words + count) - words);
    for (unsigned i = 0; i < count; i++) most = std::max(most, ++of_bank[words[i] % BANKS]);
    return most;
}

/* As many lanes at once as the banks have words for. */
void count_turns(const lane_access *first, const lane_access *last) {
    const unsigned wide = std::max(first->bytes, (unsigned)WORD), lanes = std::max(BANKS * WORD / wide, 1u);
    place_turns &place = w.by_place[first->of >> PLACE_SHIFT];
    while (first < last) {
        const lane_access *end = first;
        while (end < last && end->thread / lanes == first->thread / lanes) end++;
        const unsigned turns = turns_of(first, end);
        w.traffic.turns[first->writes]++, w.traffic.conflicts[first->writes] += turns - 1;
        place.turns++, place.conflicts += turns - 1;
        first = end;
    }
}

void count_conflicts() {
    std::vector<lane_access> &all = w.shared_requests;
    std::sort(all.begin(), all.end());
    for (size_t first = 0, last = 0; first < all.size(); first = last) {
        while (last < all.size() && all[last].of == all[first].of) last++;
        count_turns(&all[first], &all[first] + (last - first));
    }
    all.clear();
}

void count_requests() {
    count_conflicts();
    for (int writes = 0; writes < 2; writes++) {
        std::vector<request> &all = w.requests[writes];
        std::sort(all.begin(), all.end());
        w.traffic.sectors[writes] += (uint64_t)(std::unique(all.begin(), all.end()) - all.begin());
        all.clear();
    }
    for (std::vector<uint32_t> &of_place : w.times) std::fill(of_place.begin(), of_place.end(), 0);
}

/* ---- an access ---- */

range stack_of_host() {
    pthread_attr_t attributes;
    void *at = NULL;
    size_t bytes = 0;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &at, &bytes);
    pthread_attr_destroy(&attributes);
    return { (uintptr_t)at, (uintptr_t)at + bytes, EMULATE_WATCH_FILLED };
}

/* A thread's own: its stack (of the host's what is below the block's beginning), where it is, what it was
 * launched with, what shuffles gave it, constants. */
bool is_own(uintptr_t a, uintptr_t last, const running &r, bool writes) {
    uintptr_t stack = (uintptr_t)r.stack, here = (uintptr_t)&emulate::here;
    if (r.stack ? a >= stack && last <= stack + r.stack_bytes : is_in(w.host_stack, a, last)) return true;
    if (a >= here && last <= here + sizeof emulate::here) return true;
    return is_in(w.arguments, a, last) || is_in(w.given, a, last) ||
           (!writes && a >= (uintptr_t)&__executable_start && last <= (uintptr_t)&__data_start);
}

/* The range that has it; `raw`: no range says that it has values. */
const range *find_range(uintptr_t a, uintptr_t last, bool *raw) {
    const range *found = NULL;
    *raw = true;
    for (const range &m : w.ranges)
        if (is_in(m, a, last)) {
            if (!found || found->kind == EMULATE_WATCH_SCRATCH) found = &m;
            *raw = *raw && m.kind != EMULATE_WATCH_FILLED;
        }
    return found;
}

void saw(uintptr_t a, unsigned bytes, uintptr_t where, bool writes, bool atomic) {
    running r;
    if (!emulate::watching || !emulate::is_running(&r)) return;
    bool raw = false, is_shared = is_in(w.shared, a, a + bytes);
    const range *of = is_shared ? &w.shared : find_range(a, a + bytes, &raw);
    if (!of) {
        if (!is_own(a, a + bytes, r, writes))
            say(writes ? "writes what is not its memory" : "reads what is not its memory", r, where, a,
                bytes);
        return;
    }
    w.traffic.accesses++;
    if (w.options.traffic) {
        if (!is_shared)
            count(a, bytes, r, where, writes, of->kind != EMULATE_WATCH_SCRATCH);
        else if (!r.aside)
            w.shared_requests.push_back({ request_of(r, where), a, r.thread, bytes, writes });
        return;
    }
    uint32_t clock = w.warps[r.thread / WARP].seen[r.thread % WARP][r.thread % WARP];
    access now = { w.block, r.barriers, clock, r.thread, where, atomic };
    if (!touch_all(a, bytes, now, writes, raw)) say("reads what nobody has written", r, where, a, bytes);
}

/* ---- what the emulation tells ---- */

void launch(const emulate::launch_shape &shape, const void *arguments, size_t bytes) {
    w.kernel = shape.kernel;
    w.arguments = { (uintptr_t)arguments, (uintptr_t)arguments + bytes, EMULATE_WATCH_FILLED };
    w.launch_block = blocks_so_far + 1;
    w.traffic.launches++;
}

void block_begins(const unsigned char *shared, size_t shared_bytes, const void *given, size_t given_bytes) {
    w.block = ++blocks_so_far;
    w.shared = { (uintptr_t)shared, (uintptr_t)shared + shared_bytes, EMULATE_WATCH_RAW };
    w.host_stack.last = (uintptr_t)__builtin_frame_address(0);
    w.given = { (uintptr_t)given, (uintptr_t)given + given_bytes, EMULATE_WATCH_RAW };
    if (w.options.traffic) return;
    memset(w.warps, 0, sizeof w.warps);
    for (lanes_clock &c : w.warps)
        for (int lane = 0; lane < WARP; lane++) c.seen[lane][lane] = 1;
}

void block_ends() {
    if (w.options.traffic) count_requests();
}

void join(uint32_t *into, const uint32_t *from) {
    for (int lane = 0; lane < WARP; lane++) into[lane] = std::max(into[lane], from[lane]);
}

void come(unsigned lanes, unsigned turn, bool first) {
    running r;
    emulate::is_running(&r);
    lanes_clock &c = w.warps[r.thread / WARP];
    unsigned lane = r.thread % WARP;
    uint32_t *given = c.given[__builtin_ctz(lanes)][turn & 1];
    if (first) memset(given, 0, sizeof c.given[0][0]);
    join(given, c.seen[lane]);
    c.seen[lane][lane]++;
}

void go(unsigned lanes, unsigned turn) {
    running r;
    emulate::is_running(&r);
    lanes_clock &c = w.warps[r.thread / WARP];
    join(c.seen[r.thread % WARP], c.given[__builtin_ctz(lanes)][turn & 1]);
}

emulate::watcher watcher = { 0, launch, block_begins, block_ends, come, go };

uint64_t bits_of(const uint32_t *words) {
    uint64_t bits = 0;
    for (int i = 0; i < PAGE / 32; i++) bits += (unsigned)__builtin_popcount(words[i]);
    return bits;
}

} // namespace

void emulate_watch_begin(const emulate_watch_options *o) {
    w.options = *o;
    w.ranges.clear(), w.pages.clear();
    memset(w.recent, 0, sizeof w.recent);
    w.first_block = blocks_so_far + 1;
    w.traffic = {};
    for (place_turns &p : w.by_place) p.turns = p.conflicts = 0;
    w.mistakes = 0, w.race_said = false, w.said[0] = 0;
    w.host_stack = stack_of_host();
    watcher.most_blocks = o->most_blocks;
    emulate::watching = &watcher;
}

void emulate_watch_memory(const void *at, uint64_t bytes, emulate_watch_kind kind) {
    if (at && bytes) w.ranges.push_back({ (uintptr_t)at, (uintptr_t)at + bytes, kind });
}

uint64_t emulate_watch_end(emulate_traffic *t) {
    emulate::watching = NULL;
    for (const auto &p : w.pages)
        for (int writes = 0; writes < 2; writes++)
            w.traffic.operands[writes] += bits_of(p.second->touched[writes]);
    if (t) *t = w.traffic;
    return w.mistakes;
}

const char *emulate_watch_said(void) { return w.said; }

bool emulate_watch_conflicts(unsigned n, emulate_conflicts *c) {
    std::vector<place_turns> all;
    for (const place_turns &p : w.by_place)
        if (p.conflicts) all.push_back(p);
    if (n >= all.size()) return false;
    std::sort(all.begin(), all.end(),
              [](const place_turns &a, const place_turns &b) { return a.conflicts > b.conflicts; });
    name_place(all[n].where, c->where, sizeof c->where);
    c->turns = all[n].turns, c->conflicts = all[n].conflicts;
    return true;
}

/* ---- the compiler's calls; a build with other sanitizers has no watched kernels ---- */

#if !defined(__SANITIZE_ADDRESS__)

#define WHERE ((uintptr_t)__builtin_return_address(0))
#define PLAIN(n)                                                                                             \
    void __tsan_read##n(void *a) { saw((uintptr_t)a, n, WHERE, false, false); }                              \
    void __tsan_write##n(void *a) { saw((uintptr_t)a, n, WHERE, true, false); }                              \
    void __tsan_unaligned_read##n(void *a) { saw((uintptr_t)a, n, WHERE, false, false); }                    \
    void __tsan_unaligned_write##n(void *a) { saw((uintptr_t)a, n, WHERE, true, false); }

#pragma GCC diagnostic ignored "-Wmissing-declarations"
extern "C" {
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)
void __tsan_read_range(void *a, long n) { saw((uintptr_t)a, (unsigned)n, WHERE, false, false); }
void __tsan_write_range(void *a, long n) { saw((uintptr_t)a, (unsigned)n, WHERE, true, false); }
void __tsan_vptr_update(void *, void *) {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_init() {}

/* Those that kernels use (emulate.h). */
int __tsan_atomic32_load(const int *a, int) {
    saw((uintptr_t)a, 4, WHERE, false, true);
    return __atomic_load_n(a, __ATOMIC_RELAXED);
}
bool __tsan_atomic32_compare_exchange_strong(int *a, int *expected, int value, int, int) {
    saw((uintptr_t)a, 4, WHERE, true, true);
    return __atomic_compare_exchange_n(a, expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
bool __tsan_atomic32_compare_exchange_weak(int *a, int *expected, int value, int, int) {
    saw((uintptr_t)a, 4, WHERE, true, true);
    return __atomic_compare_exchange_n(a, expected, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
int __tsan_atomic32_compare_exchange_val(int *a, int expected, int value, int, int) {
    saw((uintptr_t)a, 4, WHERE, true, true);
    __atomic_compare_exchange_n(a, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
}
#endif
