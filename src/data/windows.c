#include "data/windows.h"

#include "base/memory.h"

enum { KEPT = 64, READ = 256 };

/* Ends of documents, read some at a time. */
typedef struct {
    const corpus *c;
    uint64_t first, last; /* which are in `ends`: from first to before last */
    uint64_t all;         /* documents there are to read */
    uint64_t ends[READ];
} end_reader;

static status end_of(end_reader *r, uint64_t document, uint64_t *end) {
    if (document < r->first || document >= r->last) {
        uint64_t left = r->all - document;
        uint32_t n = left < READ ? (uint32_t)left : READ;
        TRY(corpus_ends(r->c, document, n, r->ends));
        r->first = document, r->last = document + n;
    }
    *end = r->ends[document - r->first];
    return STATUS_OK;
}

/* The window that begins at a place: `*next` begins the one behind it. */
static status step(const windows *w, end_reader *r, window_place at, window_place *next) {
    uint64_t room = w->context, end;
    *next = at;
    while (next->document < w->end) {
        TRY(end_of(r, next->document, &end));
        uint64_t rest = end - next->token;
        bool begun = next->token > at.token;
        if (rest > room && begun) break;
        if (rest > room) {
            next->token += room;
            break;
        }
        room -= rest;
        *next = (window_place){ end, next->document + 1 };
        if (w->alone) break;
    }
    return STATUS_OK;
}

static status keep(windows *w, window_place at, uint64_t *room) {
    uint64_t count = w->windows / KEPT;
    if (count == *room) {
        uint64_t larger = *room ? *room * 2 : 16;
        window_place *kept = memory_resize(w->kept, larger, sizeof *kept);
        if (!kept)
            return status_set(STATUS_FAILED, "no memory for the places of %llu windows",
                              (unsigned long long)w->windows);
        w->kept = kept, *room = larger;
        w->held_bytes = larger * sizeof *kept;
    }
    w->kept[count] = at;
    return STATUS_OK;
}

status windows_open(const corpus *c, uint32_t context, bool alone, uint64_t first, uint64_t end, windows *w) {
    end_reader r = { .c = c, .all = end };
    window_place at = { 0, first }, next;
    uint64_t room = 0;
    *w = (windows){ .context = context, .alone = alone, .first = first, .end = end };
    if (first > 0) TRY(corpus_ends(c, first - 1, 1, &at.token));
    uint64_t begin = at.token;
    for (; at.document < end; at = next, w->windows++) {
        if (w->windows % KEPT == 0) TRY(keep(w, at, &room));
        TRY(step(w, &r, at, &next));
    }
    w->tokens = at.token - begin;
    return STATUS_OK;
}

void windows_close(windows *w) {
    memory_free(w->kept);
    *w = (windows){ 0 };
}

status windows_find(const windows *w, const corpus *c, uint64_t window, uint64_t *token, uint32_t *count,
                    bool *goes_on) {
    end_reader r = { .c = c, .all = w->end };
    window_place at = w->kept[window / KEPT], next = at;
    for (uint64_t i = window / KEPT * KEPT; i <= window; i++) {
        at = next;
        TRY(step(w, &r, at, &next));
    }
    *token = at.token, *count = (uint32_t)(next.token - at.token);
    *goes_on = false;
    if (next.document == w->end) return STATUS_OK;
    uint64_t begins = 0;
    if (next.document > 0) TRY(corpus_ends(c, next.document - 1, 1, &begins));
    *goes_on = next.token > begins;
    return STATUS_OK;
}

status windows_document_at(const corpus *c, uint64_t token, uint64_t *document) {
    uint64_t low = 0, high = c->documents, end; /* documents below `low` begin before the token */
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        end = 0;
        if (middle > 0) TRY(corpus_ends(c, middle - 1, 1, &end));
        if (end < token)
            low = middle + 1;
        else
            high = middle;
    }
    *document = low;
    return STATUS_OK;
}
