#define _GNU_SOURCE
#include "snapshot/kineto.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "snapshot/calls.h"
#include "snapshot/play.h"

/* What is asked of memory, or let go. */
typedef struct {
    uint64_t time; /* nanoseconds */
    uint64_t address;
    int64_t bytes; /* < 0: freed */
    uint32_t order;
    uint16_t thread;
    uint8_t device; /* of the snapshot's traces */
    bool failed;    /* memory ran out */
} change;

/* What the profiler says that is reserved, where it is another number than before. */
typedef struct {
    uint64_t time, bytes;
    uint32_t device;
} reserved;

typedef struct {
    uint64_t time; /* of the first event so far; UINT64_MAX: none */
    int64_t before;
    uint64_t reserved;
} device;

#define MOST_NANOSECONDS ((UINT64_C(1) << 48) - 1) /* three days */

enum {
    MOST_DEVICES = 64,
    MOST_CHANGES = 1 << 29,
    NAMES = 1 << 12,
    CHECK_EVERY = 1 << 12,
    CHECK_BYTES = 1 << 20
};

/* Calls have few names: a table of those that came last. */
typedef struct {
    uint32_t text, frame;
} known_name;

typedef enum { CALL_NONE, CALL_OPERATOR, CALL_PYTHON, CALL_NOTE } call_kind;

/* One event of the file. */
typedef struct {
    json_decimal start, lasts, address, bytes, total, held, type, number;
    bool has_start, has_lasts, has_address, has_bytes, has_total, has_held;
    uint64_t thread;
    uint32_t from;
    call_kind kind;
    uint32_t name; /* of texts, of a call that counts; 0: passed over */
    bool memory, ran_out;
} event;

typedef struct {
    json_stream *j;
    snapshot *s;
    calls calls;
    array changes, held; /* change, reserved */
    device devices[MOST_DEVICES];
    known_name names[NAMES];
    uint32_t seen;    /* events, then changes and notes */
    uint32_t checked; /* bytes of texts when it was last looked at what is held */
    uint32_t nowhere; /* text "??": what is no code of Python is from there */
    uint32_t without; /* memory's events without an address */
} reading;

/* ---- what is held ---- */

static uint64_t held(const reading *r) {
    return snapshot_held(r->s) + pickle_texts_bytes(&r->s->texts) + calls_bytes(&r->calls) +
           (uint64_t)r->changes.count * sizeof(change) + (uint64_t)r->held.count * sizeof(reserved);
}

/* Summing it up takes a while, so that is done after many events, or many bytes of names. */
static status check_held(reading *r) {
    r->checked = r->s->texts.bytes.count;
    return snapshot_check_room(held(r), json_stream_place(r->j));
}

static status check_one_more(reading *r) { return ++r->seen % CHECK_EVERY ? STATUS_OK : check_held(r); }

/* ---- one event ---- */

static uint64_t nanoseconds(const json_decimal *d) {
    if (d->negative) return 0;
    return d->whole > UINT64_MAX / 2000 ? UINT64_MAX / 2 : 1000 * d->whole + d->thousandths;
}

static bool is(const json_piece *p, const char *word) { return json_piece_is(p, word, strlen(word)); }

static status number(reading *r, json_decimal *out, bool *has) {
    TRY(json_stream_look(r->j));
    if (!json_stream_is_number(r->j)) return json_stream_skip(r->j);
    if (has) *has = true;
    return json_stream_decimal(r->j, out);
}

/* "mk.py:33": the line. */
static status read_from(reading *r, event *e) {
    json_piece p;
    TRY(json_stream_look(r->j));
    if (r->j->after != '"') return json_stream_skip(r->j);
    TRY(json_stream_string(r->j, &p));
    uint64_t line = 0, unit = 1;
    for (size_t i = p.count; i-- > 0 && p.bytes[i] >= '0' && p.bytes[i] <= '9' && unit < 1000000000;
         unit *= 10)
        line += unit * (uint64_t)(p.bytes[i] - '0');
    e->from = line < 1u << 31 ? (uint32_t)line : 0;
    return STATUS_OK;
}

static status read_argument(reading *r, const json_piece *key, event *e) {
    switch (key->count) {
    case 4:
        if (is(key, "Addr")) return number(r, &e->address, &e->has_address);
        break;
    case 5:
        if (is(key, "Bytes")) return number(r, &e->bytes, &e->has_bytes);
        break;
    case 8:
        if (is(key, "CallFrom")) return read_from(r, e);
        break;
    case 9:
        if (is(key, "Device Id")) return number(r, &e->number, NULL);
        break;
    case 11:
        if (is(key, "Device Type")) return number(r, &e->type, NULL);
        break;
    case 14:
        if (is(key, "Total Reserved")) return number(r, &e->held, &e->has_held);
        break;
    case 15:
        if (is(key, "Total Allocated")) return number(r, &e->total, &e->has_total);
        break;
    default: break;
    }
    return json_stream_skip(r->j);
}

static status read_arguments(reading *r, event *e) {
    json_piece key;
    bool more;
    TRY(json_stream_look(r->j));
    if (r->j->after != '{') return json_stream_skip(r->j);
    TRY(json_stream_expect(r->j, '{'));
    TRY(json_stream_first(r->j, '}', &more));
    while (more) {
        TRY(json_stream_key(r->j, &key));
        TRY(read_argument(r, &key, e));
        TRY(json_stream_another(r->j, '}', &more));
    }
    return STATUS_OK;
}

static status read_kind(reading *r, event *e) {
    json_piece p;
    TRY(json_stream_look(r->j));
    if (r->j->after != '"') return json_stream_skip(r->j);
    TRY(json_stream_string(r->j, &p));
    if (is(&p, "cpu_op") || is(&p, "Operator") || is(&p, "operator")) e->kind = CALL_OPERATOR;
    if (is(&p, "python_function")) e->kind = CALL_PYTHON;
    if (is(&p, "user_annotation")) e->kind = CALL_NOTE;
    return STATUS_OK;
}

/* Objects of Python are called with where they lie: that is no name. */
static size_t without_address(const json_piece *p, char out[JSON_STREAM_TEXT]) {
    static const char at[] = " at 0x";
    const char *found = p->count && p->bytes[0] == '<' ? memmem(p->bytes, p->count, at, sizeof at - 1) : NULL;
    if (!found) return 0;
    size_t count = (size_t)(found - p->bytes);
    memcpy(out, p->bytes, count);
    out[count++] = '>';
    return count;
}

static status read_name(reading *r, event *e) {
    json_piece p;
    char shorter[JSON_STREAM_TEXT];
    TRY(json_stream_look(r->j));
    if (r->j->after != '"') return json_stream_skip(r->j);
    TRY(json_stream_string(r->j, &p));
    e->memory = is(&p, "[memory]"), e->ran_out = is(&p, "[OutOfMemory]");
    if (e->memory || e->ran_out) return STATUS_OK;
    size_t count = without_address(&p, shorter);
    TRY(pickle_texts_add(&r->s->texts, count ? shorter : p.bytes, count ? count : p.count, &e->name));
    return r->s->texts.bytes.count - r->checked < CHECK_BYTES ? STATUS_OK : check_held(r);
}

/* A number, or a word. */
static status read_thread(reading *r, event *e) {
    json_piece p;
    json_decimal n = { 0 };
    TRY(json_stream_look(r->j));
    if (r->j->after == '"') {
        TRY(json_stream_string(r->j, &p));
        e->thread += UINT64_C(0x9e3779b97f4a7c15) * (hash_bytes(p.bytes, p.count) | 1);
        return STATUS_OK;
    }
    TRY(number(r, &n, NULL));
    e->thread += n.whole;
    return STATUS_OK;
}

static status read_member(reading *r, const json_piece *key, event *e) {
    switch (key->count) {
    case 2:
        if (is(key, "ts")) return number(r, &e->start, &e->has_start);
        break;
    case 3:
        if (is(key, "cat")) return read_kind(r, e);
        if (is(key, "dur")) return number(r, &e->lasts, &e->has_lasts);
        if (is(key, "tid")) return read_thread(r, e);
        break;
    case 4:
        if (is(key, "name")) return read_name(r, e);
        if (is(key, "args")) return read_arguments(r, e);
        break;
    default: break;
    }
    return json_stream_skip(r->j);
}

/* ---- memory ---- */

static status trace_of(reading *r, const event *e, uint32_t *out) {
    snapshot *s = r->s;
    int32_t type = (int32_t)(e->type.whole & 0xff), id = type ? (int32_t)(e->number.whole & 0xffff) : -1;
    for (*out = 0; *out < s->trace_count; ++*out)
        if (s->traces[*out].type == type && s->traces[*out].device == id) return STATUS_OK;
    if (*out == MOST_DEVICES) return json_stream_wrong(r->j, "the trace has more devices than are held");
    snapshot_trace *t;
    TRY(snapshot_add_trace(s, &t));
    t->type = type, t->device = id;
    r->devices[*out] = (device){ .time = UINT64_MAX };
    return STATUS_OK;
}

static status add_reserved(reading *r, const event *e, uint64_t time, uint32_t on) {
    uint32_t i;
    if (!e->has_held || e->held.negative || e->held.whole == r->devices[on].reserved) return STATUS_OK;
    r->devices[on].reserved = e->held.whole;
    TRY(snapshot_add(&r->held, &i));
    ((reserved *)r->held.data)[1 + i] = (reserved){ time, e->held.whole, on };
    return STATUS_OK;
}

static status add_change(reading *r, const event *e) {
    uint32_t on, i;
    if (!e->has_start || !e->has_bytes) return STATUS_OK;
    if (!e->has_address && e->memory) {
        r->without++;
        return STATUS_OK;
    }
    TRY(trace_of(r, e, &on));
    uint64_t time = nanoseconds(&e->start);
    if (e->bytes.whole >> 40 && e->memory)
        return json_stream_wrong(r->j, "an allocation of more bytes than any device has");
    int64_t bytes = (int64_t)(e->bytes.whole & INT64_MAX);
    if (e->bytes.negative) bytes = -bytes;
    device *d = &r->devices[on];
    if (e->memory && time < d->time) {
        d->time = time;
        d->before = e->has_total && !e->total.negative && !(e->total.whole >> 48)
                        ? (int64_t)e->total.whole - bytes
                        : 0;
    }
    TRY(add_reserved(r, e, time, on));
    change c = {
        .time = time, .address = e->address.whole, .bytes = bytes, .device = (uint8_t)on, .failed = e->ran_out
    };
    TRY(calls_thread_of(&r->calls, e->thread, &c.thread));
    TRY(snapshot_add(&r->changes, &i));
    c.order = i;
    ((change *)r->changes.data)[1 + i] = c;
    return STATUS_OK;
}

/* ---- calls ---- */

static bool begins_with(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* "file.py(12): name". */
static bool split_python(const char *text, size_t *file, uint32_t *line, const char **name) {
    const char *colon = strstr(text, "): ");
    if (!colon) return false;
    const char *open = colon;
    uint64_t n = 0, unit = 1;
    while (open > text && open[-1] >= '0' && open[-1] <= '9' && unit < 1000000000)
        open--, n += unit * (uint64_t)(*open - '0'), unit *= 10;
    if (open == colon || open == text || open[-1] != '(') return false;
    *file = (size_t)(open - 1 - text), *line = (uint32_t)n, *name = colon + 3;
    return true;
}

static status make_python_frame(reading *r, uint32_t text, stacks_frame *f) {
    pickle_texts *t = &r->s->texts;
    const char *whole = pickle_texts_at(t, text), *name;
    size_t file;
    if (begins_with(whole, "nn.Module: ")) { /* "nn.Module: Linear_3": the third of them */
        size_t end = strlen(whole);
        while (end > 1 && whole[end - 1] >= '0' && whole[end - 1] <= '9') end--;
        *f = (stacks_frame){ .file = r->nowhere };
        return pickle_texts_add(t, whole, whole[end - 1] == '_' ? end - 1 : strlen(whole), &f->name);
    }
    *f = (stacks_frame){ .name = text, .file = r->nowhere };
    if (!split_python(whole, &file, &f->line, &name)) return STATUS_OK;
    TRY(pickle_texts_add(t, whole, file, &f->file));
    return pickle_texts_add(t, name, strlen(name), &f->name);
}

/* Those of the profiler itself say nothing of who asked. */
static bool is_profilers(const char *name) {
    return begins_with(name, "ProfilerStep#") || begins_with(name, "PyTorch Profiler");
}

/* Steps of optimizers and loaders of data are PyTorch's annotations; others are what somebody says. */
static bool is_somebodys(const char *name) {
    return !begins_with(name, "Optimizer.") && !begins_with(name, "enumerate(DataLoader)#");
}

static status make_frame(reading *r, const event *e, uint32_t *frame) {
    stacks_frame f = { .name = e->name, .file = r->nowhere };
    if (e->kind == CALL_PYTHON) TRY(make_python_frame(r, e->name, &f));
    if (e->kind == CALL_NOTE && is_somebodys(pickle_texts_at(&r->s->texts, e->name))) f.file = 0;
    return stacks_add_frame(&r->s->stacks, f, frame);
}

static status frame_of(reading *r, const event *e, uint32_t *frame) {
    known_name *k = &r->names[(e->name * 4u + e->kind) % NAMES];
    if (k->text != (e->name << 2 | e->kind)) {
        TRY(make_frame(r, e, frame));
        *k = (known_name){ e->name << 2 | e->kind, *frame };
    }
    *frame = k->frame;
    return STATUS_OK;
}

static status add_call(reading *r, const event *e) {
    if (!e->has_start || !e->has_lasts || !e->name || e->kind == CALL_NONE) return STATUS_OK;
    if (e->kind == CALL_NOTE && is_profilers(pickle_texts_at(&r->s->texts, e->name))) return STATUS_OK;
    uint64_t lasts = nanoseconds(&e->lasts);
    if (lasts > MOST_NANOSECONDS) lasts = MOST_NANOSECONDS;
    calls_call c = { .begins = nanoseconds(&e->start),
                     .lasts = lasts & MOST_NANOSECONDS,
                     .from = e->from & 0x7fffffff };
    uint16_t thread;
    TRY(calls_thread_of(&r->calls, e->thread, &thread));
    c.thread = thread;
    TRY(frame_of(r, e, &c.frame));
    c.has_lines = ((const stacks_frame *)r->s->stacks.frames.data)[c.frame].line > 0;
    return calls_add(&r->calls, &c);
}

/* ---- the file ---- */

static status read_event(reading *r) {
    event e = { .kind = CALL_NONE };
    json_piece key;
    bool more;
    TRY(json_stream_look(r->j));
    if (r->j->after != '{') return json_stream_skip(r->j);
    TRY(json_stream_expect(r->j, '{'));
    TRY(json_stream_first(r->j, '}', &more));
    while (more) {
        TRY(json_stream_key(r->j, &key));
        TRY(read_member(r, &key, &e));
        TRY(json_stream_another(r->j, '}', &more));
    }
    TRY(check_one_more(r));
    return e.memory || e.ran_out ? add_change(r, &e) : add_call(r, &e);
}

static status read_list(reading *r) {
    bool more;
    TRY(json_stream_first(r->j, ']', &more));
    while (more) {
        TRY(read_event(r));
        TRY(json_stream_another(r->j, ']', &more));
    }
    return STATUS_OK;
}

static status read_object(reading *r) {
    json_piece key;
    bool more;
    TRY(json_stream_first(r->j, '}', &more));
    while (more) {
        TRY(json_stream_key(r->j, &key));
        bool events = is(&key, "traceEvents");
        if (events) TRY(json_stream_look(r->j));
        if (events && r->j->after == '[') {
            TRY(json_stream_expect(r->j, '['));
            TRY(read_list(r));
        } else {
            TRY(json_stream_skip(r->j));
        }
        TRY(json_stream_another(r->j, '}', &more));
    }
    return STATUS_OK;
}

/* ---- the course of memory ---- */

static int by_time(const void *a, const void *b) {
    const change *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static int by_reserved_time(const void *a, const void *b) {
    const reserved *x = a, *y = b;
    return x->time < y->time ? -1 : x->time > y->time;
}

static status play_change(reading *r, const change *c) {
    snapshot_trace *t = &r->s->traces[c->device];
    uint32_t stack;
    TRY(calls_stack_at(&r->calls, r->s, c->thread, c->time, &stack));
    return play_add(t, &(play_event){ .action = c->failed      ? PLAY_OOM
                                                : c->bytes < 0 ? PLAY_FREE_COMPLETED
                                                               : PLAY_ALLOC,
                                      .stack = stack,
                                      .address = c->address,
                                      .bytes = (uint64_t)(c->bytes < 0 ? -c->bytes : c->bytes),
                                      .time = c->time / 1000 });
}

static status play_changes(reading *r) {
    change *all = (change *)r->changes.data + 1;
    reserved *told = (reserved *)r->held.data + 1;
    uint32_t count = snapshot_count(&r->changes), held = snapshot_count(&r->held), next = 0;
    qsort(all, count, sizeof *all, by_time);
    qsort(told, held, sizeof *told, by_reserved_time);
    calls_sort(&r->calls);
    for (uint32_t i = 0; i < count; i++) {
        TRY(play_change(r, &all[i]));
        TRY(check_one_more(r));
        for (; next < held && told[next].time <= all[i].time; next++)
            TRY(play_reserved(&r->s->traces[told[next].device], told[next].bytes));
    }
    return STATUS_OK;
}

static status add_note(snapshot *s, const snapshot_note *n) {
    uint32_t i;
    TRY(snapshot_add(&s->notes, &i));
    *snapshot_note_at(s, i) = *n;
    return STATUS_OK;
}

/* Updates that PyTorch annotates, for each device; what is within another one is a part of it. */
static status add_updates(reading *r) {
    uint64_t ends = 0;
    for (uint32_t i = 0; i < snapshot_count(&r->calls.all); i++) {
        const calls_call *c = (const calls_call *)r->calls.all.data + 1 + i;
        const stacks_frame *f = (const stacks_frame *)r->s->stacks.frames.data + c->frame;
        if (c->begins < ends || !begins_with(pickle_texts_at(&r->s->texts, f->name), "Optimizer.step#"))
            continue;
        ends = c->begins + c->lasts;
        for (uint32_t k = 0; k < r->s->trace_count; k++) {
            snapshot_note n = { .time = c->begins / 1000, .name = f->name, .device = r->s->traces[k].device };
            TRY(check_one_more(r));
            TRY(add_note(r->s, &n));
            n.time = ends / 1000 + 1, n.ends = true;
            TRY(add_note(r->s, &n));
        }
    }
    return STATUS_OK;
}

/* Where the profiler's total is more than what was seen to be freed. That of the CPU counts what was
 * allocated while the profiler ran, also another time, and forgets what was freed since. */
static status add_before(reading *r) {
    for (uint32_t i = 0; i < r->s->trace_count; i++) {
        snapshot_trace *t = &r->s->traces[i];
        if (t->type == SNAPSHOT_CPU) continue;
        int64_t rest = r->devices[i].before - (int64_t)t->base;
        if (rest > 0 && rest < INT64_C(1) << 40) TRY(play_before(t, (uint64_t)rest));
    }
    return STATUS_OK;
}

static status check_any(const reading *r) {
    if (snapshot_count(&r->changes)) return STATUS_OK;
    if (r->without)
        return status_set(STATUS_INVALID,
                          "the trace's events of memory have no 'Addr': PyTorch 1.12 and later write it");
    return status_set(STATUS_INVALID, "a trace without events '[memory]': record with "
                                      "torch.profiler.profile(profile_memory=True, with_stack=True)");
}

status kineto_read(json_stream *j, bool list, snapshot *s) {
    reading *r = memory_new(1, sizeof *r);
    if (!r) return status_set(STATUS_FAILED, "no memory to read with");
    *r = (reading){ .j = j, .s = s };
    s->form = SNAPSHOT_TRACE;
    status result = calls_start(&r->calls);
    if (result == STATUS_OK) result = array_open(&r->changes, sizeof(change), MOST_CHANGES);
    if (result == STATUS_OK) result = array_open(&r->held, sizeof(reserved), MOST_CHANGES);
    if (result == STATUS_OK) result = pickle_texts_add(&s->texts, "??", 2, &r->nowhere);
    if (result == STATUS_OK) result = list ? read_list(r) : read_object(r);
    if (result == STATUS_OK) result = check_any(r);
    if (result == STATUS_OK) result = play_changes(r);
    if (result == STATUS_OK) result = add_updates(r);
    if (result == STATUS_OK) result = add_before(r);
    calls_close(&r->calls);
    array_close(&r->changes);
    array_close(&r->held);
    memory_free(r);
    return result;
}
