/* PNG, by libpng, whose memory is the planned one. Chunks beside the picture (texts, profiles of colours) are
 * passed over. */
#include <stdio.h>
#include <string.h>

#include "data/images/decoder.h"

#ifdef SNUG_PNG
#include <png.h>

/* zlib's window and state, libpng's, and buffers of 8 KiB. */
enum { FIXED = 192 << 10, MOST_PIXEL = 8, CHANNELS = 3 };

static void fail(png_structp png, png_const_charp message) {
    decoder *d = png_get_error_ptr(png);
    snprintf(d->what, sizeof d->what, "%.150s", message);
    longjmp(d->failed, 1);
}

static void say_nothing(png_structp png, png_const_charp message) { (void)png, (void)message; }

static void *take(png_structp png, png_alloc_size_t bytes) {
    decoder *d = png_get_mem_ptr(png);
    void *block = decode_take(&d->arena, bytes);
    if (!block) d->lacks_memory = true;
    return block;
}

static void give_back(png_structp png, void *block) {
    decoder *d = png_get_mem_ptr(png);
    decode_give_back(&d->arena, block);
}

/* Through the buffer: libpng asks for few bytes at a time. */
typedef struct {
    decoder *decoder;
    size_t at, filled;
} input;

static void read_some(png_structp png, png_bytep to, size_t bytes) {
    input *in = png_get_io_ptr(png);
    while (bytes) {
        if (in->at == in->filled) {
            in->at = 0, in->filled = decode_read(in->decoder, in->decoder->input, DECODER_INPUT);
            if (!in->filled) png_error(png, "it ends");
        }
        size_t some = in->filled - in->at < bytes ? in->filled - in->at : bytes;
        memcpy(to, in->decoder->input + in->at, some);
        in->at += some, to += some, bytes -= some;
    }
}

static void read_passes(decoder *d, png_structp png, int passes) {
    const image_header *h = &d->request->header;
    size_t each = (size_t)h->width * CHANNELS;
    uint8_t *whole = decode_take(&d->arena, each * h->height);
    if (!whole) {
        d->lacks_memory = true;
        png_error(png, "no memory");
    }
    for (int pass = 0; pass < passes; pass++)
        for (uint32_t y = 0; y < h->height; y++) png_read_row(png, whole + y * each, NULL);
    for (uint32_t y = 0; y < h->height; y++)
        if (!decode_line(d, y, whole + y * each, CHANNELS)) break;
}

static void read_lines(decoder *d, png_structp png) {
    for (uint32_t y = 0; y < d->request->header.height; y++) {
        png_read_row(png, d->line, NULL);
        if (!decode_line(d, y, d->line, CHANNELS)) return;
    }
    png_read_end(png, NULL);
}

static void decode_lines(decoder *d, png_structp png, png_infop info) {
    const image_header *h = &d->request->header;
    png_read_info(png, info);
    if (png_get_image_width(png, info) != h->width || png_get_image_height(png, info) != h->height)
        png_error(png, "its size is said twice, and differs");
    png_set_scale_16(png);
    png_set_expand(png);
    png_set_gray_to_rgb(png);
    png_set_strip_alpha(png);
    int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) != (size_t)h->width * CHANNELS) png_error(png, "its lines have no size");
    if (!decode_begin(d, h->width, h->height)) {
        d->lacks_memory = true;
        png_error(png, "no memory");
    }
    if (passes > 1)
        read_passes(d, png, passes);
    else
        read_lines(d, png);
}

static bool decode(decoder *d) {
    input in = { .decoder = d };
    png_structp png =
        png_create_read_struct_2(PNG_LIBPNG_VER_STRING, d, fail, say_nothing, d, take, give_back);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info) {
        d->lacks_memory = true;
        return false;
    }
    png_set_read_fn(png, &in, read_some);
    png_set_user_limits(png, IMAGE_MOST_SIDE, IMAGE_MOST_SIDE);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    /* All memory is the arena's, so there is nothing to give back after the jump. */
    if (setjmp(d->failed)) return false;
    decode_lines(d, png, info);
    return true;
}

static uint64_t need(const image_header *h) {
    return FIXED + 3 * (uint64_t)(h->width + 128) * MOST_PIXEL + (h->whole ? image_file_whole(h) : 0);
}

const decoder_kind decoder_png = { .need = need, .decode = decode };

#else

static uint64_t need(const image_header *h) {
    (void)h;
    return 0;
}
static bool decode(decoder *d) {
    (void)d;
    return false;
}
const decoder_kind decoder_png = {
    .need = need, .decode = decode, .library = "libpng", .package = "libpng-dev"
};

#endif
