#include "data/images/preprocessor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"
#include "io/json.h"

enum { PATH_BYTES = 4096 };

static const char NAME[] = "preprocessor_config.json";

/* ---- reading ---- */

static status read_side(json_value v, uint32_t *to) {
    int64_t side;
    TRY(json_as_integer(v, 1, IMAGE_MOST_SIDE, &side));
    *to = (uint32_t)side;
    return STATUS_OK;
}

static status read_member(json_value object, const char *key, uint32_t *to) {
    json_value v;
    TRY(json_get(object, key, &v));
    return read_side(v, to);
}

/* Old files have a number: of some processors both sides, of others the shorter one. */
static bool number_is_shortest(json_value root) {
    const char *type = "";
    if (json_optional_string(root, "image_processor_type", &type) != STATUS_OK) return false;
    if (!*type && json_optional_string(root, "feature_extractor_type", &type) != STATUS_OK) return false;
    return strncmp(type, "CLIP", 4) == 0 || strncmp(type, "ConvNext", 8) == 0;
}

static status read_size(json_value root, prepare_options *p) {
    json_value size, shortest, item;
    size_t count;
    if (!json_find(root, "size", &size)) return STATUS_OK;
    p->shortest = p->height = p->width = 0;
    if (json_is_array(size)) { /* [width, height], as Pillow has it */
        TRY(json_as_array(size, &count));
        if (count != 2) return json_wrong(size, "has %zu items; a size has two", count);
        item = json_item(size, 0);
        TRY(read_side(item, &p->width));
        return read_side(json_item(size, 1), &p->height);
    }
    if (json_as_object(size) != STATUS_OK) {
        if (number_is_shortest(root)) return read_side(size, &p->shortest);
        TRY(read_side(size, &p->height));
        p->width = p->height;
        return STATUS_OK;
    }
    if (json_find(size, "shortest_edge", &shortest)) {
        if (json_has(size, "longest_edge"))
            return json_wrong(size, "bounds the longer side too, which is not known");
        return read_side(shortest, &p->shortest);
    }
    TRY(read_member(size, "height", &p->height));
    return read_member(size, "width", &p->width);
}

/* The window: the crop, or all of what was resized. */
static status read_crop(json_value root, prepare_options *p) {
    json_value crop;
    bool crops = json_has(root, "crop_size");
    TRY(json_optional_bool(root, "do_center_crop", &crops));
    if (crops && json_find(root, "crop_size", &crop)) {
        if (json_as_object(crop) != STATUS_OK) {
            TRY(read_side(crop, &p->out_height));
            p->out_width = p->out_height;
            return STATUS_OK;
        }
        TRY(read_member(crop, "height", &p->out_height));
        return read_member(crop, "width", &p->out_width);
    }
    if (p->height) p->out_height = p->height, p->out_width = p->width;
    return STATUS_OK;
}

/* ConvNeXt's: the shorter side becomes size / crop_pct, of which the middle is cut; from 384 on the picture
 * becomes size x size as a whole. */
static status read_part(json_value root, prepare_options *p) {
    double part = 0;
    TRY(json_optional_number(root, "crop_pct", 0.01, 1, &part));
    if (part == 0 || !p->shortest) return STATUS_OK;
    uint32_t side = p->shortest;
    p->out_height = p->out_width = side;
    p->shortest = 0, p->height = p->width = side;
    if (side < 384) p->height = p->width = 0, p->shortest = (uint32_t)(side / part);
    return STATUS_OK;
}

static status read_list(json_value root, const char *key, const prepare_options *p, double low,
                        double out[3]) {
    json_value list;
    size_t count;
    if (!json_find(root, key, &list)) return STATUS_OK;
    TRY(json_as_array(list, &count));
    if (count != p->channels && count != 1)
        return json_wrong(list, "has %zu numbers, and pictures %u colours", count, p->channels);
    for (uint32_t c = 0; c < p->channels; c++)
        TRY(json_as_number(json_item(list, count == 1 ? 0 : c), low, 1e6, &out[c]));
    return STATUS_OK;
}

static status read_numbers(json_value root, prepare_options *p) {
    bool rescales = true, normalises = true;
    double factor = 1 / 255.0;
    TRY(json_optional_bool(root, "do_rescale", &rescales));
    TRY(json_optional_number(root, "rescale_factor", 1e-9, 1e6, &factor));
    TRY(json_optional_bool(root, "do_normalize", &normalises));
    TRY(read_list(root, "image_mean", p, -1e6, p->mean));
    TRY(read_list(root, "image_std", p, 1e-9, p->deviation));
    p->factor = rescales ? factor : 1;
    for (int c = 0; c < 3 && !normalises; c++) p->mean[c] = 0, p->deviation[c] = 1;
    return STATUS_OK;
}

static status check_window(json_value root, const prepare_options *p) {
    uint32_t height = p->shortest ? p->shortest : p->height, width = p->shortest ? p->shortest : p->width;
    if (p->out_height <= height && p->out_width <= width) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s: the window of %u x %u is larger than what pictures are resized to (%u x %u)",
                      root.file, p->out_height, p->out_width, height, width);
}

static status read_root(json_value root, prepare_options *p) {
    bool resizes = true;
    int64_t filter = p->filter;
    TRY(json_as_object(root));
    TRY(json_optional_bool(root, "do_resize", &resizes));
    if (!resizes)
        return status_set(STATUS_INVALID,
                          "%s: 'do_resize' is false; pictures of any size become one, so it must be true",
                          root.file);
    TRY(json_optional_integer(root, "resample", 0, RESAMPLE_FILTERS - 1, &filter));
    p->filter = (resample_filter)filter;
    TRY(read_size(root, p));
    TRY(read_crop(root, p));
    TRY(read_part(root, p));
    TRY(read_numbers(root, p));
    return check_window(root, p);
}

static status path_of(const char *directory, char path[PATH_BYTES]) {
    if (snprintf(path, PATH_BYTES, "%s/%s", directory, NAME) < PATH_BYTES) return STATUS_OK;
    return status_set(STATUS_INVALID, "the path '%.60s...' is too long", directory);
}

status preprocessor_read(const char *directory, prepare_options *p, bool *there) {
    char path[PATH_BYTES];
    json_document d;
    TRY(path_of(directory, path));
    *there = access(path, F_OK) == 0;
    if (!*there) return STATUS_OK;
    TRY(json_open(path, &d));
    status result = read_root(d.root, p);
    json_close(&d);
    return result;
}

/* ---- writing ---- */

static void put_size(json_writer *w, const char *key, uint32_t height, uint32_t width) {
    json_begin_object(w, key);
    json_put_integer(w, "height", height);
    json_put_integer(w, "width", width);
    json_end_object(w);
}

static void put_list(json_writer *w, const char *key, const double *list, uint32_t count) {
    json_begin_array(w, key);
    for (uint32_t i = 0; i < count; i++) json_put_number(w, NULL, list[i]);
    json_end_array(w);
}

/* CLIP's processor has all of the parts, and no more. */
static void put_root(json_writer *w, const prepare_options *p) {
    json_put_string(w, "image_processor_type", "CLIPImageProcessor");
    json_put_bool(w, "do_convert_rgb", p->channels == 3);
    json_put_bool(w, "do_resize", true);
    if (p->shortest) {
        json_begin_object(w, "size");
        json_put_integer(w, "shortest_edge", p->shortest);
        json_end_object(w);
    } else {
        put_size(w, "size", p->height, p->width);
    }
    json_put_integer(w, "resample", p->filter);
    json_put_bool(w, "do_center_crop", true);
    put_size(w, "crop_size", p->out_height, p->out_width);
    json_put_bool(w, "do_rescale", true);
    json_put_number(w, "rescale_factor", p->factor);
    json_put_bool(w, "do_normalize", true);
    put_list(w, "image_mean", p->mean, p->channels);
    put_list(w, "image_std", p->deviation, p->channels);
}

status preprocessor_write(const char *directory, const prepare_options *p) {
    char path[PATH_BYTES];
    text out = { 0 };
    json_writer w = { .out = &out, .lines = true };
    TRY(path_of(directory, path));
    json_begin_object(&w, NULL);
    put_root(&w, p);
    json_end_object(&w);
    text_add(&out, "\n");
    status result = out.failed ? status_set(STATUS_FAILED, "%s: no memory to write it", path)
                               : io_write_file(path, out.data, out.length);
    text_close(&out);
    return result;
}
