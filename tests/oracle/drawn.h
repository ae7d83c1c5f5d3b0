/* Pictures for tests, drawn and written by libpng and libjpeg: nothing binary is kept. Where the libraries
 * are not there nothing can be drawn, and tests of pictures are passed over. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#if defined(SNUG_PNG) && defined(SNUG_JPEG)
#define DRAWN 1
#else
#define DRAWN 0
#endif

/* The colour c of the pixel (x,y), from 0 to 255. */
typedef uint8_t drawn_pixel(uint32_t x, uint32_t y, uint32_t c);

typedef enum { DRAWN_GREY, DRAWN_RGB, DRAWN_PALETTE, DRAWN_GREY_ALPHA, DRAWN_RGBA } drawn_colours;

typedef struct {
    uint32_t width, height;
    drawn_pixel *pixel; /* of a palette: colour 0 is the entry, which is the colour (i, 255-i, i/2) */
    drawn_colours colours;
    uint32_t bits; /* of PNG: 8 or 16; 0: 8 */
    bool whole;    /* interlaced, progressive */
    bool inks;     /* of JPEG: CMYK, of which colour 3 is black; inverted, as Adobe has it */
    int quality;   /* of JPEG; 0: 90 */
} drawn;

void drawn_png(const char *path, const drawn *d);
void drawn_jpeg(const char *path, const drawn *d);

/* Folders data/round, data/striped and data/plain with `each` small pictures, every second one a JPEG. */
void drawn_classes(const char *folder, uint32_t each, uint32_t side);
