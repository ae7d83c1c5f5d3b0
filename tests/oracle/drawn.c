#include "oracle/drawn.h"

#if DRAWN
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jpeglib.h>
#include <png.h>

static FILE *open_file(const char *path) {
    FILE *file = fopen(path, "wb");
    if (!file) abort();
    return file;
}

static const struct {
    int type;
    uint32_t channels;
} kinds[] = { [DRAWN_GREY] = { PNG_COLOR_TYPE_GRAY, 1 },
              [DRAWN_RGB] = { PNG_COLOR_TYPE_RGB, 3 },
              [DRAWN_PALETTE] = { PNG_COLOR_TYPE_PALETTE, 1 },
              [DRAWN_GREY_ALPHA] = { PNG_COLOR_TYPE_GRAY_ALPHA, 2 },
              [DRAWN_RGBA] = { PNG_COLOR_TYPE_RGB_ALPHA, 4 } };

static void put_palette(png_structp png, png_infop info) {
    png_color colours[256];
    for (int i = 0; i < 256; i++)
        colours[i] = (png_color){ (png_byte)i, (png_byte)(255 - i), (png_byte)(i / 2) };
    png_set_PLTE(png, info, colours, 256);
}

/* Of 16 bits the low byte is the colour again: 257 x. */
static void fill_line(const drawn *d, uint32_t y, uint8_t *line) {
    uint32_t channels = kinds[d->colours].channels, bytes = d->bits == 16 ? 2 : 1;
    for (uint32_t x = 0; x < d->width; x++)
        for (uint32_t c = 0; c < channels; c++)
            for (uint32_t b = 0; b < bytes; b++) line[(x * channels + c) * bytes + b] = d->pixel(x, y, c);
}

void drawn_png(const char *path, const drawn *d) {
    FILE *file = open_file(path);
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    uint8_t *line = calloc(d->width, 8);
    if (!line || setjmp(png_jmpbuf(png))) abort();
    png_init_io(png, file);
    png_set_IHDR(png, info, d->width, d->height, d->bits ? (int)d->bits : 8, kinds[d->colours].type,
                 d->whole ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (d->colours == DRAWN_PALETTE) put_palette(png, info);
    png_write_info(png, info);
    for (int pass = png_set_interlace_handling(png); pass > 0; pass--)
        for (uint32_t y = 0; y < d->height; y++) {
            fill_line(d, y, line);
            png_write_row(png, line);
        }
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(line);
    fclose(file);
}

void drawn_jpeg(const char *path, const drawn *d) {
    struct jpeg_compress_struct i;
    struct jpeg_error_mgr error;
    FILE *file = open_file(path);
    uint32_t channels = d->inks ? 4 : d->colours == DRAWN_GREY ? 1 : 3;
    uint8_t *line = calloc(d->width, channels);
    if (!line) abort();
    i.err = jpeg_std_error(&error);
    jpeg_create_compress(&i);
    jpeg_stdio_dest(&i, file);
    i.image_width = d->width, i.image_height = d->height, i.input_components = (int)channels;
    i.in_color_space = d->inks ? JCS_CMYK : channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&i);
    jpeg_set_quality(&i, d->quality ? d->quality : 90, TRUE);
    if (d->whole) jpeg_simple_progression(&i);
    jpeg_start_compress(&i, TRUE);
    for (uint32_t y = 0; y < d->height; y++) {
        for (uint32_t k = 0; k < d->width * channels; k++) line[k] = d->pixel(k / channels, y, k % channels);
        jpeg_write_scanlines(&i, &line, 1);
    }
    jpeg_finish_compress(&i);
    jpeg_destroy_compress(&i);
    free(line);
    fclose(file);
}

/* ---- classes ---- */

static uint32_t number, size; /* of the picture that is drawn */

static uint32_t mixed(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

static uint8_t ground(uint32_t x, uint32_t y, uint32_t c) {
    return (uint8_t)(mixed(number * 3 + c) % 100 + mixed(x * 977 + y * 131 + c + number) % 40);
}

static uint8_t round_one(uint32_t x, uint32_t y, uint32_t c) {
    int dx = (int)x - (int)size / 2, dy = (int)y - (int)size / 2, r = (int)size / 3;
    return (uint8_t)(ground(x, y, c) + (dx * dx + dy * dy < r * r ? 110 : 0));
}

static uint8_t striped(uint32_t x, uint32_t y, uint32_t c) {
    return (uint8_t)(ground(x, y, c) + (x * 8 / size % 2 ? 110 : 0));
}

void drawn_classes(const char *folder, uint32_t each, uint32_t side) {
    static const struct {
        const char *name;
        drawn_pixel *pixel;
    } classes[] = { { "plain", ground }, { "round", round_one }, { "striped", striped } };
    char path[256];
    mkdir(folder, 0777);
    for (uint32_t c = 0; c < 3; c++) {
        snprintf(path, sizeof path, "%s/%s", folder, classes[c].name);
        mkdir(path, 0777);
        for (uint32_t i = 0; i < each; i++) {
            number = i * 3 + c, size = side + mixed(number) % side;
            drawn d = { .width = size, .height = size, .pixel = classes[c].pixel, .colours = DRAWN_RGB };
            snprintf(path, sizeof path, "%s/%s/%03u.%s", folder, classes[c].name, i, i % 2 ? "jpg" : "png");
            i % 2 ? drawn_jpeg(path, &d) : drawn_png(path, &d);
        }
    }
}

#else
typedef int drawn_nothing; /* a file of C has something in it */
#endif
