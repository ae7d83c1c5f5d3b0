#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "data/images/decoder.h"

static const decoder_kind *kind_of(image_kind kind) {
    return kind == IMAGE_PNG ? &decoder_png : &decoder_jpeg;
}

status decode_there(image_kind kind) {
    const decoder_kind *k = kind_of(kind);
    if (!k->library) return STATUS_OK;
    return status_set(STATUS_INVALID, "this program was built without %s; install %s and build it again",
                      k->library, k->package);
}

/* ---- memory ---- */

void *decode_take(decoder_arena *a, size_t bytes) {
    size_t whole = (size_t)units_align(bytes ? bytes : 1, DECODER_ALIGNMENT);
    if (bytes > a->bytes || whole > a->bytes - a->used) return NULL;
    a->last = a->used, a->used += whole;
    return a->base + a->last;
}

void decode_give_back(decoder_arena *a, void *block) {
    if (block && block == a->base + a->last) a->used = a->last;
}

uint64_t decode_bytes(const image_header *h, const resample_options *o, uint32_t least_width) {
    return units_align(sizeof(decoder), DECODER_ALIGNMENT) +
           units_align((uint64_t)h->width * 4, DECODER_ALIGNMENT) +
           units_align(resample_bytes(o, h->width, least_width), DECODER_ALIGNMENT) +
           units_align(kind_of(h->kind)->need(h), DECODER_ALIGNMENT);
}

/* ---- lines ---- */

static size_t copy_some(decoder *d, void *to, size_t bytes) {
    uint64_t left = d->request->byte_count - d->at;
    size_t some = left < bytes ? (size_t)left : bytes;
    memcpy(to, d->request->bytes + d->at, some);
    d->at += some;
    if (!some) d->truncated = true;
    return some;
}

size_t decode_read(decoder *d, void *to, size_t bytes) {
    ssize_t got;
    if (d->request->bytes) return copy_some(d, to, bytes);
    do got = read(d->file, to, bytes);
    while (got < 0 && errno == EINTR);
    if (got <= 0) d->truncated = true;
    return got > 0 ? (size_t)got : 0;
}

bool decode_begin(decoder *d, uint32_t width, uint32_t height) {
    resample_options o = d->request->resample;
    double part = 1.0 / d->denominator;
    o.width = width, o.height = height;
    o.left *= part, o.right *= part, o.top *= part, o.bottom *= part;
    if (o.right > width) o.right = width;
    if (o.bottom > height) o.bottom = height;
    void *room = decode_take(&d->arena, (size_t)resample_bytes(&o, width, o.to_width));
    if (!room) return false;
    d->resample = resample_open(&o, room, d->out);
    return true;
}

/* x y / 255, rounded. */
static uint8_t multiply(uint32_t x, uint32_t y) {
    uint32_t product = x * y + 128;
    return (uint8_t)((product + (product >> 8)) >> 8);
}

/* Adobe's inks are inverted: 255 is none. */
static void without_black(uint8_t *line, uint32_t width) {
    for (uint32_t x = 0; x < width; x++)
        for (uint32_t c = 0; c < 3; c++) line[3 * x + c] = multiply(line[4 * x + c], line[4 * x + 3]);
}

/* ITU-R 601-2, as Pillow has it. */
static void to_grey(uint8_t *line, uint32_t width) {
    for (uint32_t x = 0; x < width; x++) {
        const uint8_t *p = line + 3 * (size_t)x;
        line[x] = (uint8_t)((p[0] * 19595u + p[1] * 38470u + p[2] * 7471u + 0x8000u) >> 16);
    }
}

bool decode_line(decoder *d, uint32_t y, uint8_t *line, uint32_t bytes_a_pixel) {
    uint32_t width = (d->request->header.width + d->denominator - 1) / d->denominator;
    if (bytes_a_pixel == 4) without_black(line, width);
    if (d->request->resample.channels == 1) to_grey(line, width);
    resample_line(d->resample, y, line);
    return !resample_done(d->resample, y);
}

/* ---- a picture ---- */

/* At this part of its size a JPEG still has twice the pixels that are wanted, each way. */
static uint32_t denominator_of(const decode_request *r) {
    const resample_options *o = &r->resample;
    double across = (o->right - o->left) / o->to_width, down = (o->bottom - o->top) / o->to_height,
           least = across < down ? across : down;
    if (r->header.kind != IMAGE_JPEG) return 1;
    return least >= 16 ? 8 : least >= 8 ? 4 : least >= 4 ? 2 : 1;
}

static status wrong(const decoder *d) {
    const char *path = d->request->path;
    if (d->lacks_memory)
        return status_set(STATUS_INVALID,
                          "%s is damaged: its decoder asks for more memory than its header says", path);
    if (d->truncated) return status_set(STATUS_INVALID, "%s is truncated: it ends within the picture", path);
    return status_set(STATUS_INVALID, "%s is damaged: %s", path, d->what);
}

status decode_picture(const decode_request *r, void *memory, uint64_t bytes, float *out) {
    const decoder_kind *kind = kind_of(r->header.kind);
    size_t own = (size_t)units_align(sizeof(decoder), DECODER_ALIGNMENT);
    decoder *d = memory;
    TRY(decode_there(r->header.kind));
    memset(d, 0, offsetof(decoder, input));
    d->request = r, d->out = out, d->denominator = denominator_of(r);
    d->arena = (decoder_arena){ .base = (char *)memory + own, .bytes = (size_t)bytes - own };
    d->line = decode_take(&d->arena, (size_t)r->header.width * 4);
    d->file = r->bytes ? -1 : open(r->path, O_RDONLY | O_CLOEXEC);
    if (!r->bytes && d->file < 0)
        return status_set(STATUS_INVALID, "cannot open %s: %s", r->path, strerror(errno));
    status result = d->line && kind->decode(d) ? STATUS_OK : wrong(d);
    if (result == STATUS_OK) resample_finish(d->resample);
    if (d->file >= 0) close(d->file);
    return result;
}
