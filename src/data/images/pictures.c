#include "data/images/pictures.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "base/utf8.h"
#include "data/classes.h"
#include "data/images/picture_list.h"
#include "data/order.h"

enum { EVERY = 10, ALIGNMENT = 64, NAME_BEHIND = 80 /* bytes of a row's name behind its file's */ };

/* ---- names ---- */

typedef struct {
    label_names *names;
    uint64_t most, reading; /* a table, at this moment */
} name_reader;

/* While a block moves there are two of it. */
static uint64_t names_held(const void *context) {
    const name_reader *r = context;
    return 2 * r->names->held_bytes;
}

static status check_names(const name_reader *r) {
    char most[UNITS_TEXT_BYTES];
    if (names_held(r) + r->reading <= r->most) return STATUS_OK;
    return status_set(STATUS_NO_FIT, "the names of the classes take more than %s of the memory",
                      units_bytes_text(r->most, most));
}

static status note_name(const name_reader *r, const char *name, uint64_t bytes) {
    TRY(classes_add(r->names, name, bytes));
    return check_names(r);
}

static status note_folder(void *context, const char *name) { return note_name(context, name, strlen(name)); }

static status note_picture(void *context, const picture_found *found) {
    return note_name(context, found->class, found->class_bytes);
}

static status note_class(void *context, const char *name, uint64_t bytes) {
    const name_reader *r = context;
    TRY(label_names_add(r->names, name, bytes, NULL));
    return check_names(r);
}

static status note_classes(void *context, const document_options *label, bool *told) {
    const name_reader *r = context;
    return classes_of_file(r->names, label, note_class, context, told);
}

status pictures_names(const char *path, const char *column, uint64_t most, label_names *names) {
    name_reader r = { .names = names, .most = most };
    return picture_list(path, &(picture_visitor){ .class_folder = note_folder,
                                                  .picture = note_picture,
                                                  .classes = note_classes,
                                                  .context = &r,
                                                  .label = column,
                                                  .most = most,
                                                  .held = names_held,
                                                  .reading = &r.reading });
}

/* ---- the list ---- */

typedef struct {
    uint64_t at;         /* of its path; of one in a page: there, as parquet_cell has it */
    uint32_t page;       /* its number, from 1; 0: it is a file */
    uint32_t bytes, row; /* of one in a page */
    int32_t class;
} record;

/* A page with pictures of a Parquet file. */
typedef struct {
    parquet_cell_page part;
    uint32_t table, group;
} page;

typedef struct {
    uint64_t path; /* its place */
    data_stamp stamp;
} table;

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
    page *pages;
    uint64_t page_count, page_room;
    table *tables;
    uint64_t table_count, table_room;
    uint64_t scratch;                  /* the most that decoding one takes */
    uint64_t cell_scratch, name_bytes; /* and beside it reading it, and saying which it is */
    int32_t folder;                    /* the class of the folder that is read */
    uint64_t *of_class;
    uint64_t reading; /* what reading a table takes at this moment, beside the list */
    view views[PICTURES_HELD_OUT + 1];
    bool counted;
};

uint64_t pictures_count(const pictures *p) { return p->count; }

uint64_t pictures_held(const pictures *p) {
    return sizeof *p + p->room * sizeof *p->records + p->path_room + p->page_room * sizeof *p->pages +
           p->table_room * sizeof *p->tables + p->options.names->count * sizeof *p->of_class;
}

/* Room for half as many again; while a block moves there are two of it. */
static status grow(pictures *p, void **block, uint64_t *room, uint64_t needed, size_t each) {
    char most[UNITS_TEXT_BYTES];
    if (needed <= *room) return STATUS_OK;
    uint64_t larger = *room + *room / 2 > needed ? *room + *room / 2 : needed;
    if (pictures_held(p) + p->reading + larger * each > p->options.most)
        return status_set(STATUS_NO_FIT, "the list of the pictures takes more than %s of the memory",
                          units_bytes_text(p->options.most, most));
    void *moved = memory_resize(*block, larger, each);
    if (!moved) return status_set(STATUS_FAILED, "no memory for the list of the pictures");
    *block = moved, *room = larger;
    return STATUS_OK;
}

static uint64_t list_held(const void *context) { return pictures_held(context); }

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

static status keep_path(pictures *p, const char *path, uint64_t *at) {
    void *paths = p->paths;
    size_t bytes = strlen(path) + 1;
    TRY(grow(p, &paths, &p->path_room, p->path_bytes + bytes, 1));
    p->paths = paths;
    memcpy(p->paths + p->path_bytes, path, bytes);
    *at = p->path_bytes;
    p->path_bytes += bytes;
    return STATUS_OK;
}

/* Files come one after the other, and in each its pages. */
static status keep_table(pictures *p, const picture_found *found) {
    void *tables = p->tables;
    const table *last = p->table_count ? &p->tables[p->table_count - 1] : NULL;
    table new = { .stamp = found->stamp };
    if (last && strcmp(p->paths + last->path, found->path) == 0) return STATUS_OK;
    TRY(grow(p, &tables, &p->table_room, p->table_count + 1, sizeof new));
    p->tables = tables;
    TRY(keep_path(p, found->path, &new.path));
    p->tables[p->table_count++] = new;
    uint64_t name = strlen(found->path) + NAME_BEHIND;
    if (p->name_bytes < name) p->name_bytes = name;
    return STATUS_OK;
}

static status keep_page(pictures *p, const picture_found *found) {
    void *pages = p->pages;
    TRY(keep_table(p, found));
    page new = { found->cell.page, (uint32_t)p->table_count - 1, (uint32_t)found->group };
    const page *last = p->page_count ? &p->pages[p->page_count - 1] : NULL;
    if (last && last->table == new.table && last->part.start == new.part.start) return STATUS_OK;
    if (p->page_count == UINT32_MAX || found->group > UINT32_MAX)
        return status_set(STATUS_INVALID, "the data has more than %u pages or row groups", UINT32_MAX);
    TRY(grow(p, &pages, &p->page_room, p->page_count + 1, sizeof new));
    p->pages = pages;
    p->pages[p->page_count++] = new;
    return STATUS_OK;
}

static status keep_cell(pictures *p, const picture_found *found, record *r) {
    TRY(keep_page(p, found));
    if (found->row > UINT32_MAX)
        return status_set(STATUS_INVALID, "its row group has more than %u rows", UINT32_MAX);
    *r = (record){ .at = found->cell.at,
                   .page = (uint32_t)p->page_count,
                   .bytes = found->cell.bytes,
                   .row = (uint32_t)found->row };
    uint64_t reading = parquet_cell_scratch(&found->cell);
    if (p->cell_scratch < reading) p->cell_scratch = reading;
    return STATUS_OK;
}

static status look_at(const picture_found *found, image_header *h) {
    static const char inside[] = "the picture";
    if (!found->bytes) TRY(image_file_look(found->path, h));
    if (found->bytes) TRY(image_file_look_at(inside, found->bytes, found->cell.bytes, h));
    status result = decode_there(h->kind);
    return result == STATUS_OK ? result : status_prefix(result, "%s", found->bytes ? inside : found->path);
}

static status take_picture(void *context, const picture_found *found) {
    pictures *p = context;
    void *records = p->records;
    int32_t id = p->folder;
    image_header h;
    resample_options any = any_part(p);
    record r = { 0 };
    if (found->class) TRY(find_class(p, found->class, found->class_bytes, &id));
    TRY(look_at(found, &h));
    TRY(grow(p, &records, &p->room, p->count + 1, sizeof r));
    p->records = records;
    TRY(found->bytes ? keep_cell(p, found, &r) : keep_path(p, found->path, &r.at));
    uint64_t needed = decode_bytes(&h, &any, p->options.prepare.out_width);
    if (p->scratch < needed) p->scratch = needed;
    r.class = id;
    p->records[p->count++] = r;
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
                                                  .most = o->most,
                                                  .held = list_held,
                                                  .reading = &p->reading }));
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
    memory_free(p->pages);
    memory_free(p->tables);
    memory_free(p->of_class);
    memory_free(p);
}

/* ---- samples ---- */

/* Of the pictures 0 to 8 are trained on, 9 is held out, and so on. */
static uint64_t record_of(const view *v, uint64_t sample) {
    if (v->part == PICTURES_TRAINED) return sample + sample / (EVERY - 1);
    return v->part == PICTURES_HELD_OUT ? sample * EVERY + EVERY - 1 : sample;
}

/* Parts of a sample's scratch: decoding, reading out of Parquet, and a name for sentences. */
static uint64_t scratch_bytes(const pictures *p) {
    return units_align(p->scratch, ALIGNMENT) + units_align(p->cell_scratch, ALIGNMENT) +
           units_align(p->name_bytes, ALIGNMENT);
}

/* Reads one that lies in a page, and says of the request what it is. */
static status read_cell(const pictures *p, const record *at, char *room, decode_request *r) {
    const page *in = &p->pages[at->page - 1];
    const table *of = &p->tables[in->table];
    data_file file = {
        .path = p->paths + of->path, .handle = -1, .stamp = of->stamp, .bytes = of->stamp.bytes
    };
    parquet_cell cell = { in->part, (uint32_t)at->at, at->bytes };
    char *name = room + units_align(p->cell_scratch, ALIGNMENT);
    snprintf(name, p->name_bytes, "%s, row group %u, row %u: the picture", file.path, in->group, at->row);
    r->path = name, r->byte_count = at->bytes;
    return parquet_cell_read(&file, &cell, room, &r->bytes);
}

static status decode(const pictures *p, uint64_t at, const uint64_t *place, char *scratch, float *to) {
    const prepare_options *prepare = &p->options.prepare;
    const record *of = &p->records[at];
    decode_request r = { .path = p->paths + of->at };
    if (of->page) TRY(read_cell(p, of, scratch + units_align(p->scratch, ALIGNMENT), &r));
    TRY(of->page ? image_file_look_at(r.path, r.bytes, r.byte_count, &r.header)
                 : image_file_look(r.path, &r.header));
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
                        .scratch_bytes = scratch_bytes(p),
                        .read = read_sample,
                        .held_bytes = p->counted ? 0 : pictures_held(p),
                        .ordered = part == PICTURES_DRAWN || part == PICTURES_TRAINED,
                        .state = v };
    p->counted = true;
}
