/* A JPEG or PNG picture of a file, or in memory, as numbers: a part of it, resampled, in memory whose size is
 * known before.
 *
 * Lines are resampled as they come, so a large picture takes no more than some lines, unless its file holds
 * it in passes (image_header.whole). A JPEG that is much larger than what is wanted is decoded at a half, a
 * quarter or an eighth, which its format allows for. A decoder that was not there when the program was built
 * is left out, and refuses with a sentence.
 *
 * What is not red, green and blue becomes so: grey is repeated, a palette looked up, 16 bits become 8, alpha
 * is left out (as Pillow does), CMYK is what Adobe's programs mean by it. Orientation that a camera noted is
 * not looked at.
 *
 * All of this runs on the small stacks of the loader's threads. */
#pragma once

#include "data/images/image_file.h"
#include "data/images/resample.h"

typedef struct {
    const char *path;     /* with `bytes` only for sentences */
    const uint8_t *bytes; /* what such a file would hold; NULL: the file is read */
    uint64_t byte_count;
    image_header header; /* of that file, as image_file_look says it now */
    /* What becomes of it, in pixels of the picture: left, top, right and bottom, to_width, to_height, the
     * window, mirrored and filter; channels 3, or 1: grey. The rest is decided here. */
    resample_options resample;
} decode_request;

/* Bytes for any part of such a picture of which to_width is at least `least_width`. */
uint64_t decode_bytes(const image_header *h, const resample_options *o, uint32_t least_width);

/* `memory`: decode_bytes, aligned to 64. `out`: out_height x out_width x channels numbers from 0 to 255.
 * STATUS_INVALID, with the path, for what is damaged. */
status decode_picture(const decode_request *r, void *memory, uint64_t bytes, float *out);

/* STATUS_INVALID where this kind's decoder was left out. */
status decode_there(image_kind kind);
