/* A picture made smaller or larger, line after line while it is decoded, so that the size of the source costs
 * no memory: each line is resampled across, and added to the lines of the result that it takes part in.
 *
 * The filters are Pillow's, widened where the result is smaller (antialiased). The sums are f32 in the order
 * of the lines and then of the pixels; at the end a pixel is a whole number from 0 to 255, as in a picture of
 * 8 bits. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Pillow's numbers. */
typedef enum {
    RESAMPLE_NEAREST,
    RESAMPLE_LANCZOS,
    RESAMPLE_BILINEAR,
    RESAMPLE_BICUBIC,
    RESAMPLE_BOX,
    RESAMPLE_HAMMING,
    RESAMPLE_FILTERS
} resample_filter;

typedef struct {
    uint32_t width, height;               /* of the source, as its lines come */
    double left, top, right, bottom;      /* the part of it that is taken, in its pixels */
    uint32_t to_width, to_height;         /* what that part becomes ... */
    uint32_t x, y, out_width, out_height; /* ... and of that the window that is wanted */
    uint32_t channels;                    /* 3, or 1 */
    bool mirrored;                        /* left and right of the window are swapped */
    resample_filter filter;
} resample_options;

typedef struct resample resample;

/* Bytes for any options with this window and filter whose to_width is at least `least_width` and whose source
 * is `most_width` wide at most. */
uint64_t resample_bytes(const resample_options *o, uint32_t most_width, uint32_t least_width);

/* In `memory`, resample_bytes of them aligned to 64. `out` gets out_height x out_width x channels numbers. */
resample *resample_open(const resample_options *o, void *memory, float *out);

/* Is line `y` the last that is wanted, or behind it? */
bool resample_done(const resample *r, uint32_t y);
/* Line `y` of the source, width x channels bytes; lines come in their order. */
void resample_line(resample *r, uint32_t y, const uint8_t *line);
void resample_finish(resample *r); /* rounds */
