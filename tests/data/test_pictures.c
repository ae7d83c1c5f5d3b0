/* Pictures as samples: what is decoded, how it is resized, who is refused, and that workers change nothing.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/images/pictures.h"
#include "data/loader.h"
#include "io/scratch.h"
#include "oracle/drawn.h"
#include "oracle/extracted.h"

#if DRAWN

/* ---- what is drawn ---- */

static uint8_t noise(uint32_t x, uint32_t y, uint32_t c) {
    return (uint8_t)((x * 73u + y * 151u + c * 199u) * 2654435761u >> 21);
}

static uint8_t slope(uint32_t x, uint32_t y, uint32_t c) {
    return (uint8_t)(c == 0 ? x % 256 : c == 1 ? y % 256 : (x + y) / 2 % 256);
}

static uint8_t smooth(uint32_t x, uint32_t y, uint32_t c) {
    return (uint8_t)(128 + 100 * sin(x * 0.02 + c) * cos(y * 0.015));
}

/* Decodes it as `o` says; without to_width in its own size. */
static float *decoded(const char *path, resample_options o) {
    decode_request r = { .path = path };
    if (image_file_look(path, &r.header) != STATUS_OK) fail_msg("%s", status_message());
    if (o.right <= 0) o.right = r.header.width, o.bottom = r.header.height;
    if (!o.to_width) o.to_width = r.header.width, o.to_height = r.header.height;
    if (!o.out_width) o.out_width = o.to_width, o.out_height = o.to_height;
    if (!o.channels) o.channels = 3;
    r.resample = o;
    uint64_t bytes = decode_bytes(&r.header, &o, o.to_width);
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    float *out = malloc(sizeof *out * o.out_width * o.out_height * o.channels);
    if (decode_picture(&r, memory, bytes, out) != STATUS_OK) fail_msg("%s", status_message());
    free(memory);
    return out;
}

static void same_pixels(const char *path, const drawn *d, drawn_pixel *expected) {
    float *x = decoded(path, (resample_options){ .filter = RESAMPLE_BILINEAR });
    for (uint32_t i = 0; i < d->width * d->height * 3; i++) {
        uint8_t should = expected(i / 3 % d->width, i / 3 / d->width, i % 3);
        if (x[i] != (float)should)
            fail_msg("%s: number %u is %g, drawn was %u", path, i, (double)x[i], should);
    }
    free(x);
}

static uint8_t noise_grey(uint32_t x, uint32_t y, uint32_t c) {
    (void)c;
    return noise(x, y, 0);
}

static uint8_t noise_palette(uint32_t x, uint32_t y, uint32_t c) {
    uint8_t i = noise(x, y, 0);
    return c == 0 ? i : c == 1 ? (uint8_t)(255 - i) : i / 2;
}

/* Every kind of PNG is what was drawn, to the bit; alpha is left out. */
static void png_is_exact(void **state) {
    (void)state;
    static const struct {
        drawn_colours colours;
        drawn_pixel *expected;
    } kinds[] = { { DRAWN_GREY, noise_grey },
                  { DRAWN_RGB, noise },
                  { DRAWN_PALETTE, noise_palette },
                  { DRAWN_GREY_ALPHA, noise_grey },
                  { DRAWN_RGBA, noise } };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (uint32_t bits = 8; bits <= 16; bits += 8)
            for (int whole = 0; whole < 2; whole++) {
                drawn d = { 37, 23, noise, kinds[k].colours, bits, whole, false, 0 };
                if (bits == 16 && d.colours == DRAWN_PALETTE) continue;
                drawn_png("one.png", &d);
                same_pixels("one.png", &d, kinds[k].expected);
            }
}

static void near_pixels(const char *path, const drawn *d, drawn_pixel *expected, double most) {
    float *x = decoded(path, (resample_options){ .filter = RESAMPLE_BILINEAR });
    for (uint32_t i = 0; i < d->width * d->height * 3; i++) {
        double should = expected(i / 3 % d->width, i / 3 / d->width, i % 3);
        if (!(fabs((double)x[i] - should) <= most))
            fail_msg("%s: number %u is %g, drawn was %g", path, i, (double)x[i], should);
    }
    free(x);
}

static uint8_t smooth_grey(uint32_t x, uint32_t y, uint32_t c) {
    (void)c;
    return smooth(x, y, 0);
}

static uint8_t inks(uint32_t x, uint32_t y, uint32_t c) { return c == 3 ? 200 : smooth(x, y, c); }

static uint8_t without_inks(uint32_t x, uint32_t y, uint32_t c) {
    return (uint8_t)(smooth(x, y, c) * 200.0 / 255 + 0.5);
}

/* JPEG loses something; in passes it holds the same coefficients, so the same picture. */
static void jpeg_is_near(void **state) {
    (void)state;
    drawn d = { .width = 203, .height = 117, .pixel = smooth, .colours = DRAWN_RGB, .quality = 98 };
    drawn_jpeg("one.jpg", &d);
    near_pixels("one.jpg", &d, smooth, 6);
    d.whole = true;
    drawn_jpeg("two.jpg", &d);
    float *a = decoded("one.jpg", (resample_options){ .filter = RESAMPLE_BILINEAR }),
          *b = decoded("two.jpg", (resample_options){ .filter = RESAMPLE_BILINEAR });
    assert_memory_equal(a, b, sizeof *a * d.width * d.height * 3);
    free(a);
    free(b);
    d.colours = DRAWN_GREY;
    drawn_jpeg("grey.jpg", &d);
    near_pixels("grey.jpg", &d, smooth_grey, 4);
    d.inks = true, d.pixel = inks;
    drawn_jpeg("inks.jpg", &d);
    near_pixels("inks.jpg", &d, without_inks, 6);
}

/* ---- resizing ---- */

static double triangle(double x) { return fabs(x) < 1 ? 1 - fabs(x) : 0; }

static double cubic(double x) { /* Keys, a = -1/2 */
    double a = fabs(x);
    return a < 1 ? 1.5 * a * a * a - 2.5 * a * a + 1 : a < 2 ? -0.5 * a * a * a + 2.5 * a * a - 4 * a + 2 : 0;
}

/* A pixel of the resized picture by its definition: the weighted mean of all that the widened filter reaches.
 */
static double resized(const drawn *d, double (*filter)(double), uint32_t w, uint32_t h, uint32_t x,
                      uint32_t y, uint32_t c) {
    double sx = (double)d->width / w, sy = (double)d->height / h, wx = sx > 1 ? sx : 1, wy = sy > 1 ? sy : 1;
    double sum = 0, all = 0;
    for (uint32_t j = 0; j < d->height; j++)
        for (uint32_t i = 0; i < d->width; i++) {
            double part = filter((i + 0.5 - (x + 0.5) * sx) / wx) * filter((j + 0.5 - (y + 0.5) * sy) / wy);
            sum += part * d->pixel(i, j, c), all += part;
        }
    double mean = sum / all;
    return mean < 0 ? 0 : mean > 255 ? 255 : mean;
}

static void resizing_is_what_it_says(void **state) {
    (void)state;
    static const uint32_t sizes[][4] = {
        { 40, 30, 16, 12 }, { 41, 67, 20, 20 }, { 15, 11, 32, 40 }, { 64, 64, 1, 1 }
    };
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int f = 0; f < 2; f++) {
            drawn d = { .width = sizes[k][0], .height = sizes[k][1], .pixel = noise, .colours = DRAWN_RGB };
            uint32_t w = sizes[k][2], h = sizes[k][3];
            drawn_png("one.png", &d);
            float *x =
                decoded("one.png", (resample_options){ .to_width = w,
                                                       .to_height = h,
                                                       .filter = f ? RESAMPLE_BICUBIC : RESAMPLE_BILINEAR });
            for (uint32_t i = 0; i < w * h * 3; i++) {
                double should = resized(&d, f ? cubic : triangle, w, h, i / 3 % w, i / 3 / w, i % 3);
                if (!(fabs((double)x[i] - should) <= 0.501))
                    fail_msg("%u x %u, number %u is %g, by definition %g", w, h, i, (double)x[i], should);
            }
            free(x);
        }
}

/* A window of the resized picture is that part of all of it, and a mirrored one is mirrored. */
static void windows_are_parts(void **state) {
    (void)state;
    drawn d = { .width = 90, .height = 70, .pixel = noise, .colours = DRAWN_RGB };
    drawn_png("one.png", &d);
    resample_options all = { .to_width = 45, .to_height = 35, .filter = RESAMPLE_BICUBIC }, part = all;
    part.x = 7, part.y = 5, part.out_width = 20, part.out_height = 16, part.mirrored = true;
    float *a = decoded("one.png", all), *b = decoded("one.png", part);
    for (uint32_t y = 0; y < 16; y++)
        for (uint32_t x = 0; x < 20; x++)
            for (uint32_t c = 0; c < 3; c++)
                assert_true(b[(y * 20 + x) * 3 + c] == a[((y + 5) * 45 + 7 + 19 - x) * 3 + c]);
    free(a);
    free(b);
}

/* A large JPEG is decoded at a part of its size; that is near what all of it would be resized to. */
static void large_jpegs_are_near(void **state) {
    (void)state;
    drawn d = { .width = 1100, .height = 900, .pixel = smooth, .colours = DRAWN_RGB, .quality = 95 };
    drawn_jpeg("large.jpg", &d);
    drawn_png("large.png", &d);
    for (uint32_t side = 16; side <= 256; side *= 2) {
        resample_options o = { .to_width = side, .to_height = side, .filter = RESAMPLE_BILINEAR };
        float *a = decoded("large.jpg", o), *b = decoded("large.png", o);
        for (uint32_t i = 0; i < side * side * 3; i++)
            if (!(fabsf(a[i] - b[i]) <= 4))
                fail_msg("side %u, number %u: %g and %g", side, i, (double)a[i], (double)b[i]);
        free(a);
        free(b);
    }
}

/* ---- samples ---- */

static label_names names;

static pictures *opened(const char *path, uint32_t side) {
    pictures *p;
    label_names_close(&names);
    if (pictures_names(path, "label", UINT64_MAX, &names) != STATUS_OK) fail_msg("%s", status_message());
    label_names_sort(&names);
    picture_options o = {
        .path = path, .image = "image", .label = "label", .names = &names, .seed = 7, .most = UINT64_MAX
    };
    o.prepare = prepare_defaults(side, side, 3);
    if (pictures_open(&o, &p) != STATUS_OK) fail_msg("%s", status_message());
    return p;
}

/* All numbers of `batches` batches. */
static float *batches_of(const data_source *s, uint32_t workers, uint32_t batches, int32_t *labels) {
    enum { BATCH = 8 };
    loader_options o = { .source = s, .batch = BATCH, .depth = 2, .workers = workers, .seed = 7 };
    uint64_t bytes, each = s->field_bytes[0] * BATCH;
    loader *l;
    assert_int_equal(loader_bytes(&o, &bytes), STATUS_OK);
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    char *all = malloc(each * batches);
    assert_int_equal(loader_open(&o, memory, &l), STATUS_OK);
    for (uint32_t b = 0; b < batches; b++) {
        loader_batch batch;
        if (loader_next(l, &batch) != STATUS_OK) fail_msg("%s", status_message());
        memcpy(all + b * each, batch.fields[0], each);
        memcpy(labels + b * BATCH, batch.fields[1], BATCH * sizeof *labels);
        loader_done(l);
    }
    loader_close(l);
    free(memory);
    return (float *)all;
}

static void workers_change_nothing(void **state) {
    (void)state;
    enum { BATCHES = 12, COUNT = BATCHES * 8 };
    data_source s;
    int32_t labels[COUNT], others[COUNT];
    drawn_classes("data", 10, 20);
    pictures *p = opened("data", 16);
    pictures_source(p, PICTURES_TRAINED, &s);
    assert_int_equal(s.samples, 27);
    float *one = batches_of(&s, 0, BATCHES, labels);
    for (uint32_t workers = 1; workers <= 4; workers += 3) {
        float *many = batches_of(&s, workers, BATCHES, others);
        assert_memory_equal(one, many, s.field_bytes[0] * COUNT);
        assert_memory_equal(labels, others, sizeof labels);
        free(many);
    }
    /* each epoch draws anew */
    assert_memory_not_equal(one, (char *)one + 27 * s.field_bytes[0], s.field_bytes[0]);
    uint32_t met[3] = { 0 };
    for (int i = 0; i < 27; i++) met[labels[i]]++;
    assert_int_equal(met[0] + met[1] + met[2], 27);
    assert_int_equal(met[0], 9);
    free(one);
    pictures_close(p);
}

static void tables_name_pictures(void **state) {
    (void)state;
    static const char csv[] = "image,label\nround/000.png,1\nplain/001.jpg,0\n",
                      json[] = "{\"image\": \"data/round/000.png\", \"label\": \"b\"}\n"
                               "{\"label\": \"a\", \"image\": \"data/plain/001.jpg\"}\n";
    data_source s;
    float image[16 * 16 * 3];
    int32_t label;
    drawn_classes("data", 2, 20);
    scratch_write("data/list.csv", csv, sizeof csv - 1);
    scratch_write("list.jsonl", json, sizeof json - 1);
    for (int k = 0; k < 3; k++) {
        pictures *p = opened(k == 0 ? "data/list.csv" : k == 1 ? "data" : "list.jsonl", 16);
        pictures_source(p, PICTURES_ALL, &s);
        assert_int_equal(s.samples, 2);
        void *scratch = aligned_alloc(64, (s.scratch_bytes + 63) / 64 * 64);
        assert_int_equal(s.read(&s, 0, scratch, (void *[]){ image, &label }), STATUS_OK);
        assert_int_equal(label, 1);
        assert_int_equal(s.read(&s, 1, scratch, (void *[]){ image, &label }), STATUS_OK);
        assert_int_equal(label, 0);
        free(scratch);
        pictures_close(p);
    }
    remove("data/list.csv");
}

/* The smallest number of bytes within which the table can be listed; `*held` then by the list. */
static uint64_t least_for(const char *path, uint64_t *held) {
    uint64_t below = 0, enough = 1 << 24;
    label_names found = { 0 };
    assert_int_equal(pictures_names(path, "label", UINT64_MAX, &found), STATUS_OK);
    while (enough - below > 1) {
        uint64_t middle = below + (enough - below) / 2;
        pictures *p;
        picture_options o = {
            .path = path, .image = "image", .label = "label", .names = &found, .most = middle
        };
        o.prepare = prepare_defaults(16, 16, 3);
        status result = pictures_open(&o, &p);
        if (result == STATUS_OK) *held = pictures_held(p);
        assert_true(result == STATUS_OK || result == STATUS_NO_FIT);
        *(result == STATUS_OK ? &enough : &below) = middle;
        pictures_close(p);
    }
    label_names_close(&found);
    return enough;
}

static void write_records(const char *path, int count) {
    FILE *file = fopen(path, "w");
    fprintf(file, "image,label\n");
    for (int i = 0; i < count; i++) fprintf(file, "counted.png,%c\n", 'a' + i % 2);
    fclose(file);
}

/* The list grows while its table is read: both are within what it may take. */
static void the_list_and_its_reader_share_the_room(void **state) {
    (void)state;
    drawn d = { .width = 20, .height = 20, .pixel = slope, .colours = DRAWN_RGB };
    uint64_t few_held, many_held;
    drawn_png("counted.png", &d);
    write_records("few.csv", 2);
    write_records("many.csv", 300);
    uint64_t few = least_for("few.csv", &few_held), many = least_for("many.csv", &many_held);
    assert_true(many_held > 2 * few_held && few > few_held);
    assert_true(many >= few - few_held + many_held);
    remove("few.csv");
    remove("many.csv");
}

static void draws_stay_inside(void **state) {
    (void)state;
    prepare_options p = prepare_defaults(24, 24, 3);
    double mirrored = 0, area = 0;
    enum { TIMES = 20000 };
    for (uint64_t k = 0; k < TIMES; k++) {
        uint32_t w = 1 + (uint32_t)(k * 37 % 300), h = 1 + (uint32_t)(k * 101 % 200);
        resample_options o = prepare_drawn(&p, w, h, 3, k);
        assert_true(o.left >= 0 && o.top >= 0 && o.right <= w && o.bottom <= h);
        assert_true(o.right - o.left >= 1 && o.bottom - o.top >= 1);
        mirrored += o.mirrored;
        o = prepare_drawn(&p, 400, 400, 3, k);
        area += (o.right - o.left) * (o.bottom - o.top) / 160000;
    }
    assert_true(fabs(mirrored / TIMES - 0.5) < 0.02);
    /* Of areas s from 0.08 to 1 those above 3/4 have as many shapes that fit as ln s / ln 3/4: 0.478 is the
     * mean. */
    assert_true(fabs(area / TIMES - 0.478) < 0.01);
}

/* ---- bad input ---- */

static status read_everything(const char *path) {
    pictures *p = NULL;
    data_source s;
    label_names found = { 0 };
    status result = pictures_names(path, "label", UINT64_MAX, &found);
    picture_options o = {
        .path = path, .image = "image", .label = "label", .names = &found, .most = 1 << 28
    };
    o.prepare = prepare_defaults(16, 16, 3);
    if (result == STATUS_OK) result = pictures_open(&o, &p);
    for (uint64_t k = 0; result == STATUS_OK && k < pictures_count(p); k++) {
        static float image[16 * 16 * 3];
        int32_t label;
        pictures_source(p, PICTURES_ALL, &s);
        void *scratch = aligned_alloc(64, (s.scratch_bytes + 63) / 64 * 64);
        result = s.read(&s, k, scratch, (void *[]){ image, &label });
        free(scratch);
    }
    pictures_close(p);
    label_names_close(&found);
    return result;
}

static void refused(const char *path, const char *words) {
    status result = read_everything(path);
    if (result != STATUS_INVALID || !strstr(status_message(), words))
        fail_msg("%s: '%s' was expected, it is '%s'", path, words,
                 result == STATUS_OK ? "fine" : status_message());
}

static void read_or_refuse(const char *path) {
    status result = read_everything(path);
    if (result != STATUS_OK && result != STATUS_INVALID && result != STATUS_NO_FIT)
        fail_msg("%s: %s", path, status_message());
}

static char *bytes_of(const char *path, size_t *count) {
    FILE *file = fopen(path, "rb");
    char *data = malloc(1 << 20);
    *count = fread(data, 1, 1 << 20, file);
    fclose(file);
    return data;
}

/* A chunk that says how many pictures an APNG has, before the lines. */
static void animate(const char *from, const char *to) {
    static const char chunk[] = "\0\0\0\x08"
                                "acTL\0\0\0\x02\0\0\0\0\xf3\x8d\x93\x70";
    size_t count;
    char *data = bytes_of(from, &count);
    memmove(data + 33 + sizeof chunk - 1, data + 33, count - 33);
    memcpy(data + 33, chunk, sizeof chunk - 1);
    scratch_write(to, data, count + sizeof chunk - 1);
    free(data);
}

static void cut(const char *from, const char *to, double part) {
    size_t count;
    char *data = bytes_of(from, &count);
    scratch_write(to, data, (size_t)((double)count * part));
    free(data);
}

static void bad_input_is_named(void **state) {
    (void)state;
    drawn d = { .width = 60, .height = 50, .pixel = slope, .colours = DRAWN_RGB };
    mkdir("bad", 0777);
    refused("bad", "bad is empty");
    mkdir("bad/a", 0777);
    mkdir("bad/b", 0777);
    drawn_png("bad/a/1.png", &d);
    refused("bad", "bad/b: the class has no pictures");
    scratch_write("bad/b/x.txt", "no picture", 10);
    refused("bad", "bad/b/x.txt is neither JPEG nor PNG");
    remove("bad/b/x.txt");
    scratch_write("bad/b/x.png", "", 0);
    refused("bad", "bad/b/x.png is empty");
    cut("bad/a/1.png", "bad/b/x.png", 0.3);
    refused("bad", "bad/b/x.png is truncated");
    animate("bad/a/1.png", "bad/b/x.png");
    refused("bad", "bad/b/x.png is animated (APNG)");
    remove("bad/b/x.png");
    drawn_jpeg("one.jpg", &d);
    cut("one.jpg", "bad/b/x.jpg", 0.8);
    refused("bad", "bad/b/x.jpg is truncated: it ends within the picture");
    size_t half;
    char *ended = bytes_of("bad/b/x.jpg", &half); /* and says that it is whole */
    memcpy(ended + half, "\xff\xd9", 2);
    scratch_write("bad/b/x.jpg", ended, half + 2);
    free(ended);
    refused("bad", "bad/b/x.jpg is damaged");
    cut("one.jpg", "bad/b/x.jpg", 0.02);
    refused("bad", "bad/b/x.jpg is truncated: it ends within its header");
    size_t count;
    char *data = bytes_of("one.jpg", &count);
    for (size_t i = 0; i + 9 < count; i++)
        if ((uint8_t)data[i] == 0xff && (uint8_t)data[i + 1] == 0xc0) data[i + 5] = (char)0x80;
    scratch_write("bad/b/x.jpg", data, count);
    refused("bad", "a side may have 16384 pixels");
    free(data);
    remove("bad/b/x.jpg");
    scratch_write("bad/loose.png", "x", 1);
    refused("bad", "bad/loose.png lies beside the folders of classes");
    refused("bad/a", "has files and no folder for each class");
    refused("bad/nowhere", "cannot open bad/nowhere");
    refused("bad/a/1.png", "is no table by its name");
}

static void tables_are_checked(void **state) {
    (void)state;
    static const char nowhere[] = "image,label\nnone.png,1\n", nothing[] = "image,label\n,1\n",
                      columns[] = "picture,label\nnone.png,1\n";
    scratch_write("t.csv", nowhere, sizeof nowhere - 1);
    refused("t.csv", "t.csv, record 1: cannot open none.png");
    scratch_write("t.csv", nothing, sizeof nothing - 1);
    refused("t.csv", "t.csv, record 1: the column 'image' names no file");
    scratch_write("t.csv", columns, sizeof columns - 1);
    refused("t.csv", "image");
}

/* ---- damage ---- */

static uint64_t fate = 11;

/* Whatever a file holds it is decoded or refused, and nothing else happens. */
static void try_damaged(const char *path, const char *data, size_t count) {
    decode_request r = { .path = path };
    scratch_write(path, data, count);
    if (image_file_look(path, &r.header) != STATUS_OK) return;
    if (r.header.width > 4096 || image_file_whole(&r.header) > 1 << 24) return; /* it would take long */
    prepare_options p = prepare_defaults(16, 16, 3);
    r.resample = prepare_middle(&p, r.header.width, r.header.height);
    uint64_t bytes = decode_bytes(&r.header, &r.resample, 16);
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    static float out[16 * 16 * 3];
    status result = decode_picture(&r, memory, bytes, out);
    assert_true(result == STATUS_OK || result == STATUS_INVALID);
    if (result == STATUS_INVALID) assert_non_null(strstr(status_message(), path));
    free(memory);
}

static void damaged_files_are_refused(void **state) {
    (void)state;
    enum { TIMES = 1500 };
    drawn d = { .width = 45, .height = 33, .pixel = slope, .colours = DRAWN_RGB };
    drawn_png("seed0", &d), drawn_jpeg("seed1", &d);
    d.whole = true;
    drawn_png("seed2", &d), drawn_jpeg("seed3", &d);
    d.colours = DRAWN_PALETTE, d.pixel = noise;
    drawn_png("seed4", &d);
    d.inks = true;
    drawn_jpeg("seed5", &d);
    for (int k = 0; k < 6; k++) {
        char name[16];
        size_t count;
        snprintf(name, sizeof name, "seed%d", k);
        char *data = bytes_of(name, &count), *copy = malloc(count);
        for (int i = 0; i < TIMES; i++) {
            memcpy(copy, data, count);
            uint32_t changes = 1 + scratch_random(&fate) % 4;
            for (uint32_t c = 0; c < changes; c++) /* most in the header */
                copy[scratch_random(&fate) % (i % 3 ? (count < 700 ? count : 700) : count)] =
                    (char)scratch_random(&fate);
            try_damaged("damaged", copy, i % 5 ? count : scratch_random(&fate) % count);
        }
        free(copy);
        free(data);
    }
}

/* ---- inside of Parquet ---- */

#define CELLS SNUG_ROOT "/tests/data/parquet_images/"

/* As tools/goldens_parquet.py writes the same pictures. */
static const char *const forms[] = { "v1-plain-none-optional",
                                     "v1-plain-snappy-required",
                                     "v2-plain-zstd-optional",
                                     "v1-dictionary-snappy-optional",
                                     "v1-dictionary-none-binary",
                                     "v2-plain-none-binary",
                                     "v2-delta_length_byte_array-gzip-optional",
                                     "v1-delta_byte_array-none-binary",
                                     "v2-delta_byte_array-snappy-required" };
enum { FORMS = sizeof forms / sizeof *forms };

/* NULL where it is packed by what this program was built without. */
static const char *form_path(int i) {
    static char path[512];
    bool there = true;
#ifndef SNUG_SNAPPY
    there = there && !strstr(forms[i], "snappy");
#endif
#ifndef SNUG_ZSTD
    there = there && !strstr(forms[i], "zstd");
#endif
#ifndef SNUG_ZLIB
    there = there && !strstr(forms[i], "gzip");
#endif
    snprintf(path, sizeof path, CELLS "%s.parquet", forms[i]);
    return there ? path : NULL;
}

static void compare_with_line(void *context, const document_piece *bytes, const char *class,
                              const char *path) {
    char line[128], made[128];
    uint64_t sum = 0xcbf29ce484222325;
    (void)path;
    for (uint32_t i = 0; i < bytes->count; i++) sum = (sum ^ (unsigned char)bytes->bytes[i]) * 0x100000001b3;
    snprintf(made, sizeof made, "%s %u %016llx\n", class, bytes->count, (unsigned long long)sum);
    assert_non_null(fgets(line, sizeof line, context));
    assert_string_equal(made, line);
}

/* Bytes are what pyarrow was given, and are the same when they are read again by themselves. */
static void cells_are_what_was_written(void **state) {
    (void)state;
    for (int i = 0; i < FORMS; i++) {
        char end[8];
        FILE *expected = fopen(CELLS "cells.expected", "r");
        if (form_path(i)) extracted_visit(form_path(i), compare_with_line, expected);
        assert_true(!form_path(i) || !fgets(end, sizeof end, expected));
        fclose(expected);
    }
}

/* Batches of every form, by any number of workers, are those of the same pictures as files. */
static void cells_are_as_files(void **state) {
    (void)state;
    enum { BATCHES = 9, COUNT = BATCHES * 8 };
    data_source s;
    int32_t labels[COUNT], others[COUNT];
    extracted_pictures(form_path(0), "as-files");
    pictures *p = opened("as-files", 16);
    pictures_source(p, PICTURES_TRAINED, &s);
    assert_int_equal(s.samples, 22);
    float *files = batches_of(&s, 0, BATCHES, labels);
    pictures_close(p);
    for (int i = 0; i < 2 * FORMS; i++) {
        if (!form_path(i % FORMS)) continue;
        p = opened(form_path(i % FORMS), 16);
        pictures_source(p, PICTURES_TRAINED, &s);
        assert_int_equal(s.samples, 22);
        float *cells = batches_of(&s, i < FORMS ? 0 : 3, BATCHES, others);
        if (memcmp(files, cells, s.field_bytes[0] * COUNT) != 0) fail_msg("%s differs", forms[i % FORMS]);
        assert_memory_equal(labels, others, sizeof labels);
        free(cells);
        pictures_close(p);
    }
    free(files);
}

/* Many files are one list, in the order of their names. */
static void tables_follow_each_other(void **state) {
    (void)state;
    data_source s;
    size_t count;
    static float image[16 * 16 * 3];
    int32_t label;
    mkdir("shards", 0777);
    for (int i = 0; i < 3; i++) {
        char to[64];
        char *data = bytes_of(CELLS "v1-plain-none-optional.parquet", &count);
        snprintf(to, sizeof to, "shards/train-%05d-of-00003.parquet", i);
        scratch_write(to, data, count);
        free(data);
    }
    pictures *p = opened("shards", 16);
    pictures_source(p, PICTURES_ALL, &s);
    assert_int_equal(s.samples, 72);
    assert_int_equal(s.held_bytes, pictures_held(p));
    void *scratch = aligned_alloc(64, (s.scratch_bytes + 63) / 64 * 64);
    for (uint64_t k = 0; k < 72; k++) {
        assert_int_equal(s.read(&s, k, scratch, (void *[]){ image, &label }), STATUS_OK);
        assert_int_equal(label, (int32_t)(k % 24 / 8));
    }
    FILE *file = fopen("shards/train-00001-of-00003.parquet", "ab");
    fputs("more", file);
    fclose(file);
    assert_int_equal(s.read(&s, 23, scratch, (void *[]){ image, &label }), STATUS_OK);
    assert_int_equal(s.read(&s, 24, scratch, (void *[]){ image, &label }), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "train-00001-of-00003.parquet has changed since it was opened"));
    free(scratch);
    pictures_close(p);
    rename("shards/train-00001-of-00003.parquet", "shards/validation-00000-of-00001.parquet");
    refused("shards", "shards holds 'train' and 'validation', by the names of its files");
    mkdir("above", 0777);
    rename("shards", "above/data");
    refused("above", "above/data/train-00000-of-00003.parquet is a table in a folder for a class");
}

static void odd_cells_are_named(void **state) {
    (void)state;
#ifdef SNUG_SNAPPY
    refused(CELLS "odd-path.parquet", "row group 0, row 1: cannot open");
    refused(CELLS "odd-path.parquet", "/there.png");
    refused(CELLS "odd-null.parquet", "row group 0, row 1: the column 'image' has neither the bytes");
    refused(CELLS "odd-nothing.parquet", "row group 0, row 1: the column 'image' has neither the bytes");
    refused(CELLS "odd-header.parquet",
            "odd-header.parquet, row group 0, row 1: the picture is truncated: it");
    refused(CELLS "odd-empty.parquet", "odd-empty.parquet, row group 0, row 1: the picture is empty");
    refused(CELLS "odd-cut.parquet",
            "odd-cut.parquet, row group 0, row 1: the picture is truncated: it ends");
    refused(CELLS "odd-label.parquet", "row group 0, row 1: label is -1, and the file names classes from 0");
#endif
    refused(SNUG_ROOT "/tests/data/parquet/class-i64.parquet", "the column image is not in it");
}

/* A file with any byte changed is read or refused, and nothing else. */
static void damaged_tables_are_refused(void **state) {
    (void)state;
    uint64_t seed = 12;
    for (int i = 0; i < FORMS; i++) {
        size_t count;
        if (!form_path(i)) continue;
        char *data = bytes_of(form_path(i), &count);
        for (int k = 0; k < 150; k++) {
            size_t at = scratch_random(&seed) % count;
            char was = data[at];
            data[at] = (char)scratch_random(&seed);
            scratch_write("odd.parquet", data, count);
            data[at] = was;
            read_or_refuse("odd.parquet");
        }
        free(data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(png_is_exact),
        cmocka_unit_test(jpeg_is_near),
        cmocka_unit_test(resizing_is_what_it_says),
        cmocka_unit_test(windows_are_parts),
        cmocka_unit_test(large_jpegs_are_near),
        cmocka_unit_test(workers_change_nothing),
        cmocka_unit_test(tables_name_pictures),
        cmocka_unit_test(the_list_and_its_reader_share_the_room),
        cmocka_unit_test(draws_stay_inside),
        cmocka_unit_test(bad_input_is_named),
        cmocka_unit_test(tables_are_checked),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(cells_are_what_was_written),
        cmocka_unit_test(cells_are_as_files),
        cmocka_unit_test(tables_follow_each_other),
        cmocka_unit_test(odd_cells_are_named),
        cmocka_unit_test(damaged_tables_are_refused),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}

#else
int main(void) { return 0; }
#endif
