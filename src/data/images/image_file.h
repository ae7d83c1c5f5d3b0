/* What the first bytes of a picture say, in a file of its own or in memory: JPEG or PNG, and how large.
 * Nothing is decoded, and no library is asked, so a walk over many files is quick and knows what decoding
 * them will take.
 *
 * Sentences begin with the path, or with what is said in its place. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum {
    IMAGE_MOST_SIDE = 16384,
    IMAGE_MOST_WHOLE = 256 << 20 /* bytes of a picture that is decoded as a whole: progressive, interlaced */
};

typedef enum { IMAGE_JPEG, IMAGE_PNG } image_kind;

typedef struct {
    image_kind kind;
    uint32_t width, height;
    uint32_t components;         /* of JPEG: 1, 3, or 4 of CMYK */
    uint32_t across[4], down[4]; /* of JPEG: sampling factors */
    uint32_t most_across, most_down;
    bool whole; /* progressive or interlaced: no line is ready before all of the file is read */
} image_header;

/* STATUS_INVALID: the file can't be opened, is neither, is animated, is damaged before its lines begin, or is
 * larger than the limits. */
status image_file_look(const char *path, image_header *h);
/* The same of bytes in memory, whose file would hold nothing else; `name` is for sentences. */
status image_file_look_at(const char *name, const uint8_t *bytes, uint64_t count, image_header *h);

/* Bytes that hold the picture as a whole, where it is such; else 0. */
uint64_t image_file_whole(const image_header *h);
