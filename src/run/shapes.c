#include "run/shapes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/instructions.h"
#include "io/file.h"
#include "io/json.h"
#include "run/rates.h"

/* Counted up when kernels or what is measured change so much that figures of before are wrong. */
enum { SHAPES_VERSION = 1, KEY_BYTES = 256 };

static const char *products_of_gpu(uint32_t capability) {
    if (instructions_groups(capability == 100 ? CONFIRM_TMEM : CONFIRM_GROUPS, capability))
        return INSTRUCTIONS_GROUPS;
    return instructions_tensor(CONFIRM_PRODUCTS, capability) ? INSTRUCTIONS_TENSOR : "widened";
}

static const char *key_of_gpu(const device *d, char key[KEY_BYTES]) {
    const device_gpu *g = d->gpu;
    snprintf(key, KEY_BYTES, "%s; %u.%u, %d multiprocessors; products %s; shapes %d",
             g->title[0] ? g->title : d->name, g->capability / 10, g->capability % 10, g->multiprocessors,
             products_of_gpu(d->capability), SHAPES_VERSION);
    return key;
}

static status path_of(const device *d, char path[RATES_PATH_BYTES]) {
    char key[KEY_BYTES];
    return rates_file("shapes", key_of_gpu(d, key), path);
}

/* ---- from pairs to shapes ---- */

static const char *const works[DEVICE_SHAPE_WORKS] = { [DEVICE_PRODUCT] = "product",
                                                       [DEVICE_ATTENTION] = "attention",
                                                       [DEVICE_ATTENTION_BACKWARD] = "attention_gradient" };

/* Without its start, of which the mean of many calls has at most one. */
static void add_timed(device_shapes *s, const measure_pair *p, double seconds, bool by_library,
                      double start) {
    device_shape x = p->shape;
    if (seconds <= 0) return;
    x.by_library = by_library;
    x.seconds = fmax(seconds - start, 0.1 * seconds);
    device_shapes_add(s, &x);
}

/* ---- as JSON ---- */

static void write_shape(json_writer *w, const device_shape *x) {
    json_begin_object(w, NULL);
    json_put_string(w, "work", works[x->work]);
    json_put_bool(w, "half", x->half);
    json_put_bool(w, "tensor", x->tensor);
    json_put_bool(w, "by_library", x->by_library);
    json_put_number(w, "tiles", x->tiles);
    json_put_number(w, "flops", x->flops);
    json_put_number(w, "seconds", x->seconds);
    json_end_object(w);
}

static status read_shape(json_value v, device_shape *x) {
    const char *name;
    int work = 0;
    TRY(json_get_string(v, "work", &name));
    while (work < DEVICE_SHAPE_WORKS && strcmp(works[work], name) != 0) work++;
    if (work == DEVICE_SHAPE_WORKS) return json_wrong(v, "has work that is not known: %.40s", name);
    x->work = (device_work)work;
    TRY(json_get_bool(v, "half", &x->half));
    TRY(json_get_bool(v, "tensor", &x->tensor));
    TRY(json_get_bool(v, "by_library", &x->by_library));
    TRY(json_get_number(v, "tiles", 1, 1e18, &x->tiles));
    TRY(json_get_number(v, "flops", 1, 1e30, &x->flops));
    return json_get_number(v, "seconds", 1e-12, 1e6, &x->seconds);
}

static status read_shapes(const device *d, json_value root, device_shapes *s) {
    char key[KEY_BYTES];
    const char *gpu;
    json_value all;
    size_t count;
    TRY(json_get_string(root, "gpu", &gpu));
    if (strcmp(gpu, key_of_gpu(d, key)) != 0) return json_wrong(root, "is of another GPU");
    TRY(json_get(root, "shapes", &all));
    TRY(json_as_array(all, &count));
    if (count > DEVICE_SHAPES)
        return json_wrong(all, "has %zu shapes; at most %d", count, (int)DEVICE_SHAPES);
    for (size_t i = 0; i < count; i++) {
        device_shape x;
        TRY(read_shape(json_item(all, i), &x));
        device_shapes_add(s, &x);
    }
    return STATUS_OK;
}

status shapes_store(const device *d, const shapes_measured of[DEVICE_LIBRARIES]) {
    char path[RATES_PATH_BYTES], key[KEY_BYTES];
    double start = d->rates(d, 1).call_seconds;
    device_shapes s = { 0 };
    text t = { 0 };
    json_writer w = { .out = &t, .lines = true };
    TRY(path_of(d, path));
    TRY(rates_make_folder(path));
    json_begin_object(&w, NULL);
    json_put_string(&w, "gpu", key_of_gpu(d, key));
    json_begin_array(&w, "libraries");
    for (int i = 0; i < DEVICE_LIBRARIES; i++) {
        json_put_string(&w, NULL, of[i].name);
        for (int k = 0; k < of[i].count; k++) {
            add_timed(&s, &of[i].pairs[k], of[i].pairs[k].own, false, start);
            add_timed(&s, &of[i].pairs[k], of[i].pairs[k].by_library, true, start);
        }
    }
    json_end_array(&w);
    json_begin_array(&w, "shapes");
    for (int i = 0; i < s.count; i++) write_shape(&w, &s.of[i]);
    json_end_array(&w);
    json_end_object(&w);
    status result =
        t.failed ? status_set(STATUS_FAILED, "no memory for shapes") : io_write_file(path, t.data, t.length);
    text_close(&t);
    return result;
}

void shapes_join(const device *d, device_rates *r) {
    char path[RATES_PATH_BYTES];
    device_shapes found = { 0 };
    json_document doc;
    size_t length = strlen(r->source);
    if (!d->gpu || d->gpu->name[0] || path_of(d, path) != STATUS_OK || access(path, F_OK) != 0) return;
    found.multiprocessors = d->gpu->multiprocessors;
    status result = json_open(path, &doc);
    if (result == STATUS_OK) {
        result = read_shapes(d, doc.root, &found);
        json_close(&doc);
    }
    if (result == STATUS_OK && found.count) {
        r->shapes = found;
        snprintf(r->source + length, sizeof r->source - length, "; products and attention measured here");
    } else if (result != STATUS_OK) {
        snprintf(r->source + length, sizeof r->source - length, " (measured shapes are passed over: %.100s)",
                 status_message());
    }
}
