#include "data/documents/parquet_cells.h"

#include <inttypes.h>
#include <string.h>

#include "data/documents/parquet_leaf.h"
#include "data/documents/room.h"

typedef struct {
    void *unpacking;
    unsigned char *packed, *unpacked, *joined;
} parts;

static bool alone(const parquet_cell *c) { return c->page.codec == PARQUET_UNPACKED && !c->page.joined; }

/* Of what isn't packed `packed` is not used. */
static parts lay_out(const parquet_cell *c, document_room *room) {
    const unpacker *unpack = parquet_unpacker((parquet_codec)c->page.codec);
    return (parts){ .unpacking = document_room_take(room, unpack ? unpack->need_whole() : 0),
                    .packed = document_room_take(room, unpack ? c->page.packed : 0),
                    .unpacked = document_room_take(room, c->page.unpacked),
                    .joined = document_room_take(room, c->page.joined ? c->page.unpacked : 0) };
}

uint64_t parquet_cell_scratch(const parquet_cell *c) {
    document_room room = { 0 };
    if (alone(c)) return units_align(c->bytes, ROOM_ALIGNMENT);
    lay_out(c, &room);
    return room.used;
}

static status wrong(const data_file *f, const parquet_cell *c, const char *why) {
    return status_set(STATUS_INVALID, "%s, page whose data begins at byte %" PRIu64 ": %s", f->path,
                      c->page.start, why);
}

static status unpack_page(const data_file *f, const parquet_cell *c, const parts *p) {
    const unpacker *unpack = parquet_unpacker((parquet_codec)c->page.codec);
    unpack_span block = {
        .in = p->packed, .in_left = c->page.packed, .out = p->unpacked, .out_left = c->page.unpacked
    };
    if (!unpack) return format_pread(f, c->page.start, p->unpacked, c->page.unpacked);
    TRY(format_pread(f, c->page.start, p->packed, c->page.packed));
    if (unpack->whole(p->unpacking, &block) == STATUS_OK) return STATUS_OK;
    return status_prefix(STATUS_INVALID, "%s, page whose data begins at byte %" PRIu64, f->path,
                         c->page.start);
}

/* Each string is put together from the one before it, so all of the page up to it are. */
static bool join(const parquet_cell *c, const parts *p) {
    const unsigned char *at = p->unpacked + c->page.strings, *end = p->unpacked + c->page.unpacked;
    parquet_delta prefixes, lengths;
    uint64_t sum;
    uint32_t prefix, rest, bytes = 0;
    if (!parquet_delta_of(&prefixes, at, end, c->page.unpacked, c->page.values) ||
        !parquet_delta_pass(prefixes, &at, &sum) ||
        !parquet_delta_of(&lengths, at, end, c->page.unpacked, c->page.values) ||
        !parquet_delta_pass(lengths, &at, &sum))
        return false;
    for (uint32_t i = 0; i <= c->at; i++) {
        if (!parquet_delta_next(&prefixes, &prefix) || !parquet_delta_next(&lengths, &rest) ||
            prefix > bytes || rest > (uint64_t)(end - at) || rest > c->page.unpacked - prefix)
            return false;
        memcpy(p->joined + prefix, at, rest);
        at += rest;
        bytes = prefix + rest;
    }
    return bytes == c->bytes;
}

status parquet_cell_read(const data_file *f, const parquet_cell *c, void *scratch,
                         const unsigned char **bytes) {
    document_room room = { .base = scratch, .bytes = parquet_cell_scratch(c) };
    *bytes = scratch;
    if (alone(c)) return format_pread(f, c->page.start + c->at, scratch, c->bytes);
    parts p = lay_out(c, &room);
    TRY(unpack_page(f, c, &p));
    *bytes = c->page.joined ? p.joined : p.unpacked + c->at;
    if (c->page.joined && !join(c, &p)) return wrong(f, c, "the lengths of its strings are damaged");
    return STATUS_OK;
}
