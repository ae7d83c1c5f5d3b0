/* Tensor memory (emulate_tmem.h). Descriptors and shapes are decoded here by the tables of the PTX ISA,
 * independently of how mma_tmem.h makes them. */
#include "device/cuda/mma_tmem.h"

#include <string.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "device/cuda/emulate_hooks.h"

namespace emulate {
namespace {

enum {
    MOST_THREADS = 1024,
    LANES = 128,
    COLUMNS = 512,
    DEPTH = 32 /* bytes */,
    PIECE = 16,
    ROW = 128 /* bytes */
};
enum { WARPS = tmem_read_so_far::WARPS, QUARTERS = LANES / GPU_WARP };
const unsigned NOBODY = ~0u;

/* ---- what a product says ---- */

struct shape_of {
    unsigned lines_a, lines_b;
    unsigned type_a, type_b;
    bool eight, a_crossed, b_crossed;
};

/* Table 42, of .kind::f16 and, with `eight`, of .kind::f8f6f4. */
shape_of decode_shape(uint32_t bits, bool eight) {
    const unsigned a = bits >> 7 & 7, b = bits >> 10 & 7;
    if (bits & (0xfu | 1u << 6 | 3u << 13 | 1u << 23 | 7u << 29))
        stop("the shape of a product says what the emulation doesn't know");
    if ((bits >> 4 & 3) != 1) stop("the shape of a product has no sums of f32");
    if ((a != b && !eight) || a > 1 || b > 1)
        stop("the shape of a product has numbers of two types, or of none");
    shape_of s = { (bits >> 24 & 31) << 4, (bits >> 17 & 63) << 3, a, b, eight,
                   (bits >> 15 & 1) != 0,  (bits >> 16 & 1) != 0 };
    if (eight && (s.a_crossed || s.b_crossed))
        stop("floats of 8 bits lie across their depths: the emulation knows no such shape");
    if (s.lines_a != LANES || s.lines_b < 16 || s.lines_b > 256 || s.lines_b % 16)
        stop("the shape of a product is none that there is of 128 lines");
    return s;
}

struct operand {
    unsigned start, leading, stride;
};

/* Table 40. */
operand decode(uint64_t bits) {
    const unsigned swizzle = (unsigned)(bits >> 61);
    if ((bits >> 46 & 7) != 1) stop("a descriptor lacks what is fixed in it for tcgen05");
    if (bits >> 14 & 3 || bits >> 30 & 3 || bits >> 49 & 0xfff)
        stop("a descriptor says what the emulation doesn't know");
    if (swizzle != 2)
        stop("a descriptor's rows are not swizzled by 128 bytes: the emulation knows no others");
    return { (unsigned)(bits & 0x3fff) * 16, (unsigned)(bits >> 16 & 0x3fff) * 16,
             (unsigned)(bits >> 32 & 0x3fff) * 16 };
}

/* Piece n of an operand (9.7.16.3 and .5): along the depth two to a line; else `lines` / 8 to a depth. */
unsigned offset_of(uint64_t bits, unsigned lines, bool crossed, unsigned n) {
    const operand o = decode(bits);
    const unsigned each = crossed ? lines / 8 : 2, row = n / each, piece = n % each;
    unsigned at = o.start + row / 8 * o.stride + row % 8 * ROW;
    at += crossed ? piece / 8 * o.leading + piece % 8 * PIECE : piece * PIECE;
    at ^= (at >> 7 & 7) << 4;
    return shared_offset(at);
}

unsigned pieces_of(unsigned lines) { return lines * DEPTH / PIECE; }

/* ---- a block's ---- */

struct piece {
    unsigned offset;
    eight bytes;
};
struct product {
    tmem_product what;
    shape_of shape;
    std::vector<piece> pieces; /* a's, then b's */
};
struct commit {
    unsigned barrier, phase; /* arrives at this one, in that phase */
    unsigned long products;  /* that were begun before it */
    bool done;
};
struct read {
    float *x;
    std::vector<float> values;
};

/* Reads of a warp are counted from 1. */
struct reader {
    unsigned reads, meeting, before; /* the block's meetings at its last read; reads before that meeting */
    unsigned of_column[COLUMNS];     /* the last one */
};

struct tensor_memory {
    float sums[LANES][COLUMNS];
    unsigned long last[COLUMNS];      /* product that writes it, counted from 1 */
    bool was_read[QUARTERS][COLUMNS]; /* since then */
    reader readers[WARPS];
    unsigned made[MOST_THREADS], ordered[MOST_THREADS]; /* reads; those before its last gpu_tmem_before */
    tmem_read_so_far known[MOST_THREADS];
    unsigned multiplies;         /* the thread that begins products */
    unsigned first, taken, warp; /* columns, and the warp that took them; taken 0: nobody has */
    bool took;
    unsigned long begun, done;
    std::deque<product> under_way;
    std::vector<commit> commits;
    std::vector<piece> said; /* of the product that begins */
    std::vector<read> reads[MOST_THREADS];
    bool waited[MOST_THREADS], has_read[MOST_THREADS]; /* and called no gpu_tmem_after, _before since */
};
tensor_memory &now() {
    static thread_local std::unique_ptr<tensor_memory> m; /* a thread that runs no block has none */
    if (!m) m.reset(new tensor_memory());
    return *m;
}

running running_now() {
    running r;
    if (!is_running(&r)) __builtin_trap();
    return r;
}
unsigned thread_now() { return running_now().thread; }

/* Number k of a piece. */
double wide_of(const eight &x, unsigned k, bool of_eight, unsigned type) {
    if (of_eight) return small_floats_of(type == 1 ? 5 : 4)[x[k / 2] >> k % 2 * 8 & 0xff];
    return (double)(type == 1 ? half_from_bf16(x[k]) : half_from_f16(x[k]));
}

/* Numbers by line and depth. */
void unpack(const piece *from, unsigned lines, bool crossed, bool of_eight, unsigned type,
            double (*to)[DEPTH]) {
    const unsigned each = of_eight ? 16 : 8;
    for (unsigned n = 0; n < pieces_of(lines); n++)
        for (unsigned k = 0; k < each; k++) {
            const double x = wide_of(from[n].bytes, k, of_eight, type);
            if (crossed)
                to[n % (lines / 8) * 8 + k][n / (lines / 8)] = x;
            else
                to[n / 2][n % 2 * each + k] = x;
        }
}

/* As other twins: products of an instruction are exact, and rounded once. */
void multiply(const product &p) {
    std::unique_ptr<double[][DEPTH]> a(new double[LANES][DEPTH]), b(new double[256][DEPTH]);
    const shape_of &s = p.shape;
    unpack(p.pieces.data(), LANES, s.a_crossed, s.eight, s.type_a, a.get());
    unpack(p.pieces.data() + pieces_of(LANES), s.lines_b, s.b_crossed, s.eight, s.type_b, b.get());
    tensor_memory &m = now();
    const unsigned depths = s.eight ? DEPTH : DEPTH / 2;
    for (unsigned i = 0; i < LANES; i++)
        for (unsigned j = 0; j < s.lines_b; j++) {
            float &x = m.sums[i][p.what.d + j];
            double sum = p.what.onto ? (double)x : 0;
            for (unsigned k = 0; k < depths; k++) sum += a[i][k] * b[j][k];
            x = (float)sum;
        }
}

void land(unsigned long products) {
    tensor_memory &m = now();
    for (; m.done < products; m.done++, m.under_way.pop_front()) {
        const product &p = m.under_way.front();
        for (const piece &one : p.pieces)
            if (!shared_is(one.offset, &one.bytes))
                stop("shared memory is written that a product under way reads");
        multiply(p);
    }
}

/* Has this thread waited for a commit behind the product, and so behind all before it? */
bool is_known(unsigned long product, unsigned thread) {
    for (const commit &c : now().commits)
        if (c.done && c.products >= product && bulk_waited(c.barrier, c.phase, thread)) return true;
    return false;
}

/* Reads of its own warp that are over for all lanes. */
unsigned ordered_by_warp(unsigned warp) {
    const unsigned *lanes = now().ordered + warp * GPU_WARP;
    return *std::min_element(lanes, lanes + GPU_WARP);
}

bool knows_of_read(unsigned thread, unsigned warp, unsigned number) {
    const tensor_memory &m = now();
    const reader &r = m.readers[warp];
    if (number <= m.known[thread].of_warp[warp]) return true;
    if (thread / GPU_WARP == warp && number <= ordered_by_warp(warp)) return true;
    return number <= (running_now().barriers > r.meeting ? r.reads : r.before);
}

/* Columns become others, or nobody's. */
void are_read(uint32_t column, unsigned count, unsigned thread, const char *why) {
    const tensor_memory &m = now();
    for (unsigned w = 0; w < WARPS; w++)
        for (unsigned i = column; m.readers[w].reads && i < column + count; i++)
            if (!knows_of_read(thread, w, m.readers[w].of_column[i])) stop(why);
}

void are_begun_anew(uint32_t column, unsigned count) {
    const tensor_memory &m = now();
    for (unsigned i = column; i < column + count; i++)
        for (unsigned q = 0; m.last[i] && q < QUARTERS; q++)
            if (!m.was_read[q][i]) stop("sums in tensor memory are begun anew that nobody has read");
}

void are_taken(uint32_t column, unsigned count) {
    const tensor_memory &m = now();
    if (!m.taken || column < m.first || column + count > m.first + m.taken)
        stop("columns of tensor memory are used that nobody has taken");
}

void is_after(unsigned thread) {
    if (now().waited[thread]) stop("no tcgen05.fence::after_thread_sync stands behind a thread's last wait");
}

} // namespace

/* ---- a block ---- */

void tmem_begins_block() {
    tensor_memory &m = now();
    if (m.took) {
        m.begun = m.done = 0, m.took = false;
        m.commits.clear();
        for (unsigned long &l : m.last) l = 0;
    }
    if (m.multiplies != NOBODY) m.multiplies = NOBODY;
}

void tmem_ends_block() {
    const tensor_memory &m = now();
    if (!m.under_way.empty()) stop("a block ends before its products are done");
    if (m.taken) stop("a block ends that has not given its tensor memory back");
}

bool tmem_lands(unsigned barrier) {
    tensor_memory &m = now();
    for (commit &c : m.commits)
        if (!c.done && c.barrier == barrier) {
            land(c.products);
            c.phase = bulk_arrived(barrier), c.done = true;
            return true;
        }
    return false;
}

void tmem_waited(unsigned thread, const tmem_read_so_far &barrier) {
    tensor_memory &m = now();
    m.waited[thread] = true;
    for (unsigned w = 0; m.took && w < WARPS; w++)
        m.known[thread].of_warp[w] = std::max(m.known[thread].of_warp[w], barrier.of_warp[w]);
}

void tmem_arrives(unsigned thread, tmem_read_so_far *barrier) {
    tensor_memory &m = now();
    if (!m.reads[thread].empty()) stop("a thread arrives before what it reads of tensor memory has come");
    if (m.has_read[thread])
        stop("a thread has read tensor memory and arrives without a tcgen05.fence::before_thread_sync");
    if (!m.took) return;
    const unsigned warp = thread / GPU_WARP;
    unsigned &own = m.known[thread].of_warp[warp];
    own = std::max(own, ordered_by_warp(warp));
    for (unsigned w = 0; w < WARPS; w++)
        barrier->of_warp[w] = std::max(barrier->of_warp[w], m.known[thread].of_warp[w]);
}

/* ---- columns ---- */

uint32_t tmem_take(unsigned columns) {
    tensor_memory &m = now();
    const unsigned warp = thread_now() / GPU_WARP;
    if (columns < 32 || columns > COLUMNS || columns & (columns - 1))
        stop("a number of columns of tensor memory that cannot be taken");
    if (m.took && (m.warp != warp || m.taken != columns)) stop("tensor memory is taken twice");
    if (!m.took) {
        m.took = true, m.taken = columns, m.first = COLUMNS - columns, m.warp = warp;
        for (auto &lane : m.sums) memset(lane, 0xff, sizeof lane);
        memset(m.readers, 0, sizeof m.readers), memset(m.known, 0, sizeof m.known);
        for (unsigned t = 0; t < MOST_THREADS; t++)
            m.waited[t] = m.has_read[t] = false, m.made[t] = m.ordered[t] = 0;
    }
    return m.first;
}

void tmem_give(uint32_t address, unsigned columns) {
    tensor_memory &m = now();
    are_taken(address, columns);
    if (address != m.first || columns != m.taken) stop("a part of tensor memory is given back");
    if (thread_now() / GPU_WARP != m.warp) stop("another warp gives tensor memory back than took it");
    if (!m.under_way.empty()) stop("tensor memory is given back before its products are done");
    for (unsigned t = 0; t < MOST_THREADS; t++)
        if (!m.reads[t].empty() || m.has_read[t])
            stop("tensor memory is given back, and a thread has read it with no tcgen05.fence since");
    is_after(thread_now());
    are_read(m.first, m.taken, thread_now(),
             "tensor memory is given back by a warp that was not told that it has been read");
    m.taken = 0;
}

/* ---- products ---- */

const void *tmem_reads(const tmem_product &p, unsigned n) {
    const shape_of s = decode_shape(p.shape, p.eight);
    const unsigned of_a = pieces_of(s.lines_a);
    if (n >= of_a + pieces_of(s.lines_b)) return NULL;
    return shared() + (n < of_a ? offset_of(p.a, s.lines_a, s.a_crossed, n)
                                : offset_of(p.b, s.lines_b, s.b_crossed, n - of_a));
}

void tmem_operand_read(const tmem_product &p, unsigned n, const eight &bytes) {
    tensor_memory &m = now();
    const unsigned offset = (unsigned)((const unsigned char *)tmem_reads(p, n) - shared());
    if (n == 0) is_after(thread_now());
    shared_multiplied(offset, &bytes);
    if (n == 0) m.said.clear();
    m.said.push_back({ offset, bytes });
}

void tmem_begins(const tmem_product &p) {
    tensor_memory &m = now();
    const unsigned thread = thread_now();
    const shape_of s = decode_shape(p.shape, p.eight);
    if (p.d >> 16) stop("sums of a product of 128 lines begin at lane 0");
    are_taken(p.d, s.lines_b);
    if (m.multiplies != NOBODY && m.multiplies != thread)
        stop("two threads of a block begin products, whose order nobody promises");
    are_read(
        p.d, s.lines_b, thread,
        "sums in tensor memory are multiplied into by a thread that was not told that they have been read");
    if (!p.onto) are_begun_anew(p.d, s.lines_b);
    m.multiplies = thread, m.begun++;
    for (unsigned j = 0; j < s.lines_b; j++) m.last[p.d + j] = m.begun;
    for (auto &quarter : m.was_read) memset(quarter + p.d, false, s.lines_b);
    m.under_way.push_back({ p, s, std::move(m.said) });
    m.said.clear();
}

void tmem_commit(const void *barrier) {
    now().commits.push_back({ bulk_committed(barrier), 0, now().begun, false });
    went_on(); /* who waits for the barrier may have them done */
}

/* ---- fences and reads ---- */

namespace {
/* By one of a warp's lanes, each of which comes by once. */
void is_read(unsigned thread, uint32_t column, unsigned columns) {
    tensor_memory &m = now();
    const unsigned warp = thread / GPU_WARP, meetings = running_now().barriers;
    reader &r = m.readers[warp];
    if (++m.made[thread] <= r.reads) return; /* another lane was here first */
    if (meetings != r.meeting) r.meeting = meetings, r.before = r.reads;
    r.reads = m.made[thread];
    for (unsigned i = column; i < column + columns; i++)
        r.of_column[i] = r.reads, m.was_read[warp % QUARTERS][i] = true;
}
} // namespace

void tmem_before() {
    const unsigned thread = thread_now();
    if (!now().reads[thread].empty()) return; /* which orders nothing of what has not come */
    now().has_read[thread] = false, now().ordered[thread] = now().made[thread];
}
void tmem_after() { now().waited[thread_now()] = false; }

void tmem_read(float *x, unsigned columns, uint32_t address, site at) {
    tensor_memory &m = now();
    const unsigned thread = thread_now(), lane = address >> 16, column = address & 0xffff;
    uint32_t first;
    memcpy(&first, exchange(~0u, &address, sizeof address, at), sizeof first);
    if (first != address) stop("lanes of a warp read tensor memory at different addresses");
    if (lane != thread / GPU_WARP % 4 * GPU_WARP)
        stop("a warp reads lanes of tensor memory that others may read");
    are_taken(column, columns);
    is_after(thread);
    read r = { x, std::vector<float>(columns) };
    unsigned long last = 0;
    for (unsigned i = 0; i < columns; i++) {
        if (m.last[column + i] > last) last = m.last[column + i];
        r.values[i] = m.sums[lane + here.lane][column + i];
    }
    if (!last) stop("tensor memory is read that no product has written");
    if (last > m.done) stop("tensor memory is read before its products are done");
    if (!is_known(last, thread))
        stop("tensor memory is read by a thread that has not waited for its products");
    is_read(thread, column, columns);
    memset(x, 0xff, columns * sizeof *x);
    m.reads[thread].push_back(std::move(r));
    m.has_read[thread] = true;
}

void tmem_wait(site at) {
    tensor_memory &m = now();
    const unsigned thread = thread_now();
    exchange(~0u, &thread, sizeof thread, at);
    for (const read &r : m.reads[thread])
        for (size_t i = 0; i < r.values.size(); i++) {
            if (half_bits(r.x[i]) != ~0u) stop("registers are written that a read of tensor memory writes");
            r.x[i] = r.values[i];
        }
    m.reads[thread].clear();
}

} // namespace emulate
