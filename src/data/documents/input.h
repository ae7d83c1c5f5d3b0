/* The bytes of a file, unpacked where they are packed, through a buffer of a fixed size.
 *
 * What is there lies at buffer[at .. end); a reader takes from the front by moving `at`. Nothing is mapped,
 * and a file that is written to in the meantime is refused by its stamp (data/formats/format.h). */
#pragma once

#include <stdbool.h>

#include "data/documents/room.h"
#include "data/documents/unpack.h"
#include "data/formats/format.h"

enum { INPUT_PACKED = 64 << 10 }; /* bytes of a packed file that are read at once */

typedef struct {
    const data_file *file;
    const unpacker *unpack; /* NULL: the file is not packed */
    uint64_t window;        /* for the unpacker */
    void *unpacking;        /* its room */
    unsigned char *packed;  /* INPUT_PACKED */
    uint32_t packed_at, packed_end;
    uint64_t next;   /* offset in the file of what is read next */
    uint64_t offset; /* of buffer[0] in the unpacked bytes */
    bool between;    /* the packed bytes may end here */
    char *buffer;
    uint32_t at, end, capacity; /* capacity: at least INPUT_LEAST */
} input;

enum { INPUT_LEAST = 64 };

/* Takes what it needs from the room: file, unpack, window and capacity are set before. */
void input_lay_out(input *in, document_room *room);

/* Begins at this offset of the unpacked bytes; of a packed file what stands before is unpacked again. An
 * offset beyond the end is STATUS_INVALID. */
status input_seek(input *in, uint64_t offset);

/* So many bytes (at most INPUT_LEAST) are there, unless the bytes end before. */
status input_more(input *in, uint32_t wanted);
static inline status input_ahead(input *in, uint32_t wanted) {
    return in->end - in->at >= wanted ? STATUS_OK : input_more(in, wanted);
}

/* The next byte, which stays; -1: the end. */
static inline status input_peek(input *in, int *c) {
    TRY(input_ahead(in, 1));
    *c = in->at < in->end ? (unsigned char)in->buffer[in->at] : -1;
    return STATUS_OK;
}

static inline uint64_t input_place(const input *in) { return in->offset + in->at; }
