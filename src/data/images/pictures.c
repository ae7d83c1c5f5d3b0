#include "data/images/pictures.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "base/utf8.h"
#include "data/images/picture_list.h"
#include "data/order.h"

enum { EVERY = 10, ALIGNMENT = 64 };

/* ---- names ---- */

typedef struct {
    label_names *names;
    uint64_t most;
} name_reader;

static status note_name(const name_reader *r, const char *name, uint64_t bytes) {
    char most[UNITS_TEXT_BYTES];
    TRY(label_names_add(r->names, name, bytes, NULL));
    if (2 * r->names->held_bytes <= r->most) return STATUS_OK;
    return status_set(STATUS_NO_FIT, "the names of the classes take more than %s of the memory",
                      units_bytes_text(r->most, most));
}

static status note_folder(void *context, const char *name) { return note_name(context, name, strlen(name)); }

static status note_picture(void *context, const char *path, const char *class, uint64_t bytes) {
    (void)path;
    return note_name(context, class, bytes);
}

status pictures_names(const char *path, const char *column, uint64_t most, label_names *names) {
    name_reader r = { names, most };
    return picture_list(path, &(picture_visitor){ .class_folder = note_folder,
                                                  .picture = note_picture,
                                                  .context = &r,
                                                  .label = column,
                                                  .most = most });
}

/* ---- the list ---- */

typedef struct {
    uint64_t at; /* of its path */
    int32_t class;
} record;

typedef struct {
    const pictures *of;
    uint64_t samples;
    picture_part part;
} view;

struct pictures {
    picture_options options;
    record *records;
    uint64_t count, room;
    char *paths;
    uint64_t path_bytes, path_room;
    uint64_t scratch; /* the most that one takes */
    int32_t folder;   /* the class of the folder that is read */
    uint64_t *of_class;
    view views[PICTURES_HELD_OUT + 1];
    bool counted;
};

uint64_t pictures_count(const pictures *p) { return p->count; }

uint64_t pictures_held(const pictures *p) {
    return sizeof *p + p->room * sizeof *p->records + p->path_room +
           p->options.names->count * sizeof *p->of_class;
}

/* Room for half as many again; while a block moves there are two of it. */
static status grow(pictures *p, void **block, uint64_t *room, uint64_t needed, size_t each) {
    char most[UNITS_TEXT_BYTES];
    if (needed <= *room) return STATUS_OK;
    uint64_t larger = *room + *room / 2 > needed ? *room + *room / 2 : needed;
    if (pictures_held(p) + larger * each > p->options.most)
        return status_set(STATUS_NO_FIT, "the list of the pictures takes more than %s of the memory",
                          units_bytes_text(p->options.most, most));
    void *moved = memory_resize(*block, larger, each);
    if (!moved) return status_set(STATUS_FAILED, "no memory for the list of the pictures");
    *block = moved, *room = larger;
    return STATUS_OK;
}

static status find_class(const pictures *p, const char *name, uint64_t bytes, int32_t *class) {
    char shown[UTF8_QUOTE_BYTES];
    int64_t id = label_names_find(p->options.names, name, bytes);
    *class = (int32_t)id;
    if (id >= 0 && id < p->options.names->count) return STATUS_OK;
    return status_set(STATUS_INVALID, "the class '%s' is none of the %u that the model has",
                      utf8_quote(name, shown), p->options.names->count);
}

static status enter_folder(void *context, const char *name) {
    pictures *p = context;
    status result = find_class(p, name, strlen(name), &p->folder);
    return result == STATUS_OK ? result : status_prefix(result, "%s", p->options.path);
}

static resample_options any_part(const pictures *p) { return prepare_middle(&p->options.prepare, 1, 1); }

static status take_picture(void *context, const char *path, const char *class, uint64_t class_bytes) {
    pictures *p = context;
    void *records = p->records, *paths = p->paths;
    int32_t id = p->folder;
    image_header h;
    resample_options any = any_part(p);
    size_t bytes = strlen(path) + 1;
    if (class) TRY(find_class(p, class, class_bytes, &id));
    TRY(image_file_look(path, &h));
    status result = decode_there(h.kind);
    if (result != STATUS_OK) return status_prefix(result, "%s", path);
    TRY(grow(p, &records, &p->room, p->count + 1, sizeof *p->records));
    p->records = records;
    TRY(grow(p, &paths, &p->path_room, p->path_bytes + bytes, 1));
    p->paths = paths;
    uint64_t needed = decode_bytes(&h, &any, p->options.prepare.out_width);
    if (p->scratch < needed) p->scratch = needed;
    memcpy(p->paths + p->path_bytes, path, bytes);
    p->records[p->count++] = (record){ p->path_bytes, id };
    p->path_bytes += bytes;
    p->of_class[id]++;
    return STATUS_OK;
}

/* Folders say so themselves where they are empty. */
static status read_list(pictures *p) {
    const picture_options *o = &p->options;
    TRY(picture_list(o->path, &(picture_visitor){ .class_folder = enter_folder,
                                                  .picture = take_picture,
                                                  .context = p,
                                                  .image = o->image,
                                                  .label = o->label,
                                                  .most = o->most }));
    if (!p->count) return status_set(STATUS_INVALID, "%s has no picture", o->path);
    return STATUS_OK;
}

status pictures_open(const picture_options *o, pictures **out) {
    *out = NULL;
    pictures *p = memory_new(1, sizeof *p);
    if (!p) return status_set(STATUS_FAILED, "no memory for the list of the pictures");
    p->options = *o;
    p->of_class = memory_new(o->names->count + 1u, sizeof *p->of_class);
    status result =
        p->of_class ? read_list(p) : status_set(STATUS_FAILED, "no memory for the pictures' classes");
    if (result == STATUS_OK)
        *out = p;
    else
        pictures_close(p);
    return result;
}

void pictures_close(pictures *p) {
    if (!p) return;
    memory_free(p->records);
    memory_free(p->paths);
    memory_free(p->of_class);
    memory_free(p);
}

/* ---- samples ---- */

/* Of the pictures 0 to 8 are trained on, 9 is held out, and so on. */
static uint64_t record_of(const view *v, uint64_t sample) {
    if (v->part == PICTURES_TRAINED) return sample + sample / (EVERY - 1);
    return v->part == PICTURES_HELD_OUT ? sample * EVERY + EVERY - 1 : sample;
}

static status decode(const pictures *p, uint64_t at, const uint64_t *place, void *scratch, float *to) {
    const prepare_options *prepare = &p->options.prepare;
    decode_request r = { .path = p->paths + p->records[at].at };
    TRY(image_file_look(r.path, &r.header));
    uint32_t width = r.header.width, height = r.header.height;
    r.resample = place ? prepare_drawn(prepare, width, height, p->options.seed, *place)
                       : prepare_middle(prepare, width, height);
    if (decode_bytes(&r.header, &r.resample, prepare->out_width) > p->scratch)
        return status_set(STATUS_INVALID, "%s has become larger than any picture was when the run began",
                          r.path);
    TRY(decode_picture(&r, scratch, p->scratch, to));
    prepare_normalise(prepare, to);
    return STATUS_OK;
}

static status read_sample(const data_source *s, uint64_t sample, void *scratch, void *const fields[]) {
    const view *v = s->state;
    const pictures *p = v->of;
    bool drawn = s->ordered;
    uint64_t at = record_of(v, drawn ? data_order_sample(p->options.seed, v->samples, sample) : sample);
    *(int32_t *)fields[1] = p->records[at].class;
    return decode(p, at, drawn && !p->options.still ? &sample : NULL, scratch, fields[0]);
}

void pictures_source(pictures *p, picture_part part, data_source *s) {
    const prepare_options *o = &p->options.prepare;
    uint64_t held_out = p->count / EVERY;
    view *v = &p->views[part];
    *v = (view){ .of = p, .samples = p->count, .part = part };
    if (part == PICTURES_TRAINED) v->samples -= held_out;
    if (part == PICTURES_HELD_OUT) v->samples = held_out;
    *s = (data_source){ .samples = v->samples,
                        .field_count = 2,
                        .label_field = 1,
                        .field_bytes = { (uint64_t)o->out_height * o->out_width * o->channels * sizeof(float),
                                         sizeof(int32_t) },
                        .scratch_bytes = units_align(p->scratch, ALIGNMENT),
                        .read = read_sample,
                        .held_bytes = p->counted ? 0 : pictures_held(p),
                        .ordered = part == PICTURES_DRAWN || part == PICTURES_TRAINED,
                        .state = v };
    p->counted = true;
}
