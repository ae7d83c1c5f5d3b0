#include "data/images/image_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"

/* ---- bytes of the file ---- */

typedef struct {
    int file;
    const uint8_t *bytes; /* in its place; NULL: of the file */
    uint64_t count;
    const char *path;
    uint64_t at;
} reader;

static status cut_off(const reader *r) {
    return status_set(STATUS_INVALID, "%s is truncated: it ends within its header", r->path);
}

/* Some bytes from `at` on; 0: there are no more. */
static ssize_t read_some(const reader *r, void *to, size_t count, uint64_t at) {
    if (!r->bytes) return pread(r->file, to, count, (off_t)at);
    if (at >= r->count) return 0;
    size_t some = r->count - at < count ? (size_t)(r->count - at) : count;
    memcpy(to, r->bytes + at, some);
    return (ssize_t)some;
}

static status take(reader *r, void *to, size_t count) {
    size_t done = 0;
    while (done < count) {
        ssize_t n = read_some(r, (char *)to + done, count - done, r->at + done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return status_set(STATUS_INVALID, "cannot read %s: %s", r->path, strerror(errno));
        if (n == 0) return cut_off(r);
        done += (size_t)n;
    }
    r->at += count;
    return STATUS_OK;
}

static uint32_t two(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }
static uint32_t four(const uint8_t *p) { return two(p) << 16 | two(p + 2); }

/* ---- PNG ---- */

static status look_png(reader *r, image_header *h) {
    uint8_t begin[8], body[13];
    TRY(take(r, begin, sizeof begin));
    if (four(begin) != 13 || memcmp(begin + 4, "IHDR", 4) != 0)
        return status_set(STATUS_INVALID, "%s is damaged: a PNG file begins with IHDR", r->path);
    TRY(take(r, body, sizeof body));
    *h = (image_header){ .kind = IMAGE_PNG, .width = four(body), .height = four(body + 4), .components = 3 };
    h->whole = body[12] != 0;
    r->at += 4;
    for (;;) {
        TRY(take(r, begin, sizeof begin));
        if (memcmp(begin + 4, "IDAT", 4) == 0) return STATUS_OK;
        if (memcmp(begin + 4, "acTL", 4) == 0)
            return status_set(STATUS_INVALID, "%s is animated (APNG); a sample is one picture", r->path);
        if (memcmp(begin + 4, "IEND", 4) == 0 || four(begin) > INT32_MAX)
            return status_set(STATUS_INVALID, "%s is damaged: it has no lines (IDAT)", r->path);
        r->at += (uint64_t)four(begin) + 4;
    }
}

/* ---- JPEG ---- */

static bool begins_frame(uint8_t marker) {
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

static status read_frame(reader *r, uint8_t marker, image_header *h) {
    uint8_t body[6], part[3];
    TRY(take(r, body, sizeof body));
    *h = (image_header){ .kind = IMAGE_JPEG, .width = two(body + 3), .height = two(body + 1) };
    h->components = body[5];
    if (body[0] != 8)
        return status_set(STATUS_INVALID, "%s is a JPEG of %u bits; those of 8 bits are read", r->path,
                          body[0]);
    if (h->components != 1 && h->components != 3 && h->components != 4)
        return status_set(STATUS_INVALID, "%s has %u colours; JPEG has 1, 3 or 4 of them", r->path,
                          h->components);
    if (marker != 0xc0 && marker != 0xc1 && marker != 0xc2)
        return status_set(STATUS_INVALID,
                          "%s is a JPEG of a rare kind (lossless, arithmetic or hierarchical); baseline and "
                          "progressive ones are read",
                          r->path);
    h->whole = marker == 0xc2;
    for (uint32_t i = 0; i < h->components; i++) {
        TRY(take(r, part, sizeof part));
        h->across[i] = part[1] >> 4, h->down[i] = part[1] & 15;
        if (h->across[i] < 1 || h->across[i] > 4 || h->down[i] < 1 || h->down[i] > 4)
            return status_set(STATUS_INVALID, "%s is damaged: its sampling factors are impossible", r->path);
        if (h->across[i] > h->most_across) h->most_across = h->across[i];
        if (h->down[i] > h->most_down) h->most_down = h->down[i];
    }
    return STATUS_OK;
}

/* A baseline JPEG may hold its colours in scans of their own: then it is read as a whole as well. */
static status look_at_scan(reader *r, image_header *h) {
    uint8_t count;
    r->at += 2;
    TRY(take(r, &count, 1));
    if (count < h->components) h->whole = true;
    return STATUS_OK;
}

static status look_jpeg(reader *r, image_header *h) {
    uint8_t mark[2], length[2];
    bool framed = false;
    r->at -= 6; /* behind the first two bytes */
    for (;;) {
        TRY(take(r, mark, sizeof mark));
        if (mark[0] != 0xff)
            return status_set(STATUS_INVALID, "%s is damaged: a marker of its header is missing", r->path);
        if (mark[1] == 0xff) { /* fills */
            r->at--;
            continue;
        }
        if (mark[1] == 0x01 || (mark[1] >= 0xd0 && mark[1] <= 0xd8)) continue;
        if (mark[1] == 0xd9 || (mark[1] == 0xda && !framed))
            return status_set(STATUS_INVALID, "%s is damaged: a JPEG file without a frame", r->path);
        if (mark[1] == 0xda) return look_at_scan(r, h);
        TRY(take(r, length, sizeof length));
        uint64_t next = r->at + two(length) - 2;
        if (two(length) < 2)
            return status_set(STATUS_INVALID, "%s is damaged: a part of its header has no length", r->path);
        if (begins_frame(mark[1])) TRY(read_frame(r, mark[1], h));
        framed |= begins_frame(mark[1]);
        r->at = next;
    }
}

/* ---- either ---- */

uint64_t image_file_whole(const image_header *h) {
    uint64_t bytes = 0;
    if (!h->whole) return 0;
    if (h->kind == IMAGE_PNG) return (uint64_t)h->width * h->height * 3;
    for (uint32_t i = 0; i < h->components; i++) { /* coefficients of 16 bits, in blocks of 8 x 8 */
        uint64_t units_across = (h->width + 8 * h->most_across - 1) / (8 * h->most_across),
                 units_down = (h->height + 8 * h->most_down - 1) / (8 * h->most_down);
        bytes += units_across * h->across[i] * units_down * h->down[i] * 128;
    }
    return bytes;
}

static status check_size(const char *path, const image_header *h) {
    char whole[UNITS_TEXT_BYTES], most[UNITS_TEXT_BYTES];
    if (!h->width || !h->height)
        return status_set(STATUS_INVALID, "%s is damaged: a picture of %u x %u", path, h->width, h->height);
    if (h->width > IMAGE_MOST_SIDE || h->height > IMAGE_MOST_SIDE)
        return status_set(STATUS_INVALID, "%s is %u x %u; a side may have %d pixels", path, h->width,
                          h->height, IMAGE_MOST_SIDE);
    if (image_file_whole(h) <= IMAGE_MOST_WHOLE) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s is %s of %u x %u, which is decoded as a whole: that takes %s, and %s may be "
                      "taken; save it without that",
                      path, h->kind == IMAGE_PNG ? "an interlaced PNG" : "a progressive JPEG", h->width,
                      h->height, units_bytes_text(image_file_whole(h), whole),
                      units_bytes_text(IMAGE_MOST_WHOLE, most));
}

static status look(reader *r, image_header *h) {
    static const uint8_t png[8] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' };
    uint8_t begin[8];
    ssize_t got = read_some(r, begin, sizeof begin, 0);
    if (got < 0) return status_set(STATUS_INVALID, "cannot read %s: %s", r->path, strerror(errno));
    if (got == 0) return status_set(STATUS_INVALID, "%s is empty", r->path);
    r->at = sizeof begin;
    if (got >= 3 && begin[0] == 0xff && begin[1] == 0xd8 && begin[2] == 0xff) {
        TRY(look_jpeg(r, h));
    } else if (got == sizeof begin && memcmp(begin, png, sizeof png) == 0) {
        TRY(look_png(r, h));
    } else {
        return status_set(STATUS_INVALID, "%s is neither JPEG nor PNG, which pictures are read from",
                          r->path);
    }
    return check_size(r->path, h);
}

status image_file_look(const char *path, image_header *h) {
    reader r = { .file = open(path, O_RDONLY | O_CLOEXEC), .path = path };
    if (r.file < 0) return status_set(STATUS_INVALID, "cannot open %s: %s", path, strerror(errno));
    *h = (image_header){ 0 };
    status result = look(&r, h);
    close(r.file);
    return result;
}

status image_file_look_at(const char *name, const uint8_t *bytes, uint64_t count, image_header *h) {
    reader r = { .file = -1, .bytes = bytes, .count = count, .path = name };
    *h = (image_header){ 0 };
    return look(&r, h);
}
