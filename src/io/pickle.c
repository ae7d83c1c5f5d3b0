#include "io/pickle.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "io/pickle_memo.h"

enum { BUFFER = 1 << 18, LONGEST_NUMBER = 9 };

typedef struct {
    uint32_t base; /* height of the stack below what it marks */
    bool shown;    /* of what it marks some was shown to the reader: it must end as a list's */
} mark;

typedef struct {
    pickle_source source;
    const pickle_reader *reader;
    pickle_texts *texts;
    pickle_memo memo;
    pickle_value *stack;
    uint32_t height, depth;
    mark marks[PICKLE_DEPTH];
    uint64_t lists; /* so far */
    uint64_t base;  /* bytes before the buffer */
    size_t at, have;
    uint64_t began; /* where the opcode stands */
    unsigned char *buffer;
    char *text; /* one that lies across the buffer's end */
} machine;

/* ---- bytes ---- */

static status wrong(const machine *m, const char *why) {
    return status_set(STATUS_INVALID, "%s: byte %llu: %s", m->source.path, (unsigned long long)m->began, why);
}

static status fill(machine *m) {
    m->base += m->have;
    m->at = m->have = 0;
    TRY(m->source.read(m->source.from, m->buffer, BUFFER, &m->have));
    if (m->have) return STATUS_OK;
    m->began = m->base;
    return wrong(m, m->base ? "the pickle ends in the middle: the file was cut" : "the file is empty");
}

static status take_far(machine *m, void *into, size_t count) {
    char *to = into;
    while (count) {
        if (m->at == m->have) TRY(fill(m));
        size_t some = m->have - m->at < count ? m->have - m->at : count;
        memcpy(to, m->buffer + m->at, some);
        m->at += some, to += some, count -= some;
    }
    return STATUS_OK;
}

/* A number of up to 8 bytes, the lowest first. */
static inline status take_number(machine *m, unsigned count, uint64_t *out) {
    *out = 0;
    if (m->have - m->at >= 8) {
        memcpy(out, m->buffer + m->at, 8);
        m->at += count;
        if (count < 8) *out &= (UINT64_C(1) << 8 * count) - 1;
        return STATUS_OK;
    }
    return take_far(m, out, count);
}

/* ---- values ---- */

static status push(machine *m, pickle_kind kind, uint64_t bits) {
    if (m->height == PICKLE_STACK) return wrong(m, "more values wait than data need: it is no snapshot");
    m->stack[m->height++] = (pickle_value){ .kind = (uint8_t)kind, .bits = bits };
    return STATUS_OK;
}

static uint32_t word_of(const machine *m, const pickle_value *v) {
    bool own = v->kind >= PICKLE_OWN;
    if (v->kind == PICKLE_GONE || (own && !(m->reader->kept >> v->kind & 1)) || v->bits >> PICKLE_BITS)
        return PICKLE_GONE;
    return (uint32_t)v->bits << 5 | v->kind;
}

/* What stands for a dict or list from now on, wherever the memo has it. */
static void replace(machine *m, const pickle_value *v) {
    if (v->memo) pickle_memo_set(&m->memo, v->memo - 1, word_of(m, v));
}

static status check_room(const machine *m) {
    uint64_t taken = m->memo.bytes + pickle_texts_bytes(m->texts);
    if (m->reader->held) taken += m->reader->held(m->reader->context);
    if (taken <= PICKLE_ROOM + (m->base + m->at) / 2) return STATUS_OK;
    return wrong(m, "what is kept of it takes more memory than a snapshot's would");
}

static status remember(machine *m, uint64_t number) {
    if (m->height == 0) return wrong(m, "nothing is there to be remembered");
    if (number != m->memo.count) return wrong(m, "the memo is out of order");
    TRY(check_room(m));
    pickle_value *top = &m->stack[m->height - 1];
    TRY(pickle_memo_add(&m->memo, word_of(m, top)));
    top->memo = m->memo.count;
    return STATUS_OK;
}

static status recall(machine *m, uint64_t number) {
    if (number >= m->memo.count) return wrong(m, "it comes back to what was not there");
    uint32_t word = pickle_memo_at(&m->memo, (uint32_t)number);
    if (!word) return wrong(m, "it comes back to what a snapshot has once");
    TRY(push(m, word & 31, word >> 5));
    m->stack[m->height - 1].memo = (uint32_t)number + 1;
    return STATUS_OK;
}

static status take_text(machine *m, unsigned width) {
    uint64_t count;
    uint32_t number;
    TRY(take_number(m, width, &count));
    if (count > PICKLE_TEXT_MOST)
        return status_set(STATUS_INVALID, "%s: byte %llu: a text of %llu bytes; snapshots have none over %d",
                          m->source.path, (unsigned long long)m->began, (unsigned long long)count,
                          PICKLE_TEXT_MOST);
    const char *bytes = (const char *)m->buffer + m->at;
    if (m->have - m->at >= count) {
        m->at += count;
    } else {
        TRY(take_far(m, m->text, count));
        bytes = m->text;
    }
    TRY(pickle_texts_add(m->texts, bytes, count, &number));
    TRY(check_room(m));
    return push(m, PICKLE_TEXT, number);
}

static status push_signed(machine *m, int64_t n) {
    return push(m, n < 0 ? PICKLE_NEGATIVE : PICKLE_INTEGER, (uint64_t)n);
}

/* In two's complement, the lowest byte first. The ninth may only say that the number is not negative. */
static status take_long(machine *m, uint64_t count) {
    unsigned char bytes[LONGEST_NUMBER] = { 0 };
    if (count > LONGEST_NUMBER) return wrong(m, "a number of more than 64 bits, which no snapshot has");
    TRY(take_far(m, bytes, count));
    if (count == LONGEST_NUMBER && bytes[8])
        return wrong(m, "a number of more than 64 bits, which no snapshot has");
    bool negative = count && count < LONGEST_NUMBER && bytes[count - 1] & 0x80;
    for (uint64_t i = count; negative && i < 8; i++) bytes[i] = 0xff;
    uint64_t n;
    memcpy(&n, bytes, 8);
    return push(m, negative ? PICKLE_NEGATIVE : PICKLE_INTEGER, n);
}

static status take_float(machine *m) {
    uint64_t bits;
    TRY(take_number(m, 8, &bits));
    return push(m, PICKLE_FLOAT, __builtin_bswap64(bits));
}

/* ---- containers ---- */

static status open_mark(machine *m) {
    if (m->depth == PICKLE_DEPTH) return wrong(m, "it is nested deeper than a snapshot");
    m->marks[m->depth++] = (mark){ .base = m->height };
    return STATUS_OK;
}

static status close_mark(machine *m, bool list, uint32_t *base) {
    if (!m->depth) return wrong(m, "a mark is missing");
    mark last = m->marks[--m->depth];
    if (last.shown && !list) return wrong(m, "a tuple or dict that long, which no snapshot has");
    *base = last.base;
    return STATUS_OK;
}

/* Below the top `count` values stands what gets them; marks stand below it. */
static status check_below(const machine *m, uint32_t base) {
    uint32_t floor = m->depth ? m->marks[m->depth - 1].base : 0;
    if (base <= floor || base > m->height) return wrong(m, "the stack is too short");
    return STATUS_OK;
}

static status show_items(machine *m, uint32_t base) {
    TRY(check_below(m, base));
    pickle_value *list = &m->stack[base - 1];
    if (list->kind < PICKLE_LIST || list->kind == PICKLE_DICT) return wrong(m, "items for what is no list");
    uint32_t count = m->height - base;
    if (count) TRY(m->reader->items(m->reader->context, m->stack + base, count, list));
    m->height = base;
    replace(m, list);
    return check_room(m);
}

static status show_pairs(machine *m, uint32_t base) {
    TRY(check_below(m, base));
    pickle_value *dict = &m->stack[base - 1];
    if (dict->kind < PICKLE_DICT) return wrong(m, "pairs for what is no dict");
    uint32_t count = m->height - base;
    if (count % 2) return wrong(m, "a key without its value");
    if (count) TRY(m->reader->pairs(m->reader->context, m->stack + base, count, dict));
    m->height = base;
    replace(m, dict);
    return check_room(m);
}

/* Lists of any length are shown while they are read: libtorch's writer makes one batch of them. The last
 * values may be parts of one that is not complete, so they wait. */
static status show_early(machine *m) {
    if (!m->depth) return STATUS_OK;
    mark *last = &m->marks[m->depth - 1];
    uint32_t base = last->base, above = m->height - base;
    if (above < PICKLE_ITEMS || !base || m->stack[base - 1].kind != PICKLE_LIST) return STATUS_OK;
    uint32_t count = above - PICKLE_WAITING;
    pickle_value *list = &m->stack[base - 1];
    last->shown = true;
    TRY(m->reader->items(m->reader->context, m->stack + base, count, list));
    memmove(m->stack + base, m->stack + base + count, (above - count) * sizeof *m->stack);
    m->height -= count;
    replace(m, list);
    return STATUS_OK;
}

static status make_tuple(machine *m, uint32_t base) {
    uint32_t floor = m->depth ? m->marks[m->depth - 1].base : 0;
    if (base < floor || base > m->height) return wrong(m, "the stack is too short");
    uint64_t mixed = 0;
    bool any = false;
    for (uint32_t i = base; i < m->height; i++) {
        bool number = m->stack[i].kind == PICKLE_INTEGER || m->stack[i].kind == PICKLE_NEGATIVE;
        uint64_t bits = number ? m->stack[i].bits : 0;
        any = any || bits;
        mixed = mixed * 8191 + bits;
    }
    m->height = base;
    mixed &= (1 << PICKLE_BITS) - 1;
    return push(m, PICKLE_TUPLE, any && !mixed ? 1 : mixed);
}

static status make_list(machine *m) { return push(m, PICKLE_LIST, ++m->lists & ((1 << PICKLE_BITS) - 1)); }

/* A list or dict of all behind the mark. */
static status make_of_marked(machine *m, bool list) {
    uint32_t base = 0;
    TRY(close_mark(m, false, &base));
    if (m->height == PICKLE_STACK) return wrong(m, "more values wait than data need: it is no snapshot");
    memmove(m->stack + base + 1, m->stack + base, (m->height - base) * sizeof *m->stack);
    m->height++;
    m->stack[base] = (pickle_value){ .kind = list ? PICKLE_LIST : PICKLE_DICT };
    if (list) m->stack[base].bits = ++m->lists & ((1 << PICKLE_BITS) - 1);
    return list ? show_items(m, base + 1) : show_pairs(m, base + 1);
}

static status close_marked(machine *m, unsigned char code) {
    uint32_t base = 0;
    TRY(close_mark(m, code == 'e', &base));
    if (code == 'e') return show_items(m, base);
    if (code == 'u') return show_pairs(m, base);
    return make_tuple(m, base);
}

static status behind(machine *m, uint32_t count, uint32_t *base) {
    if (m->height < count) return wrong(m, "the stack is too short");
    *base = m->height - count;
    return STATUS_OK;
}

/* ---- what is refused ---- */

static const struct {
    unsigned char code;
    const char *why;
} refused[] = {
    { 'c', "it would import a name and run code; a snapshot is data alone" },
    { 0x93, "it would import a name and run code; a snapshot is data alone" },
    { 'R', "it would call a function; a snapshot is data alone" },
    { 'b', "it would set up an object; a snapshot is data alone" },
    { 'i', "it would make an object; a snapshot is data alone" },
    { 'o', "it would make an object; a snapshot is data alone" },
    { 0x81, "it would make an object; a snapshot is data alone" },
    { 0x92, "it would make an object; a snapshot is data alone" },
    { 0x82, "it would import a name of a registry; a snapshot is data alone" },
    { 0x83, "it would import a name of a registry; a snapshot is data alone" },
    { 0x84, "it would import a name of a registry; a snapshot is data alone" },
    { 'P', "it refers to what lies outside of the file, as checkpoints do" },
    { 'Q', "it refers to what lies outside of the file, as checkpoints do" },
    { 0x97, "it refers to a buffer outside of the file" },
    { 0x98, "it refers to a buffer outside of the file" },
    { 'B', "raw bytes, which no snapshot has" },
    { 'C', "raw bytes, which no snapshot has" },
    { 'T', "raw bytes, which no snapshot has" },
    { 'U', "raw bytes, which no snapshot has" },
    { 0x8e, "raw bytes, which no snapshot has" },
    { 0x96, "raw bytes, which no snapshot has" },
    { 0x8f, "a set, which no snapshot has" },
    { 0x90, "a set, which no snapshot has" },
    { 0x91, "a set, which no snapshot has" },
};

static status refuse(const machine *m, unsigned char code) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (refused[i].code == code) return wrong(m, refused[i].why);
    char why[96];
    snprintf(why, sizeof why, "opcode 0x%02x, which a pickle of protocols 2 to 5 does not have here", code);
    return wrong(m, why);
}

/* ---- running ---- */

static status run_number(machine *m, unsigned char code) {
    uint64_t n;
    unsigned width = code == 'K' || code == 0x8a ? 1 : code == 'M' ? 2 : 4;
    TRY(take_number(m, width, &n));
    if (code == 0x8a || code == 0x8b) return take_long(m, n);
    return push_signed(m, code == 'J' ? (int32_t)(uint32_t)n : (int64_t)n);
}

static status run_memo(machine *m, unsigned char code) {
    uint64_t n = m->memo.count;
    if (code != 0x94) TRY(take_number(m, code == 'q' || code == 'h' ? 1 : 4, &n));
    return code == 'h' || code == 'j' ? recall(m, n) : remember(m, n);
}

static status run_rare(machine *m, unsigned char code) {
    uint64_t skipped;
    switch (code) {
    case 0x95: return take_number(m, 8, &skipped); /* a frame: how much may be read at once */
    case 0x88:
    case 0x89: return push(m, PICKLE_BOOL, code == 0x88);
    case 'G': return take_float(m);
    case ')': return push(m, PICKLE_TUPLE, 0);
    case 'l':
    case 'd': return make_of_marked(m, code == 'l');
    default: return refuse(m, code);
    }
}

static status run(machine *m, unsigned char code) {
    uint32_t base = 0;
    switch (code) {
    case 'K':
    case 'M':
    case 'J':
    case 0x8a:
    case 0x8b: return run_number(m, code);
    case 'h':
    case 'j':
    case 'q':
    case 'r':
    case 0x94: return run_memo(m, code);
    case 0x8c: return take_text(m, 1);
    case 'X': return take_text(m, 4);
    case 0x8d: return take_text(m, 8);
    case '(': return open_mark(m);
    case 't':
    case 'u':
    case 'e': return close_marked(m, code);
    case ']': return make_list(m);
    case '}': return push(m, PICKLE_DICT, 0);
    case 'N': return push(m, PICKLE_NONE, 0);
    case 0x85:
    case 0x86:
    case 0x87: TRY(behind(m, code - 0x84u, &base)); return make_tuple(m, base);
    case 'a': TRY(behind(m, 1, &base)); return show_items(m, base);
    case 's': TRY(behind(m, 2, &base)); return show_pairs(m, base);
    default: return run_rare(m, code);
    }
}

/* A pickle of protocols 0 and 1 says nothing of the kind; other files are told by how they begin. */
static status check_beginning(machine *m) {
    unsigned char head[2];
    TRY(take_far(m, head, sizeof head));
    if (head[0] == 'P' && head[1] == 'K')
        return wrong(m, "a zip archive, as torch.save writes; a snapshot is a bare pickle");
    if (head[0] == '{' || head[0] == '[' || head[0] == '<')
        return wrong(m, "text where a pickle of protocols 2 to 5 begins");
    if (head[0] != 0x80) return wrong(m, "no pickle of protocols 2 to 5 begins so");
    m->began = 1;
    if (head[1] < 2 || head[1] > 5) return wrong(m, "pickles of protocols 2 to 5 are read, and no others");
    return STATUS_OK;
}

static status run_all(machine *m) {
    TRY(check_beginning(m));
    for (;;) {
        m->began = m->base + m->at;
        if (m->at == m->have) TRY(fill(m));
        unsigned char code = m->buffer[m->at++];
        if (code == '.') break;
        TRY(run(m, code));
        if (m->height >= PICKLE_ITEMS) TRY(show_early(m));
    }
    return m->height == 1 && !m->depth ? STATUS_OK : wrong(m, "it ends with too little or too much");
}

/* Bytes behind the end nobody would look at: they may be another pickle, or what hides. */
static status check_end(machine *m) {
    if (m->at == m->have) {
        m->base += m->have;
        m->at = m->have = 0;
        TRY(m->source.read(m->source.from, m->buffer, BUFFER, &m->have));
    }
    m->began = m->base + m->at;
    return m->at == m->have ? STATUS_OK : wrong(m, "more follows behind the end of the pickle");
}

status pickle_read(const pickle_source *source, const pickle_reader *reader, pickle_texts *texts,
                   pickle_value *root, uint64_t *read) {
    machine m = { .source = *source, .reader = reader, .texts = texts };
    status result = pickle_memo_open(&m.memo);
    if (result == STATUS_OK) {
        m.buffer = memory_room(BUFFER, 1);
        m.text = memory_room(PICKLE_TEXT_MOST, 1);
        m.stack = memory_room(PICKLE_STACK, sizeof *m.stack);
        if (!m.buffer || !m.text || !m.stack) result = status_set(STATUS_FAILED, "no memory to read with");
    }
    if (result == STATUS_OK) result = run_all(&m);
    if (result == STATUS_OK) result = check_end(&m);
    if (result == STATUS_OK && root) *root = m.stack[0];
    if (read) *read = m.base + m.at;
    memory_free(m.buffer);
    memory_free(m.text);
    memory_free(m.stack);
    pickle_memo_close(&m.memo);
    return result;
}
