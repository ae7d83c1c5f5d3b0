/* Memory and lanes of the emulated GPU (device_emulated.h). */
#include "device/cuda/device_emulated.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <deque>
#include <vector>

extern "C" {
#include "base/units.h"
#include "device/library.h"
#include "device/library_attention.h"
}
#include "device/cuda/emulate_lanes.h"
#include "device/cuda/emulate_stream.h"
#include "device/cuda/emulated_told.h"

emulated_counts emulated_seen;

const emulated_gpu emulated_usual = { {}, 0, 0, { 512 << 10, 256 << 10, 64 << 10, 0, 0 }, 0 };

namespace {

/* ---- memory ---- */

const uint64_t PAGE = 4096;
std::vector<device_pool> pools;

void open_pools(bool yes) {
    for (const device_pool &p : pools)
        if (mprotect(p.data, p.bytes, yes ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) abort();
}

bool is_ours(const void *at) {
    for (const device_pool &p : pools)
        if ((const char *)at >= (char *)p.data && (const char *)at < (char *)p.data + p.bytes) return true;
    return false;
}

uint64_t left_of(uint64_t most, uint64_t taken) { return most > taken ? most - taken : 0; }

status open_pool(const device *d, device_pool *p, uint64_t bytes) {
    *p = {};
    uint64_t size = units_align(bytes ? bytes : 1, PAGE), left = d->available(d);
    uint64_t told = left_of(emulated_told_get().memory, emulated_seen.open_bytes);
    if (told < left) left = told;
    void *data = MAP_FAILED;
    if (size <= left) data = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return status_set(STATUS_NO_FIT,
                          "the emulated GPU has %llu bytes of memory left, and the pool takes %llu; plan for "
                          "what there is, with --memory auto",
                          (unsigned long long)left, (unsigned long long)size);
    *p = { data, size };
    pools.push_back(*p);
    emulated_counts &c = emulated_seen;
    c.pools++, c.open_bytes += bytes;
    if (c.open_bytes > c.most_bytes) c.most_bytes = c.open_bytes;
    return STATUS_OK;
}

void close_pool(const device *, device_pool *p) {
    for (size_t i = 0; p->data && i < pools.size(); i++)
        if (pools[i].data == p->data) {
            munmap(p->data, p->bytes);
            pools.erase(pools.begin() + (long)i);
        }
    if (pools.empty()) emulated_seen.open_bytes = 0;
    *p = {};
}

/* The host's pools, and what was asked for of each: the operating system gives whole pages. */
std::vector<std::pair<void *, uint64_t>> pinned;

status open_host(const device *, device_pool *p, uint64_t bytes) {
    emulated_counts &c = emulated_seen;
    uint64_t left = left_of(emulated_told_get().pinned, c.pinned_bytes);
    *p = {};
    if (bytes > left)
        return status_set(STATUS_NO_FIT, DEVICE_NOT_PINNED, (unsigned long long)bytes, "the emulated GPU",
                          "the emulated system pins no more");
    TRY(device_pool_open(p, bytes));
    pinned.push_back({ p->data, bytes });
    c.pinned_pools++, c.pinned_bytes += bytes;
    if (c.pinned_bytes > c.pinned_most_bytes) c.pinned_most_bytes = c.pinned_bytes;
    return STATUS_OK;
}

bool is_pinned(const void *at, uint64_t bytes) {
    for (const auto &p : pinned)
        if ((const char *)at >= (char *)p.first &&
            (const char *)at + bytes <= (char *)p.first + units_align(p.second, PAGE))
            return true;
    return false;
}

void close_host(const device *, device_pool *p) {
    for (size_t i = 0; p->data && i < pinned.size(); i++)
        if (pinned[i].first == p->data) {
            emulated_seen.pinned_bytes -= pinned[i].second;
            pinned.erase(pinned.begin() + (long)i);
        }
    device_pool_close(p);
}

/* ---- lanes ---- */

struct event {
    device_lane lane;
    uint64_t number; /* so many operations of that lane are done */
};

struct operation {
    double *stamp;        /* where the time goes, or NULL: */
    void (*call)(void *); /* a function of the host, or NULL: */
    void *context;
    bool (*move)(void *); /* a library's, which reaches the device's memory, with `arguments`, or NULL: */
    std::vector<event> after;
    emulate::launch_shape shape;  /* of a kernel, */
    void (*thread)(const void *); /* or NULL: */
    std::vector<char> arguments;
    void *to;         /* a copy, */
    const void *from; /* or NULL: a fill */
    int byte;
    uint64_t bytes;
};

struct lane {
    std::deque<operation> waiting;
    uint64_t given, done;
    std::vector<event> next; /* what the next operation waits for */
};

typedef std::vector<operation> sequence;

lane lanes[LANE_COUNT];
bool running;
sequence *capturing;              /* what launches go to now; NULL: to their lane */
uint64_t stamp_room, stamp_count; /* since `begin` */
emulated_pace pace;
uint64_t random_state = 1;

bool is_done(const event &e) { return lanes[e.lane].done >= e.number; }

bool may_run(const lane &l) {
    if (l.waiting.empty()) return false;
    for (const event &e : l.waiting.front().after)
        if (!is_done(e)) return false;
    return true;
}

/* A GPU that was lost does nothing any more, and says nothing until it is asked. */
bool is_lost() {
    uint64_t at = emulated_told_get().lost;
    return at && emulated_seen.operations >= at;
}

void run_at_once(const operation &o) {
    if (is_lost()) return;
    if (o.stamp) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        *o.stamp = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
        return;
    }
    if (o.call) {
        o.call(o.context); /* the device's memory stays closed to it */
        return;
    }
    open_pools(true);
    if (o.thread)
        emulate::run(o.shape, o.thread, o.arguments.data(), o.arguments.size());
    else if (o.from)
        memcpy(o.to, o.from, o.bytes);
    else
        memset(o.to, o.byte, o.bytes);
    open_pools(false);
}

/* What moves between ranks may wait for one of them, and is not over then: false. */
bool move_is_over(operation &o) {
    if (is_lost()) return true;
    open_pools(true);
    bool over = o.move(o.arguments.data());
    open_pools(false);
    return over;
}

/* False: it is not over, and nothing was done. */
bool run_one(lane &l) {
    if (l.waiting.front().move) {
        if (!move_is_over(l.waiting.front())) return false;
        l.waiting.pop_front(), l.done++;
        return true;
    }
    operation o = std::move(l.waiting.front());
    l.waiting.pop_front();
    run_at_once(o);
    l.done++;
    return true;
}

/* One operation of the lane, and before it all that it waits for. False: a rank is waited for. */
bool advance(lane &l, int depth) {
    if (depth > LANE_COUNT * 8 || l.waiting.empty()) {
        fprintf(stderr, "emulated GPU: lanes wait for each other, or for what nobody gives\n");
        abort();
    }
    for (const event e : std::vector<event>(l.waiting.front().after))
        while (!is_done(e))
            if (!advance(lanes[e.lane], depth + 1)) return false;
    return run_one(l);
}

unsigned draw(unsigned n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % n;
}

/* What the pace has run before anybody waits. */
void run_ahead() {
    for (bool more = pace == EMULATED_EAGER; more;) {
        more = false;
        for (lane &l : lanes)
            if (may_run(l) && run_one(l)) more = true;
    }
    while (pace == EMULATED_RANDOM && draw(3) == 0) {
        lane &l = lanes[draw(LANE_COUNT)];
        if (may_run(l)) run_one(l);
    }
}

/* Or naps, while a rank is waited for. */
void go_on(lane &l) {
    struct timespec nap = { 0, 20000 };
    if (!advance(l, 0)) nanosleep(&nap, NULL);
}

void drain(lane &l) {
    while (!l.waiting.empty()) go_on(l);
}

bool all_are_done() {
    for (const lane &l : lanes)
        if (!l.waiting.empty()) return false;
    return true;
}

/* What moves between ranks is as late as copies are, and as early. */
void drain_all() {
    while (pace == EMULATED_RANDOM && !all_are_done()) {
        lane &l = lanes[draw(LANE_COUNT)];
        if (!l.waiting.empty()) go_on(l);
    }
    if (pace != EMULATED_LATE_KERNELS) drain(lanes[LANE_COMPUTE]);
    drain(lanes[LANE_COPY]);
    drain(lanes[LANE_RANKS]);
    drain(lanes[LANE_COMPUTE]);
}

void give(device_lane which, operation &&o) {
    assert(running && !capturing);
    lane &l = lanes[which];
    o.after.swap(l.next);
    l.waiting.push_back(std::move(o));
    l.given++, emulated_seen.operations++;
    run_ahead();
}

/* ---- the device ---- */

void put(const device *, void *to, const void *from, uint64_t bytes) {
    assert(all_are_done());
    emulated_seen.operations++;
    if (is_lost()) return;
    open_pools(true);
    memcpy(to, from, bytes);
    open_pools(false);
    emulated_seen.waits++, emulated_seen.put_bytes += bytes;
}

void get(const device *, void *to, const void *from, uint64_t bytes) {
    assert(all_are_done());
    emulated_seen.operations++;
    if (is_lost()) return;
    open_pools(true);
    memcpy(to, from, bytes);
    open_pools(false);
    emulated_seen.waits++, emulated_seen.got_bytes += bytes;
}

void begin(const device *) {
    assert(!running);
    running = true, stamp_count = 0;
}

void end(const device *) {
    drain_all();
    running = false, emulated_seen.waits++;
}

void host(const device *, bool begins) {
    assert(running);
    lane &l = lanes[LANE_COMPUTE];
    if (begins) {
        drain(l);
        for (const event &e : l.next)
            while (!is_done(e)) go_on(lanes[e.lane]);
        l.next.clear();
        emulated_seen.by_host++;
    }
    open_pools(begins);
}

void fill(const device *, void *at, int byte, uint64_t bytes) {
    assert(is_ours(at));
    operation o = {};
    o.to = at, o.byte = byte, o.bytes = bytes;
    give(LANE_COMPUTE, std::move(o));
}

/* On a GPU a copy from or to memory that is not pinned waits for the host, and the host for it. */
operation copying(void *to, const void *from, uint64_t bytes) {
    assert(is_ours(to) ? is_pinned(from, bytes) : is_ours(from) && is_pinned(to, bytes));
    operation o = {};
    o.to = to, o.from = from, o.bytes = bytes;
    return o;
}

void copy(const device *, void *to, const void *from, uint64_t bytes) {
    emulated_seen.copies++, emulated_seen.copied_bytes += bytes;
    give(LANE_COPY, copying(to, from, bytes));
}

void carry(const device *, void *to, const void *from, uint64_t bytes) {
    emulated_seen.carried++, emulated_seen.carried_bytes += bytes;
    give(LANE_COMPUTE, copying(to, from, bytes));
}

status stamps(const device *, uint64_t most) {
    stamp_room = most;
    return STATUS_OK;
}

void stamp(const device *, double *at) {
    assert(stamp_count < stamp_room);
    stamp_count++;
    operation o = {};
    o.stamp = at;
    give(LANE_COMPUTE, std::move(o));
}

void call(const device *, void (*function)(void *), void *context) {
    emulated_seen.calls++;
    operation o = {};
    o.call = function, o.context = context;
    give(LANE_COPY, std::move(o));
}

uint64_t mark(const device *, device_lane l) { return lanes[l].given; }

/* ---- captured programs ---- */

uint64_t captured_bytes; /* of sequences that are kept */

enum {
    CAPTURE_BYTES = 16 << 10 /* of a call: its kernels with their arguments, of which a GPU takes 4 KiB */
};

uint64_t bytes_of(const sequence &s) {
    uint64_t bytes = 0;
    for (const operation &o : s) bytes += sizeof o + o.arguments.size();
    return bytes;
}

status capture(const device *) {
    assert(!capturing && !running);
    capturing = new sequence;
    return STATUS_OK;
}

status captured(const device *, void **out) {
    if (emulated_seen.captured >= emulated_told_get().capture) {
        delete capturing;
        capturing = NULL;
        return status_set(STATUS_FAILED,
                          "the emulated GPU captures no program: it was told so; --eager yes starts kernels "
                          "one by one");
    }
    *out = capturing;
    captured_bytes += bytes_of(*capturing);
    emulated_seen.captured++;
    capturing = NULL;
    return STATUS_OK;
}

void replay(const device *, void *which) {
    emulated_seen.replayed++;
    for (const operation &o : *(const sequence *)which) {
        emulated_seen.launches++;
        give(LANE_COMPUTE, operation(o));
    }
}

void release(const device *, void *which) {
    captured_bytes -= bytes_of(*(sequence *)which);
    delete (sequence *)which;
}

uint64_t capture_bytes(const device *, uint64_t calls) { return calls * CAPTURE_BYTES; }

/* ---- between ranks ---- */

void stream_give(emulated_stream *, bool (*function)(void *), const void *context, uint64_t bytes) {
    emulated_seen.moves++;
    operation o = {};
    o.move = function;
    o.arguments.assign((const char *)context, (const char *)context + bytes);
    give(LANE_RANKS, std::move(o));
}

bool is_in_pool(const void *at, uint64_t bytes) {
    for (const device_pool &p : pools)
        if ((const char *)at >= (char *)p.data && (const char *)at + bytes <= (char *)p.data + p.bytes)
            return true;
    return false;
}

emulated_stream moving = { stream_give, is_in_pool };
bool joined;

void *stream(const device *) {
    joined = true;
    return &moving;
}

/* ---- a library's products, and its attention ---- */

extern emulated_stream multiplying, attending;

/* As a kernel is: within a run on the lane of kernels, kept while a program is captured. */
void library_give(emulated_stream *s, bool (*function)(void *), const void *context, uint64_t bytes) {
    operation o = {};
    o.move = function;
    o.arguments.assign((const char *)context, (const char *)context + bytes);
    if (capturing) {
        capturing->push_back(std::move(o));
        return;
    }
    emulated_seen.launches++, (s == &attending ? emulated_seen.attentions : emulated_seen.products)++;
    give(LANE_COMPUTE, std::move(o));
}

emulated_stream multiplying = { library_give, is_in_pool }, attending = { library_give, is_in_pool };

status library(const device *, device_library which) {
    return which == DEVICE_LIBRARY_ATTENTION ? library_attention_open(&attending, true)
                                             : library_open(&multiplying, true);
}

/* What they are taken for: a handle, and what comes with the first kernel. */
uint64_t library_bytes() {
    const uint64_t handle = 48 << 10, first = 16 << 10;
    uint64_t multiplies = library_name()[0] ? handle + (emulated_seen.products ? first : 0) : 0;
    return multiplies + (library_attention_name()[0] ? handle + (emulated_seen.attentions ? first : 0) : 0);
}

/* Whoever asks finds that the lane has come there, or to what waits for another rank. */
bool happened(const device *, uint64_t number) {
    while (lanes[LANE_RANKS].done < number)
        if (!advance(lanes[LANE_RANKS], 0)) return false;
    return true;
}

void after(const device *, device_lane l, device_lane other, uint64_t number) {
    assert(l != other && number <= lanes[other].given);
    lanes[l].next.push_back({ other, number });
}

/* As slow as the processor that emulates it, so that plans with and without it choose alike. */
device_rates rates(const device *d, int threads) {
    device_rates r = device_rates_default(threads);
    r.copied = r.file_read;
    r.by_library = 2 * r.flops[WORK_PRODUCTS], r.by_library_half = 4 * r.flops[WORK_PRODUCTS];
    r.by_library_attention = 4 * r.flops[WORK_ATTENTION];
    r.captured_seconds = device_capture_allowed(d->capability) ? r.call_seconds : 0;
    snprintf(r.source, sizeof r.source, "built-in table of the processor that emulates it");
    return r;
}

/* ---- what it is taken for ---- */

emulated_gpu is = emulated_usual;

device_parts beside(const device *) {
    device_parts p = is.beside;
    if (emulated_seen.launches) p.code += is.moves;
    if (joined) p.ranks += emulated_told_get().transport;
    p.captured = captured_bytes;
    p.code += library_bytes();
    return p;
}

uint64_t available(const device *d) {
    device_parts own = beside(d);
    uint64_t taken = is.others + emulated_seen.open_bytes + device_parts_sum(&own);
    if (!is.memory) return device_available();
    return is.memory > taken ? is.memory - taken : 0;
}

device_parts reserve(const device *) {
    device_parts r = { 640 << 10, 256 << 10, 128 << 10, 0, 0 };
    if (library_name()[0]) r.code += 64 << 10;
    if (library_attention_name()[0]) r.code += 64 << 10;
    return r;
}

/* The code of kernels, and what runs their threads, are in the process here: 1.2 MiB were seen before a first
 * plan, and 2.7 MiB before a second one, when kernels have run. */
uint64_t driver(const device *) { return 4u << 20; }

uint64_t resident(const device *) {
    uint64_t pages = 0;
    for (const device_pool &p : pools) {
        std::vector<unsigned char> in(p.bytes / PAGE);
        if (mincore(p.data, p.bytes, in.data()) != 0) abort();
        for (unsigned char page : in) pages += page & 1;
    }
    return pages * PAGE;
}

status failed(const device *) {
    if (!is_lost()) return library_failed() == STATUS_OK ? library_attention_failed() : library_failed();
    return status_set(STATUS_FAILED, "the emulated GPU was lost at operation %llu of the run",
                      (unsigned long long)emulated_told_get().lost);
}

/* Each process has one of its own, or the one that it was told. */
void name_it() {
    uint64_t number = emulated_told_get().gpu ? emulated_told_get().gpu : (uint64_t)getpid();
    memcpy(is.gpu.uuid, &number, sizeof number);
}

device emulated() {
    name_it();
    device d = {};
    d.name = "emulated", d.kind = DEVICE_CUDA, d.apart = true, d.gpu = &is.gpu;
    d.capability = emulated_told_get().capability;
    d.rates = rates, d.available = available, d.reserve = reserve, d.beside = beside;
    d.open = open_pool, d.close = close_pool, d.put = put, d.get = get;
    d.open_host = open_host, d.close_host = close_host, d.failed = failed;
    d.begin = begin, d.end = end, d.host = host, d.resident = resident, d.driver = driver, d.fill = fill;
    d.carry = carry, d.stamps = stamps, d.stamp = stamp;
    d.copy = copy, d.call = call, d.mark = mark, d.after = after;
    d.stream = stream, d.happened = happened;
    d.capture = capture, d.captured = captured, d.replay = replay, d.release = release;
    d.capture_bytes = capture_bytes, d.library = library;
    return d;
}

} // namespace

extern "C" {
extern const device device_emulated;
const device device_emulated = emulated();
}

void emulated_be(const emulated_gpu *what) {
    is = *what;
    name_it();
}

void emulated_pace_set(emulated_pace p, uint64_t seed) { pace = p, random_state = seed; }

bool emulate::lanes_take(const launch_shape &shape, void (*thread)(const void *), const void *arguments,
                         size_t bytes) {
    if (!running && !capturing) return false;
    operation o = {};
    o.shape = shape, o.thread = thread;
    o.arguments.assign((const char *)arguments, (const char *)arguments + bytes);
    if (capturing) {
        capturing->push_back(std::move(o));
        return true;
    }
    emulated_seen.launches++;
    give(LANE_COMPUTE, std::move(o));
    return true;
}
