#include "data/windows.h"

#include "base/memory.h"
#include "data/fill.h"

enum { READ = 256, FIRST_ROOM = 16 };

/* ---- a block that is packed ---- */

/* In a reader's scratch. Document d of the block ends at ends[d + 1], and the one before it at ends[d]. */
typedef struct {
    struct held_block {
        const windows *of; /* whose block it is; NULL: none is there */
        uint64_t number;
    } * held;
    uint64_t *ends;    /* (block + 1) */
    uint32_t *lengths; /* (block): of the pieces that are packed */
    fill fill;
} packed;

uint64_t windows_scratch_bytes(uint32_t block) {
    return sizeof(struct held_block) + (block + (uint64_t)1) * sizeof(uint64_t) + block * sizeof(uint32_t) +
           fill_bytes(block);
}

static packed packed_in(void *scratch, uint32_t block) {
    packed p = { .held = scratch };
    p.ends = (uint64_t *)(p.held + 1);
    p.lengths = (uint32_t *)(p.ends + block + 1);
    p.fill = fill_lists(p.lengths + block, block);
    return p;
}

/* Windows that a document fills by itself; behind each of them it goes on. */
static uint64_t filled(uint64_t length, uint32_t context) {
    return length > context ? (length - 1) / context : 0;
}

/* Where documents `first` to before `end` end, behind the end of the one before them: 0 before the first. */
static status read_ends(const corpus *c, uint64_t first, uint64_t end, uint64_t *ends) {
    ends[0] = 0;
    return first ? corpus_ends(c, first - 1, (uint32_t)(end - first + 1), ends)
                 : corpus_ends(c, first, (uint32_t)(end - first), ends + 1);
}

/* Packs the documents from `first` to before `end`, a block at most. */
static status pack(const windows_options *o, const corpus *c, uint64_t first, uint64_t end, const packed *p,
                   uint64_t *count) {
    uint32_t documents = (uint32_t)(end - first);
    TRY(read_ends(c, first, end, p->ends));
    *count = 0;
    for (uint32_t d = 0; d < documents; d++) {
        uint64_t length = p->ends[d + 1] - p->ends[d], own = filled(length, o->context);
        p->lengths[d] = (uint32_t)(length - own * o->context);
        *count += own;
    }
    *count += o->alone ? fill_alone(&p->fill, documents)
                       : fill_windows(&p->fill, p->lengths, documents, o->context);
    return STATUS_OK;
}

/* ---- where blocks begin ---- */

static status keep(windows *w, windows_block b, uint64_t *room) {
    if (w->count == *room) {
        uint64_t larger = *room ? *room * 2 : FIRST_ROOM;
        windows_block *blocks = memory_resize(w->blocks, larger, sizeof *blocks);
        if (!blocks)
            return status_set(STATUS_FAILED, "no memory for the places of %llu windows",
                              (unsigned long long)w->windows);
        w->blocks = blocks, *room = larger;
    }
    w->blocks[w->count++] = b;
    return STATUS_OK;
}

/* What next fit knows while it goes through the documents. */
typedef struct {
    const corpus *c;
    packed packed;
    uint64_t begin;  /* of the block, a document */
    uint64_t border; /* the last document that began a window */
    uint64_t room;   /* of windows->blocks */
} opening;

static status end_block(windows *w, opening *at, uint64_t end) {
    const windows_options *o = &w->options;
    uint64_t count, ends[2];
    TRY(keep(w, (windows_block){ at->begin, w->windows }, &at->room));
    if (end - at->begin > o->block) { /* one window, and those that its first document fills before */
        TRY(read_ends(at->c, at->begin, at->begin + 1, ends));
        count = filled(ends[1] - ends[0], o->context) + 1;
    } else {
        TRY(pack(o, at->c, at->begin, end, &at->packed, &count));
    }
    w->windows += count;
    at->begin = end;
    return STATUS_OK;
}

/* The document begins a window. The block is one that had to end before, if it has grown too long. */
static status pass_border(windows *w, opening *at, uint64_t document) {
    uint32_t most = w->options.block;
    if (document - at->begin > most && at->border > at->begin) TRY(end_block(w, at, at->border));
    if (document - at->begin > most) TRY(end_block(w, at, document));
    at->border = document;
    return STATUS_OK;
}

static status find_blocks(windows *w, opening *at) {
    const windows_options *o = &w->options;
    uint64_t ends[READ + 1], room = 0, n;
    for (uint64_t d = o->first; d < o->end; d += n) {
        n = o->end - d < READ ? o->end - d : READ;
        TRY(read_ends(at->c, d, d + n, ends));
        w->tokens += ends[n] - ends[0];
        for (uint64_t i = 0; i < n; i++) {
            uint64_t length = ends[i + 1] - ends[i];
            if (length > room || o->alone) {
                TRY(pass_border(w, at, d + i));
                room = (filled(length, o->context) + 1) * o->context;
            }
            room -= length;
        }
    }
    TRY(pass_border(w, at, o->end));
    return at->begin < o->end ? end_block(w, at, o->end) : STATUS_OK;
}

static status open_blocks(windows *w, opening *at) {
    TRY(find_blocks(w, at));
    TRY(keep(w, (windows_block){ w->options.end, w->windows }, &at->room));
    windows_block *exact = memory_resize(w->blocks, w->count, sizeof *exact);
    if (exact) w->blocks = exact;
    w->held_bytes = (exact ? w->count : at->room) * sizeof *exact;
    w->count--;
    return STATUS_OK;
}

status windows_open(const corpus *c, const windows_options *o, windows *w) {
    *w = (windows){ .options = *o };
    void *scratch = memory_room(1, windows_scratch_bytes(o->block));
    if (!scratch) return status_set(STATUS_FAILED, "no memory to pack documents");
    opening at = { .c = c, .packed = packed_in(scratch, o->block), .begin = o->first, .border = o->first };
    status result = open_blocks(w, &at);
    memory_free(scratch);
    return result;
}

void windows_close(windows *w) {
    memory_free(w->blocks);
    *w = (windows){ 0 };
}

/* ---- reading ---- */

static uint64_t block_of(const windows *w, uint64_t window) {
    uint64_t low = 0, high = w->count; /* block `low` begins at or before the window */
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (w->blocks[middle].window <= window)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The whole window of a document, and the token behind it. */
static status read_own(const windows *w, const corpus *c, uint64_t document, uint64_t token,
                       data_window *to) {
    return corpus_read_documents(c, document, token, (uint64_t)w->options.context + 1, to);
}

/* More documents than a block may have: they follow one another. */
static status read_many(const windows *w, const corpus *c, uint64_t number, uint64_t window,
                        data_window *to) {
    uint64_t ends[2], last, first = w->blocks[number].document, behind = w->blocks[number + 1].document;
    uint32_t context = w->options.context;
    TRY(read_ends(c, first, first + 1, ends));
    TRY(corpus_ends(c, behind - 1, 1, &last));
    uint64_t token = ends[0] + window * context;
    if (window < filled(ends[1] - ends[0], context)) return read_own(w, c, first, token, to);
    return corpus_read_documents(c, first, token, last - token, to);
}

/* The pieces of a window from its first one on. Those that follow one another in the data are read at once:
 * behind a document's rest, whole ones. Each ends with its document, so the next id begins one. */
static status read_pieces(const packed *p, const corpus *c, uint64_t first, uint16_t piece, data_window *to) {
    while (piece != FILL_NONE) {
        uint16_t last = piece, next;
        uint64_t token = p->ends[piece + 1] - p->lengths[piece];
        while ((next = p->fill.next[last]) == last + 1 &&
               p->ends[next] + p->lengths[next] == p->ends[next + 1])
            last = next;
        TRY(corpus_read_documents(c, first + piece, token, p->ends[last + 1] - token, to));
        piece = next;
    }
    return STATUS_OK;
}

status windows_read(const windows *w, const corpus *c, uint64_t window, void *scratch, data_window *to) {
    const windows_options *o = &w->options;
    packed p = packed_in(scratch, o->block);
    uint64_t number = block_of(w, window), count, own, first = w->blocks[number].document,
             end = w->blocks[number + 1].document;
    window -= w->blocks[number].window;
    if (end - first > o->block) return read_many(w, c, number, window, to);
    if (p.held->of != w || p.held->number != number) {
        p.held->of = NULL;
        TRY(pack(o, c, first, end, &p, &count));
        *p.held = (struct held_block){ w, number };
    }
    for (uint32_t d = 0;; d++, window -= own) {
        own = filled(p.ends[d + 1] - p.ends[d], o->context);
        if (window < own) return read_own(w, c, first + d, p.ends[d] + window * o->context, to);
        own += p.fill.opens[d] != FILL_NONE;
        if (window < own) return read_pieces(&p, c, first, p.fill.opens[d], to);
    }
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
