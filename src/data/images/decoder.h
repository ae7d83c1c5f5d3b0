/* What the decoders have in common: memory that was planned, the file, and where lines go. */
#pragma once

#include <setjmp.h>
#include <stddef.h>

#include "data/images/decode.h"

enum { DECODER_ALIGNMENT = 64, DECODER_INPUT = 16 << 10 };

/* Blocks are taken one behind the other; only the last one can be given back. */
typedef struct {
    char *base;
    size_t bytes, used, last;
} decoder_arena;

void *decode_take(decoder_arena *a, size_t bytes); /* NULL: there is no more */
void decode_give_back(decoder_arena *a, void *block);

/* Lies in the memory of a request; the decoders' errors jump to `failed`, with a clause in `what`. */
typedef struct {
    const decode_request *request;
    decoder_arena arena;
    resample *resample;
    float *out;
    uint32_t denominator; /* lines come at this part of the picture's size */
    int file;             /* where the request has no bytes */
    uint64_t at;          /* in these */
    bool truncated, lacks_memory;
    jmp_buf failed;
    char what[160];
    uint8_t *line; /* one line as the decoder writes it: 4 bytes a pixel */
    _Alignas(64) uint8_t input[DECODER_INPUT];
} decoder;

/* Reads some bytes of the file; 0: it ends, and `truncated` is set. */
size_t decode_read(decoder *d, void *to, size_t bytes);
/* Begins to resample lines of this size. False: there is no memory. */
bool decode_begin(decoder *d, uint32_t width, uint32_t height);
/* Line y, of three bytes a pixel, or four of CMYK. False: no more lines are wanted. */
bool decode_line(decoder *d, uint32_t y, uint8_t *line, uint32_t bytes_a_pixel);

/* One kind of file: what its library takes beside the lines and the resampling, and how it decodes: false,
 * and `what` says why. */
typedef struct {
    uint64_t (*need)(const image_header *h);
    bool (*decode)(decoder *d);
    const char *library, *package; /* that was not there; NULL: it was */
} decoder_kind;

extern const decoder_kind decoder_jpeg, decoder_png;
