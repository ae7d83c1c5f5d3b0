#include "data/labelled_source.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "base/utf8.h"
#include "data/classes.h"
#include "data/documents/files.h"

enum {
    EVERY = 10,
    ALIGNMENT = 64,
    COLUMNS = 3,
    LABEL_KEPT = LABEL_NAMES_BYTES + 1 /* of longer ones this is enough to refuse them */
};

/* ---- memory ---- */

/* What reading takes, held against what it may take. */
typedef struct {
    uint64_t most, held;
    const labelled_tokens *tokens; /* whose encoding takes some too; NULL: nobody encodes */
} account;

static uint64_t encoding(const account *a) {
    return a->tokens && a->tokens->held ? a->tokens->held(a->tokens->context) : 0;
}

static uint64_t left(const account *a) {
    uint64_t held = a->held + encoding(a);
    return held < a->most ? a->most - held : 0;
}

static status no_room(const account *a, const char *what) {
    char most[UNITS_TEXT_BYTES];
    return status_set(STATUS_NO_FIT, "%s: reading texts with labels may take %s of the memory", what,
                      units_bytes_text(a->most, most));
}

/* Room for half as many again, or for what is needed where more has none. While the block moves there are two
 * of it. */
static status grow(account *a, void **block, uint64_t *room, uint64_t needed, size_t each, const char *what) {
    if (needed <= *room) return STATUS_OK;
    uint64_t larger = *room + *room / 2, most = left(a) / each;
    if (larger < needed || larger > most) larger = needed;
    if (larger > most) return no_room(a, what);
    void *moved = memory_resize(*block, larger, each);
    if (!moved) return status_set(STATUS_FAILED, "no memory for the texts of the data");
    a->held += (larger - *room) * each;
    *block = moved, *room = larger;
    return STATUS_OK;
}

/* Gives back what is not used. */
static void shrink(account *a, void **block, uint64_t *room, uint64_t used, size_t each) {
    void *moved = used < *room ? memory_resize(*block, used, each) : NULL;
    if (!moved) return;
    a->held -= (*room - used) * each;
    *block = moved, *room = used;
}

/* ---- columns of records ---- */

/* A string that grows; what is behind the first `keep` bytes is counted alone. */
typedef struct {
    char *bytes;
    uint64_t count, room;
    uint64_t keep, all;
} word;

static status append(account *a, word *w, const char *bytes, uint64_t count) {
    uint64_t more = w->keep - w->count < count ? w->keep - w->count : count;
    void *block = w->bytes;
    w->all += count;
    if (!more) return STATUS_OK;
    TRY(grow(a, &block, &w->room, w->count + more, 1, "its text doesn't fit"));
    w->bytes = block;
    memcpy(w->bytes + w->count, bytes, more);
    w->count += more;
    return STATUS_OK;
}

/* Who gets the strings of each record, in the order of the columns. What it says is put behind its place. */
typedef struct {
    const char *columns[COLUMNS];
    uint64_t keep[COLUMNS]; /* of their bytes */
    uint32_t count;
    uint32_t classes; /* a bit for each column: see document_options */
    status (*record)(void *context, const word *strings);
    void *context;
    account *account;
} visitor;

static status read_record(documents *d, const visitor *v, const char *path, word *strings) {
    document_piece p;
    status result = STATUS_OK;
    uint64_t number = documents_place(d).record + 1; /* when it ends, the place is the next one's */
    for (uint32_t i = 0; i < v->count; i++) strings[i].count = strings[i].all = 0;
    do {
        TRY(documents_next(d, &p));
        if (p.event == DOCUMENT_STRING) result = append(v->account, &strings[p.column], p.bytes, p.count);
    } while (result == STATUS_OK && p.event != DOCUMENT_RECORD_END);
    if (result == STATUS_OK) result = v->record(v->context, strings);
    return result == STATUS_OK ? result : status_prefix(result, "%s, record %" PRIu64, path, number);
}

static status read_records(documents *d, const visitor *v, const char *path) {
    word strings[COLUMNS] = { { .keep = v->keep[0] }, { .keep = v->keep[1] }, { .keep = v->keep[2] } };
    document_piece p;
    status result;
    do {
        result = documents_next(d, &p);
        if (result == STATUS_OK && p.event == DOCUMENT_RECORD) result = read_record(d, v, path, strings);
    } while (result == STATUS_OK && p.event != DOCUMENT_END);
    for (uint32_t i = 0; i < COLUMNS; i++) {
        v->account->held -= strings[i].room;
        memory_free(strings[i].bytes);
    }
    return result;
}

/* Opens a reader of `bytes` bytes, and all of them are read. */
static status read_file(const document_options *o, uint64_t bytes, const visitor *v) {
    documents *d = NULL;
    if (bytes > left(v->account))
        return status_prefix(no_room(v->account, "its reader doesn't fit"), "%s", o->path);
    char *block = memory_new(bytes, 1);
    if (!block) return status_set(STATUS_FAILED, "%s: no memory to read it", o->path);
    uint64_t away = (ALIGNMENT - (uintptr_t)block % ALIGNMENT) % ALIGNMENT;
    v->account->held += bytes;
    status result = documents_open(o, block + away, bytes - ALIGNMENT, &d);
    if (result == STATUS_OK) result = read_records(d, v, o->path);
    documents_close(d);
    memory_free(block);
    v->account->held -= bytes;
    return result;
}

static status visit_file(const char *path, const visitor *v) {
    document_column columns[COLUMNS];
    uint64_t bytes;
    if (document_format_of(path) == DOCUMENT_TEXT)
        return status_set(STATUS_INVALID,
                          "%s is text by its name, and a head wants records with a label each: JSON lines "
                          "(.jsonl), CSV or Parquet",
                          path);
    for (uint32_t i = 0; i < v->count; i++) columns[i] = (document_column){ .name = v->columns[i] };
    document_options o = {
        .path = path, .columns = columns, .column_count = v->count, .plain = UINT32_MAX, .classes = v->classes
    };
    TRY(documents_need(&o, &bytes));
    return read_file(&o, bytes + ALIGNMENT, v);
}

static status visit(const char *path, status (*file)(const char *, const visitor *), const visitor *v) {
    document_files files;
    TRY(document_files_open(path, DOCUMENT_AUTO, &files));
    status result = STATUS_OK;
    for (uint32_t i = 0; i < files.count && result == STATUS_OK; i++) result = file(files.paths[i], v);
    document_files_close(&files);
    return result;
}

/* ---- names ---- */

typedef struct {
    label_names *names;
    account account;
} name_reader;

/* The list of names grows to twice its size, and while it moves there are two of it. */
static status count_names(name_reader *r, uint64_t before) {
    r->account.held += r->names->held_bytes - before;
    return 2 * r->names->held_bytes <= left(&r->account)
               ? STATUS_OK
               : no_room(&r->account, "the names of the labels don't fit");
}

static status note_name(void *context, const word *strings) {
    name_reader *r = context;
    uint64_t before = r->names->held_bytes;
    TRY(classes_add(r->names, strings[0].bytes, strings[0].all));
    return count_names(r, before);
}

/* Where files name their classes, these are all. */
static status note_class(void *context, const char *name, uint64_t bytes) {
    name_reader *r = context;
    uint64_t before = r->names->held_bytes;
    TRY(label_names_add(r->names, name, bytes, NULL));
    return count_names(r, before);
}

static status names_of_file(const char *path, const visitor *v) {
    name_reader *r = v->context;
    bool told = false;
    document_column column = { .name = v->columns[0] };
    document_options o = { .path = path, .columns = &column, .column_count = 1, .plain = 1, .classes = 1 };
    if (document_format_of(path) == DOCUMENT_TEXT) return visit_file(path, v);
    TRY(classes_of_file(r->names, &o, note_class, r, &told));
    return told ? STATUS_OK : visit_file(path, v);
}

status labelled_names(const char *path, const char *column, uint64_t most, label_names *names) {
    name_reader r = { .names = names, .account = { .most = most } };
    return visit(path, names_of_file,
                 &(visitor){ .columns = { column },
                             .keep = { LABEL_KEPT },
                             .count = 1,
                             .classes = 1,
                             .record = note_name,
                             .context = &r,
                             .account = &r.account });
}

/* ---- records in memory ---- */

typedef struct {
    uint64_t end;   /* of its ids, behind those of the record before */
    uint32_t first; /* of two texts: how many ids the first one has */
    union {
        int32_t class;
        float number;
    };
} record;

struct labelled {
    labelled_options options;
    labelled_tokens tokens;
    account account;
    record *records;
    uint64_t count, room;
    int32_t *ids;
    uint64_t id_count, id_room;
    uint64_t cut, longest;
    bool counted; /* a source says already what is held */
};

uint64_t labelled_held(const labelled *l) {
    return sizeof *l + l->room * sizeof *l->records + l->id_room * sizeof *l->ids;
}

/* Ids of a text, or of one of two; NULL where its bytes are. It may take what nothing else holds. */
static status encode(const labelled *l, const word *w, const uint32_t **ids, uint64_t *count) {
    const labelled_tokens *t = &l->tokens;
    *ids = NULL, *count = w->all;
    if (!t->encode) return STATUS_OK;
    if (t->limit) t->limit(t->context, encoding(&l->account) + left(&l->account));
    status result = (l->options.pair ? t->encode_one : t->encode)(t->context, w->bytes ? w->bytes : "",
                                                                  w->count, ids, count);
    return result == STATUS_NO_FIT ? no_room(&l->account, "its text doesn't fit as tokens") : result;
}

static status room_for_ids(labelled *l, uint64_t more) {
    void *block = l->ids;
    status result = grow(&l->account, &block, &l->id_room, l->id_count + more, sizeof *l->ids,
                         "the texts that labels are given of don't fit as tokens");
    l->ids = block;
    return result;
}

static void note_length(labelled *l, uint64_t count) {
    l->cut += count > l->options.context;
    if (l->longest < count) l->longest = count;
}

static status take_ids(labelled *l, const word *w) {
    const uint32_t *ids;
    uint64_t count, context = l->options.context;
    TRY(encode(l, w, &ids, &count));
    if (!count) return status_set(STATUS_INVALID, "the text has no token");
    bool cut = count > context;
    uint64_t kept = cut ? context : count, behind = cut ? l->tokens.behind : 0;
    TRY(room_for_ids(l, kept));
    for (uint64_t i = 0; i < kept; i++) {
        uint64_t at = i + behind < kept ? i : count - (kept - i);
        uint32_t id = ids ? ids[at] : (unsigned char)w->bytes[i];
        if (id >= l->options.vocabulary)
            return status_set(STATUS_INVALID, "the text has a token %u, and the model has %u", id,
                              l->options.vocabulary);
        l->ids[l->id_count++] = (int32_t)id;
    }
    note_length(l, count);
    return STATUS_OK;
}

/* ---- two texts ---- */

static uint64_t around(const labelled_tokens *t) {
    return (uint64_t)t->first.count + t->between.count + t->last.count;
}

static void put_around(labelled *l, const labelled_around *a) {
    if (!a->count) return; /* there may be no ids yet, and no memory for them */
    memcpy(l->ids + l->id_count, a->id, a->count * sizeof *a->id);
    l->id_count += a->count;
}

/* All ids of one of the texts, and room for what stands around both. */
static status put_text(labelled *l, const word *w, uint64_t *count) {
    const uint32_t *ids;
    TRY(encode(l, w, &ids, count));
    TRY(room_for_ids(l, *count + around(&l->tokens)));
    for (uint64_t i = 0; i < *count; i++) {
        if (ids[i] >= l->options.vocabulary)
            return status_set(STATUS_INVALID, "the text has a token %u, and the model has %u", ids[i],
                              l->options.vocabulary);
        l->ids[l->id_count++] = (int32_t)ids[i];
    }
    return STATUS_OK;
}

/* What stays of two texts: the longer one gives way until they are as long as each other, then both do. */
static void cut_two(uint64_t most, uint64_t *first, uint64_t *second) {
    uint64_t *shorter = *first > *second ? second : first, *longer = shorter == first ? second : first;
    if (*first + *second <= most) return;
    if (*shorter <= most / 2) {
        *longer = most - *shorter;
    } else {
        *shorter = most / 2;
        *longer = most / 2 + most % 2;
    }
}

static status take_two(labelled *l, const word *first, const word *second, record *r) {
    const labelled_tokens *t = &l->tokens;
    uint64_t begin = l->id_count + t->first.count, count[2], kept[2];
    TRY(room_for_ids(l, around(t)));
    put_around(l, &t->first);
    TRY(put_text(l, first, &count[0]));
    uint64_t behind = l->id_count;
    put_around(l, &t->between);
    uint64_t other = l->id_count;
    TRY(put_text(l, second, &count[1]));
    if (!count[0] && !count[1]) return status_set(STATUS_INVALID, "neither of its texts has a token");
    kept[0] = count[0], kept[1] = count[1];
    cut_two(l->options.context - around(t), &kept[0], &kept[1]);
    memmove(l->ids + begin + kept[0], l->ids + behind, (other - behind + kept[1]) * sizeof *l->ids);
    l->id_count = begin + kept[0] + (other - behind) + kept[1];
    put_around(l, &t->last);
    r->first = (uint32_t)kept[0];
    note_length(l, count[0] + count[1] + around(t));
    return STATUS_OK;
}

static status take_label(const labelled *l, const word *w, record *r) {
    const label_names *names = l->options.names;
    char shown[UTF8_QUOTE_BYTES], copy[64];
    double value;
    snprintf(copy, sizeof copy, "%.*s", w->count < sizeof copy ? (int)w->count : (int)sizeof copy - 1,
             w->bytes ? w->bytes : "");
    if (names) {
        int64_t id = label_names_find(names, w->bytes, w->count);
        r->class = (int32_t)id;
        return id >= 0 ? STATUS_OK
                       : status_set(STATUS_INVALID, "the label '%s' is none of the %u that the head has",
                                    utf8_quote(copy, shown), names->count);
    }
    if (!label_names_number(w->bytes, w->count, &value))
        return status_set(STATUS_INVALID, "the label '%s' is no number, which a score is",
                          utf8_quote(copy, shown));
    r->number = (float)value;
    return isfinite(r->number)
               ? STATUS_OK
               : status_set(STATUS_INVALID, "the label '%s' is too large a number", utf8_quote(copy, shown));
}

static status take_record(void *context, const word *strings) {
    labelled *l = context;
    void *block = l->records;
    record r = { 0 };
    TRY(take_label(l, &strings[1], &r));
    TRY(l->options.pair ? take_two(l, &strings[0], &strings[2], &r) : take_ids(l, &strings[0]));
    TRY(grow(&l->account, &block, &l->room, l->count + 1, sizeof *l->records,
             "the records of the data don't fit"));
    l->records = block;
    r.end = l->id_count;
    l->records[l->count++] = r;
    return STATUS_OK;
}

static status read_all_records(labelled *l) {
    const labelled_options *o = &l->options;
    void *records, *ids;
    TRY(visit(o->path, visit_file,
              &(visitor){ .columns = { o->text, o->label, o->pair },
                          .keep = { l->tokens.encode ? UINT64_MAX : o->context, LABEL_KEPT, UINT64_MAX },
                          .count = o->pair ? 3 : 2,
                          .classes = o->names ? 2 : 0,
                          .record = take_record,
                          .context = l,
                          .account = &l->account }));
    if (!l->count) return status_set(STATUS_INVALID, "%s has no record", o->path);
    records = l->records, ids = l->ids;
    shrink(&l->account, &records, &l->room, l->count, sizeof *l->records);
    shrink(&l->account, &ids, &l->id_room, l->id_count, sizeof *l->ids);
    l->records = records, l->ids = ids;
    return STATUS_OK;
}

status labelled_open(const labelled_options *o, const labelled_tokens *t, labelled **out) {
    *out = NULL;
    uint32_t beside = o->pair ? (uint32_t)around(t) : t->before + t->behind;
    if (o->context <= beside)
        return status_set(STATUS_INVALID,
                          "--context %u has no room for text beside the %u tokens that stand around it",
                          o->context, beside);
    labelled *l = memory_new(1, sizeof *l);
    if (!l) return status_set(STATUS_FAILED, "no memory for the texts of the data");
    l->options = *o, l->tokens = *t;
    l->account = (account){ .most = o->most, .held = sizeof *l, .tokens = &l->tokens };
    status result = read_all_records(l);
    if (result == STATUS_OK)
        *out = l;
    else
        labelled_close(l);
    return result;
}

void labelled_close(labelled *l) {
    if (!l) return;
    memory_free(l->records);
    memory_free(l->ids);
    memory_free(l);
}

uint64_t labelled_records(const labelled *l) { return l->count; }
uint64_t labelled_cut(const labelled *l) { return l->cut; }
uint64_t labelled_longest(const labelled *l) { return l->longest; }

/* ---- samples ---- */

static uint64_t held_out(const labelled *l) { return l->count / EVERY; }

/* Of the records 0 to 8 are trained on, 9 is held out, and so on. */
static uint64_t record_trained(uint64_t sample) { return sample + sample / (EVERY - 1); }
static uint64_t record_held_out(uint64_t sample) { return sample * EVERY + EVERY - 1; }

/* Of which of two texts each token is. */
static void put_types(const labelled *l, const record *r, uint64_t count, int32_t *types) {
    const labelled_tokens *t = &l->tokens;
    const labelled_around *runs[] = { &t->first, &t->between, &t->last };
    uint64_t texts[] = { r->first, count - r->first - around(t), 0 }, at = 0;
    for (int k = 0; k < 3; k++) {
        for (uint32_t i = 0; i < runs[k]->count; i++) types[at++] = runs[k]->type[i];
        for (uint64_t i = 0; i < texts[k]; i++) types[at++] = t->type[k];
    }
    for (; at < l->options.context; at++) types[at] = 0;
}

static status read_at(const labelled *l, uint64_t at, void *const fields[]) {
    uint64_t first = at ? l->records[at - 1].end : 0, count = l->records[at].end - first,
             context = l->options.context;
    int32_t *ids = fields[0], *third = fields[2], place = 0;
    for (uint64_t i = 0; i < context; i++) {
        ids[i] = i < count ? l->ids[first + i] : l->tokens.padding;
        if (l->options.segments) third[i] = i >= count;
        if (ids[i] != l->tokens.padding) place = (int32_t)i;
    }
    if (!l->options.segments) *third = place;
    if (l->options.types) put_types(l, &l->records[at], count, fields[3]);
    if (l->options.names)
        *(int32_t *)fields[1] = l->records[at].class;
    else
        *(float *)fields[1] = l->records[at].number;
    return STATUS_OK;
}

static status read_all(const data_source *s, uint64_t sample, void *scratch, void *const fields[]) {
    (void)scratch;
    return read_at(s->state, sample, fields);
}

static status read_trained(const data_source *s, uint64_t sample, void *scratch, void *const fields[]) {
    (void)scratch;
    return read_at(s->state, record_trained(sample), fields);
}

static status read_held_out(const data_source *s, uint64_t sample, void *scratch, void *const fields[]) {
    (void)scratch;
    return read_at(s->state, record_held_out(sample), fields);
}

void labelled_source(labelled *l, labelled_part part, data_source *s) {
    uint64_t tokens = l->options.context * sizeof(int32_t);
    *s = (data_source){ .samples = l->count,
                        .field_count = l->options.types ? 4 : 3,
                        .label_field = l->options.names ? 1 : DATA_NO_LABELS,
                        .field_bytes = { tokens, sizeof(int32_t),
                                         l->options.segments ? tokens : sizeof(int32_t), tokens },
                        .read = read_all,
                        .held_bytes = l->counted ? 0 : labelled_held(l),
                        .state = l };
    l->counted = true;
    if (part == LABELLED_TRAINED) s->samples = l->count - held_out(l), s->read = read_trained;
    if (part == LABELLED_HELD_OUT) s->samples = held_out(l), s->read = read_held_out;
}
