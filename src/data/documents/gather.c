/* Whole records out of pieces: the strings' bytes grow from the front of the room, what is said of each of
 * them from its end. */
#include <inttypes.h>
#include <string.h>

#include "data/documents/reader.h"

typedef struct {
    char *base;
    uint64_t front, back;    /* free: base[front .. back) */
    document_string *string; /* that grows; the last of them, which stands first */
    uint32_t count;
} gathered;

static status too_large(const documents *d, uint64_t bytes) {
    return status_set(STATUS_INVALID,
                      "%s: %s %" PRIu64 " has more than the %" PRIu64 " bytes planned for a record",
                      d->file.path, d->reader->packs ? "the record behind row" : "the record at line",
                      d->place.line, bytes);
}

static bool add(gathered *g, const void *bytes, uint64_t count) {
    if (count > g->back - g->front) return false;
    if (count) memcpy(g->base + g->front, bytes, count);
    g->front += count;
    return true;
}

static bool begin_string(gathered *g, const document_piece *p) {
    if (g->back - g->front < sizeof *g->string) return false;
    g->back -= sizeof *g->string;
    g->string = (document_string *)(void *)(g->base + g->back);
    *g->string = (document_string){ .column = (uint16_t)p->column, .json = p->json, .item = p->item };
    g->count++;
    if (p->member) {
        g->string->member = g->base + g->front;
        if (!add(g, p->member, strlen(p->member) + 1)) return false;
    }
    g->string->bytes = g->base + g->front;
    return true;
}

/* The last one that came stands first. */
static void turn(document_string *strings, uint32_t count) {
    for (uint32_t i = 0; i < count / 2; i++) {
        document_string one = strings[i];
        strings[i] = strings[count - 1 - i], strings[count - 1 - i] = one;
    }
}

status documents_gather(documents *d, void *room, uint64_t bytes, document_record *r, bool *more) {
    gathered g = { .base = room, .back = bytes / _Alignof(document_string) * _Alignof(document_string) };
    document_piece p;
    bool inside = false;
    *r = (document_record){ 0 };
    TRY(documents_next(d, &p));
    *more = p.event != DOCUMENT_END;
    if (!*more) return STATUS_OK;
    r->place = d->place;
    for (;;) {
        TRY(documents_next(d, &p));
        if (p.event == DOCUMENT_RECORD_END) break;
        if (p.event == DOCUMENT_ITEM) {
            r->items[p.column] = p.item + 1;
            continue;
        }
        if (!inside && !begin_string(&g, &p)) return too_large(d, bytes);
        if (!add(&g, p.bytes, p.count)) return too_large(d, bytes);
        g.string->count += p.count;
        inside = !p.last;
    }
    turn(g.string, g.count);
    r->strings = g.string, r->count = g.count;
    return STATUS_OK;
}
