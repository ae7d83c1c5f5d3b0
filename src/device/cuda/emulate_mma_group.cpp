/* What twins of products by groups of warps do beside the memory that their threads read
 * (emulate_mma_group.h). Descriptors are decoded here by the PTX ISA's canonical layouts, independently of
 * how mma_group.h makes them. */
#include "device/cuda/mma_group.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <deque>
#include <memory>
#include <vector>

#include "device/cuda/emulate_hooks.h"

namespace emulate {
namespace {

enum { MOST_THREADS = 1024, GROUPS = MOST_THREADS / GPU_GROUP, PIECE = 16 /* bytes */ };
enum { LINES = 64 /* of a */, MOST_COLUMNS = 256, MOST_DEPTH = 32 };
enum { BEGINS_AT = 1040 /* shared memory: at a multiple of 16, and of nothing more */ };
const unsigned POISON = 0xffffffffu;

unsigned thread_now() {
    running r;
    if (!is_running(&r)) abort();
    return r.thread;
}

/* ---- what tensor cores see of shared memory ---- */

struct tensor_view {
    std::vector<unsigned char> seen;
    std::vector<uint16_t> writer; /* of each piece: 1 + who wrote it last and has not shown it */
    std::vector<unsigned> written[MOST_THREADS]; /* pieces, by thread */
    std::vector<unsigned> writers;               /* threads that have such */
    std::vector<unsigned> shown;                 /* by thread: when it did so last: meetings of all, and 1 */
};
tensor_view &view() {
    static thread_local std::unique_ptr<tensor_view> v; /* a thread that runs no block has none */
    if (!v) v.reset(new tensor_view());
    return *v;
}

/* ---- descriptors ---- */

/* An operand as its descriptor has it; distances in bytes. */
struct operand {
    unsigned start, leading, stride, pieces /* in a row of the swizzle */;
    bool crossed;
};

operand decode(uint64_t bits, bool crossed) {
    static const unsigned pieces[] = { 1, 8, 4, 2 }; /* of no swizzle, of 128, 64 and 32 bytes */
    const uint64_t field = 0x3fff, fields = field | field << 16 | field << 32 | 7ull << 49 | 3ull << 62;
    if (bits & ~fields) stop("a descriptor has bits that say nothing");
    if (bits >> 49 & 7) stop("a descriptor has a base offset, which the emulation doesn't know");
    return { (unsigned)(bits & field) << 4, (unsigned)(bits >> 16 & field) << 4,
             (unsigned)(bits >> 32 & field) << 4, pieces[bits >> 62], crossed };
}

/* Where piece (i, j) lies: along the depth, j is 0 or 1 of line i; else i is a depth, j eight lines. */
unsigned address_of(const operand &o, unsigned i, unsigned j) {
    unsigned row = o.pieces * PIECE, at = o.start + i % 8 * row + i / 8 * o.stride;
    if (o.pieces == 1 && o.crossed)
        at = o.start + i % 8 * PIECE + i / 8 * o.leading + j * o.stride;
    else if (o.pieces == 1)
        at += j * o.leading;
    else
        at += j % o.pieces * PIECE + j / o.pieces * o.leading;
    return at ^ (at >> 7 & (o.pieces - 1)) << 4;
}

/* The piece that thread `lane` of a group reads in turn n, of all turns of an operand: eight neighbours have
 * the eight rows of a core matrix. */
unsigned piece_read(bool crossed, unsigned lines, unsigned n, unsigned lane) {
    const unsigned each = crossed ? lines / 8 : 2, m = n * GPU_GROUP + lane;
    return (m / (8 * each) * 8 + m % 8) * each + m / 8 % each;
}

/* Piece n of an operand of so many lines; offset in shared memory. */
unsigned offset_of(uint64_t bits, bool crossed, unsigned lines, unsigned n) {
    unsigned each = crossed ? lines / 8 : 2;
    return shared_offset(address_of(decode(bits, crossed), n / each, n % each));
}

/* ---- products that are under way ---- */

/* What a group's threads will have in their registers. */
struct accumulators {
    float *d[GPU_GROUP];
    std::vector<float> x; /* by thread */
    unsigned under_way;
};

struct piece {
    unsigned offset;
    eight bytes;
};
struct product {
    group_product what; /* as the group's first thread says it */
    std::vector<piece> a, b;
    std::shared_ptr<accumulators> sums;
    unsigned set; /* commits before it */
};

struct group {
    bool fenced;
    unsigned commits;
    std::vector<piece> a, b; /* of the product that begins */
    group_product said;
    float *d[GPU_GROUP];
    std::deque<product> under_way;
};
group &group_of(unsigned thread) {
    static thread_local std::unique_ptr<group[]> all;
    if (!all) all.reset(new group[GROUPS]());
    return all[thread / GPU_GROUP];
}

bool is_same(const group_product &p, const group_product &q) {
    return p.columns == q.columns && p.numbers == q.numbers && p.a == q.a && p.b == q.b &&
           p.a_crossed == q.a_crossed && p.b_crossed == q.b_crossed && p.onto == q.onto;
}

double half_of(uint16_t x, group_numbers numbers) {
    return (double)(numbers == GROUP_BF16 ? half_from_bf16(x) : half_from_f16(x));
}

/* An operand's numbers, by line and depth. */
void unpack(const std::vector<piece> &from, unsigned lines, bool crossed, group_numbers numbers, bool is_b,
            double (*to)[MOST_DEPTH]) {
    const bool halves = numbers == GROUP_BF16 || numbers == GROUP_F16;
    const double *of_code = halves ? NULL : small_floats_of(numbers == GROUP_E5M2 && !is_b ? 5 : 4);
    for (unsigned n = 0; n < from.size(); n++)
        for (unsigned k = 0; k < (halves ? 8u : 16u); k++) {
            uint16_t two = from[n].bytes[halves ? k : k / 2];
            double x = halves ? half_of(two, numbers) : of_code[two >> k % 2 * 8 & 0xff];
            if (crossed)
                to[n % (lines / 8) * 8 + k][n / (lines / 8)] = x;
            else
                to[n / 2][n % 2 * (halves ? 8 : 16) + k] = x;
        }
}

/* Products of numbers of 16 bits and of 8 are exact in f64, and nearly so are their sums. */
void multiply(const product &p) {
    std::unique_ptr<double[][MOST_DEPTH]> a(new double[LINES][MOST_DEPTH]());
    std::unique_ptr<double[][MOST_DEPTH]> b(new double[MOST_COLUMNS][MOST_DEPTH]());
    const group_product &w = p.what;
    const unsigned depth = w.numbers == GROUP_BF16 || w.numbers == GROUP_F16 ? 16 : 32;
    unpack(p.a, LINES, w.a_crossed, w.numbers, false, a.get());
    unpack(p.b, w.columns, w.b_crossed, w.numbers, true, b.get());
    for (unsigned t = 0; t < GPU_GROUP; t++)
        for (unsigned i = 0; i < w.columns / 2; i++) {
            unsigned row = t / 32 * 16 + t % 32 / 4 + i % 4 / 2 * 8, column = i / 4 * 8 + t % 4 * 2 + i % 2;
            float &x = p.sums->x[t * (w.columns / 2) + i];
            double sum = w.onto ? (double)x : 0;
            for (unsigned k = 0; k < depth; k++) sum += a[row][k] * b[column][k];
            x = (float)sum;
        }
}

void is_as_it_was(const std::vector<piece> &pieces) {
    for (const piece &p : pieces)
        if (!shared_is(p.offset, &p.bytes)) stop("shared memory is written that a product under way reads");
}

void publish(const accumulators &s) {
    const size_t each = s.x.size() / GPU_GROUP;
    for (unsigned t = 0; t < GPU_GROUP; t++)
        for (size_t i = 0; i < each; i++) {
            if (half_bits(s.d[t][i]) != POISON) stop("sums of a product under way are written");
            s.d[t][i] = s.x[t * each + i];
        }
}

void land(group &g, unsigned left) {
    while (!g.under_way.empty() && g.commits - g.under_way.front().set > left) {
        product &p = g.under_way.front();
        is_as_it_was(p.a), is_as_it_was(p.b);
        multiply(p);
        if (--p.sums->under_way == 0) publish(*p.sums);
        g.under_way.pop_front();
    }
}

/* The sums that these registers will have: those of a product under way, or what they hold. */
std::shared_ptr<accumulators> sums_of(group &g) {
    for (const product &p : g.under_way)
        if (p.sums->d[0] == g.d[0]) {
            if (p.what.columns != g.said.columns) stop("products of different shapes have the same sums");
            return p.sums;
        }
    std::shared_ptr<accumulators> s(new accumulators());
    const unsigned each = g.said.columns / 2;
    s->x.resize((size_t)GPU_GROUP * each);
    for (unsigned t = 0; t < GPU_GROUP; t++) {
        s->d[t] = g.d[t];
        memcpy(&s->x[(size_t)t * each], g.d[t], each * sizeof(float));
        memset(g.d[t], 0xff, each * sizeof(float));
    }
    return s;
}

} // namespace

/* ---- shared memory ---- */

void shared_begins(size_t bytes) {
    tensor_view &v = view();
    v.seen.assign((bytes + PIECE - 1) / PIECE * PIECE, 0xff);
    v.writer.assign(v.seen.size() / PIECE, 0);
    for (unsigned thread : v.writers) v.written[thread].clear();
    v.writers.clear();
    v.shown.assign(MOST_THREADS, 0);
    for (unsigned g = 0; g < GROUPS; g++) group_of(g * GPU_GROUP).fenced = false;
}

void shared_written(const void *at) {
    running r;
    if (!is_running(&r)) return;
    tensor_view &v = view();
    size_t offset = (uintptr_t)at - (uintptr_t)shared();
    if (offset < v.seen.size()) bulk_written((unsigned)offset);
    if (offset >= v.seen.size() || v.writer[offset / PIECE] == r.thread + 1) return;
    v.writer[offset / PIECE] = (uint16_t)(r.thread + 1);
    if (v.written[r.thread].empty()) v.writers.push_back(r.thread);
    v.written[r.thread].push_back((unsigned)(offset / PIECE));
}

void shared_shown() {
    tensor_view &v = view();
    unsigned thread = thread_now();
    for (unsigned piece : v.written[thread]) {
        if (v.writer[piece] != thread + 1) continue; /* another wrote it since, and shows it */
        memcpy(&v.seen[(size_t)piece * PIECE], shared() + (size_t)piece * PIECE, PIECE);
        v.writer[piece] = 0;
    }
    v.written[thread].clear();
    running r;
    if (is_running(&r)) v.shown[thread] = r.barriers + 1;
    bulk_shown(thread);
}

/* Before all met last. Who wrote without gpu_set16 is not known, so it is all but the group of the thread
 * that runs. */
static bool have_others_shown() {
    running r;
    const unsigned count = here.threads.x * here.threads.y * here.threads.z;
    if (!is_running(&r)) return false;
    for (unsigned t = 0; t < count; t++)
        if (t / GPU_GROUP != r.thread / GPU_GROUP && view().shown[t] != r.barriers) return false;
    return true;
}

void shared_awaits(unsigned offset) {
    tensor_view &v = view();
    bool differs = memcmp(&v.seen[offset], shared() + offset, PIECE) != 0;
    if (v.writer[offset / PIECE] || (differs && !have_others_shown()))
        stop("a bulk copy goes where threads wrote, and they haven't shown it (fence.proxy.async)");
    memset(&v.seen[offset], 0xff, PIECE), memset(shared() + offset, 0xff, PIECE);
}

void shared_brought(unsigned offset, const eight &bytes) {
    memcpy(&view().seen[offset], &bytes, PIECE), memcpy(shared() + offset, &bytes, PIECE);
}

unsigned shared_at(const void *at) { return BEGINS_AT + (unsigned)((uintptr_t)at - (uintptr_t)shared()); }

unsigned shared_offset(unsigned address) {
    const unsigned at = address - BEGINS_AT;
    if (at % PIECE || (size_t)at + PIECE > view().seen.size())
        stop("a descriptor points out of shared memory");
    return at;
}

void shared_multiplied(unsigned offset, const void *bytes) {
    bulk_read(offset, thread_now());
    if (memcmp(bytes, &view().seen[offset], PIECE) != 0)
        stop(
            "tensor cores haven't been shown what they multiply (fence.proxy.async), or it is being written");
}

bool shared_is(unsigned offset, const void *bytes) {
    return memcmp(bytes, &view().seen[offset], PIECE) == 0 && memcmp(bytes, shared() + offset, PIECE) == 0;
}

/* ---- products ---- */

const void *group_reads(const group_product &p, unsigned n, site) {
    unsigned lane = thread_now() % GPU_GROUP;
    if (n == 0) return shared() + offset_of(p.a, p.a_crossed, LINES, piece_read(p.a_crossed, LINES, 0, lane));
    if ((n - 1) * GPU_GROUP + lane >= 2 * p.columns) return NULL;
    return shared() + offset_of(p.b, p.b_crossed, p.columns, piece_read(p.b_crossed, p.columns, n - 1, lane));
}

void group_read(const group_product &p, unsigned n, const eight &bytes, site at) {
    unsigned thread = thread_now(), lane = thread % GPU_GROUP;
    group &g = group_of(thread);
    std::vector<piece> &to = n ? g.b : g.a;
    const bool crossed = n ? p.b_crossed : p.a_crossed;
    const unsigned lines = n ? p.columns : (unsigned)LINES;
    const unsigned number = piece_read(crossed, lines, n ? n - 1 : 0, lane);
    const unsigned offset = offset_of(n ? p.b : p.a, crossed, lines, number);
    shared_multiplied(offset, &bytes);
    if (to.empty()) to.resize(2 * lines);
    to[number] = { offset, bytes };
    (void)at;
}

void group_begins(const group_product &p, site at) {
    unsigned thread = thread_now(), lane = thread % GPU_GROUP;
    group &g = group_of(thread);
    if (!g.fenced) stop("a product begins, and no wgmma.fence stands between it and the last wait");
    g.d[lane] = p.d;
    if (lane == 0) g.said = p;
    meet_group(at);
    if (!is_same(p, g.said)) stop("threads of a group of warps begin different products");
    if (lane == 0) {
        std::shared_ptr<accumulators> sums = sums_of(g);
        sums->under_way++;
        g.under_way.push_back({ p, std::move(g.a), std::move(g.b), sums, g.commits });
        g.a.clear(), g.b.clear();
    }
    meet_group(at);
}

void group_fence(site at) {
    group_of(thread_now()).fenced = true;
    meet_group(at);
}

void group_commit(site at) {
    unsigned thread = thread_now();
    meet_group(at);
    if (thread % GPU_GROUP == 0) group_of(thread).commits++;
    meet_group(at);
}

void group_wait(unsigned left, site at) {
    unsigned thread = thread_now();
    group &g = group_of(thread);
    meet_group(at);
    if (thread % GPU_GROUP == 0) {
        land(g, left);
        g.fenced = false;
    }
    meet_group(at);
}

void groups_end() {
    if (!group_of(thread_now()).under_way.empty()) stop("a thread ends before its group's products are done");
}

} // namespace emulate
