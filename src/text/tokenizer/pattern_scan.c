#include "text/tokenizer/pattern_scan.h"

#include "text/tokenizer/pattern_scan_internal.h"

enum { MOST_STEPS = 50 * 1000 * 1000, STEPS_FOR_BYTE = 8 };

#define NOWHERE SIZE_MAX

typedef struct {
    const pattern_scan *s;
    const char *text;
    size_t bytes;
    bool hit_end; /* what is behind the text was asked for */
    uint64_t steps, most;
} scanner;

static inline bool has(uint64_t set, unsigned class) { return (set >> class & 1) != 0; }

/* Behind the text only nothing matches. */
static inline bool may_begin(scanner *c, const scan_step *p, size_t at) {
    size_t length;
    c->steps++;
    if (at < c->bytes) return has(p->first, scan_class(c->s, c->text + at, &length));
    c->hit_end = true;
    return p->empty;
}

static bool is_ahead(scanner *c, const scan_step *p, size_t at) {
    size_t length;
    if (at < c->bytes) return has(p->set, scan_class(c->s, c->text + at, &length));
    c->hit_end = true;
    return p->at_end;
}

/* Takes as many characters as may be, and counts them. */
static size_t take(scanner *c, const scan_step *p, size_t at, uint32_t *count) {
    size_t length;
    uint32_t n = 0;
    for (; n < p->most; at += length, n++) {
        if (at >= c->bytes) {
            c->hit_end = true;
            break;
        }
        if (!has(p->set, scan_class(c->s, c->text + at, &length))) break;
    }
    c->steps += n + 1;
    *count = n;
    return at;
}

static size_t follow(scanner *c, unsigned step, size_t at);

/* Gives back one after the other until what follows matches. */
static size_t give_back(scanner *c, const scan_step *p, size_t at, uint32_t taken) {
    for (;; taken--) {
        size_t end = follow(c, p->next, at);
        if (end != NOWHERE || taken == p->least) return end;
        at = unicode_before(c->text, at);
    }
}

/* Where the match ends that goes on with the step at `at`. */
static size_t follow(scanner *c, unsigned step, size_t at) {
    while (c->steps <= c->most) {
        const scan_step *p = &c->s->steps[step];
        uint32_t taken;
        size_t end;
        step = p->next;
        switch ((step_kind)p->kind) {
        case STEP_END: return at;
        case STEP_AHEAD:
            if (!is_ahead(c, p, at)) return NOWHERE;
            break;
        case STEP_CHOICE:
            if (!may_begin(c, &c->s->steps[p->next], at)) {
                step = p->other;
            } else if (!p->settled) {
                end = follow(c, p->next, at);
                if (end != NOWHERE) return end;
                step = p->other;
            }
            break;
        case STEP_SET:
            at = take(c, p, at, &taken);
            if (taken < p->least) return NOWHERE;
            if (!p->settled && taken > p->least) return give_back(c, p, at, taken);
            break;
        }
    }
    return NOWHERE;
}

scan_answer pattern_scan_next(const pattern_scan *s, scan_text text, size_t from, size_t *start,
                              size_t *end) {
    scanner c = { .s = s, .text = text.data, .bytes = text.bytes };
    uint64_t first = s->steps[s->root].first;
    size_t length;
    c.most = MOST_STEPS + (uint64_t)STEPS_FOR_BYTE * (text.bytes - from);
    for (size_t at = from; at < text.bytes; at += length) {
        unsigned class = scan_class(s, text.data + at, &length);
        if (!has(first, class)) continue;
        *start = at, *end = follow(&c, s->entries[class], at);
        if (c.steps > c.most) return SCAN_TOO_LONG;
        if (text.open && c.hit_end) return SCAN_OPEN;
        if (*end != NOWHERE) return SCAN_FOUND;
    }
    return SCAN_NONE;
}
