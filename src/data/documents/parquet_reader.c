/* Parquet: records out of columns. Each column that is wanted has a cursor of its own; a record takes from
 * each what belongs to it, a list item by item, so that the members of a struct come together. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "data/documents/parquet_classes.h"
#include "data/documents/parquet_leaf.h"

typedef enum { BEFORE, COLUMN, ITEM, MEMBER, STRING, RECORD_ENDS, ENDED } place;

typedef struct {
    parquet_file file;
    parquet_leaf leaves[PARQUET_LEAVES];
    parquet_chunk chunks[PARQUET_LEAVES];
    parquet_shared shared;
    parquet_classes classes[DOCUMENT_COLUMNS];
    uint64_t group_at;  /* offset of the description of the next group */
    uint32_t group;     /* the next one */
    uint64_t rows, row; /* of the group that is read */
    place at;
    uint32_t column, leaf, item; /* leaf: the next one of the column's */
    bool first;                  /* item: is it */
    bool is_list;                /* of members: else of one struct */
    const char *bytes;           /* of a string: what is left of it */
    uint32_t count;
} state;

/* ---- what it takes ---- */

typedef struct {
    parquet_file file;
    parquet_chunk chunks[PARQUET_LEAVES];
    parquet_leaf_need needs[PARQUET_LEAVES];
    parquet_shared_need shared;
    parquet_classes classes[DOCUMENT_COLUMNS];
} measured;

static bool has_classes(const parquet_column *c, const documents *d) {
    return parquet_number_whole(c->kind) && d->options.classes >> c->column & 1;
}

static status measure_classes(const parquet_file *p, parquet_classes classes[DOCUMENT_COLUMNS]) {
    for (uint32_t i = 0; i < p->leaf_count; i++) {
        uint32_t column = p->leaves[i].column;
        if (has_classes(&p->leaves[i], p->of))
            TRY(parquet_classes_measure(p, p->of->options.columns[column].name, &classes[column]));
    }
    return STATUS_OK;
}

static status read_classes(const parquet_file *p, document_room *room,
                           parquet_classes classes[DOCUMENT_COLUMNS]) {
    for (uint32_t c = 0; c < p->of->options.column_count; c++)
        if (classes[c].count) TRY(parquet_classes_read(p, p->of->options.columns[c].name, room, &classes[c]));
    return STATUS_OK;
}

/* Looks at the headers of all pages that will be read. */
static status measure(documents *d, measured *m) {
    uint64_t packed[PARQUET_LEAVES] = { 0 }, rows;
    TRY(parquet_file_open(&m->file, d));
    TRY(measure_classes(&m->file, m->classes));
    uint64_t at = m->file.first_group;
    for (uint32_t g = 0; g < m->file.group_count; g++) {
        TRY(parquet_group_read(&m->file, &at, m->chunks, &rows));
        for (uint32_t i = 0; i < m->file.leaf_count; i++) {
            packed[i] += m->chunks[i].end - m->chunks[i].start;
            if (packed[i] > d->file.bytes)
                return status_set(STATUS_INVALID, "%s: the row groups together are larger than the file",
                                  d->file.path);
            TRY(parquet_leaf_measure(d, &m->chunks[i], &m->needs[i], &m->shared));
        }
    }
    return STATUS_OK;
}

static void lay_out_leaf(document_room *room, const measured *m, uint32_t i, state *s) {
    const parquet_leaf_need *n = &m->needs[i];
    parquet_leaf l = { .need = *n };
    l.page = document_room_take(room, n->page);
    l.dictionary = document_room_take(room, n->dictionary);
    l.entries = document_room_take(room, n->entries * sizeof *l.entries);
    l.joined = document_room_take(room, n->joined);
    if (s) s->leaves[i] = l;
}

static status inspect(documents *d, document_room *room) {
    measured m = { 0 };
    uint64_t unpacking = 0;
    TRY(measure(d, &m));
    state *s = document_room_take(room, sizeof *s);
    d->state = s;
    if (s) *s = (state){ .file = m.file };
    for (uint32_t i = 0; i < m.file.leaf_count; i++) lay_out_leaf(room, &m, i, s);
    for (int c = 0; c < PARQUET_CODECS; c++)
        if (unpacking < m.shared.unpacking[c]) unpacking = m.shared.unpacking[c];
    parquet_shared shared = { .packed = document_room_take(room, m.shared.packed),
                              .unpacking = document_room_take(room, unpacking) };
    if (s) s->shared = shared;
    TRY(read_classes(&m.file, room, m.classes));
    if (s) memcpy(s->classes, m.classes, sizeof s->classes);
    return STATUS_OK;
}

/* ---- records ---- */

static status wrong_row(const documents *d, const char *why) {
    const state *s = d->state;
    char name[UTF8_QUOTE_BYTES];
    return status_set(STATUS_INVALID, "%s, row group %" PRIu64 ", row %" PRIu64 ": %s %s", d->file.path,
                      d->place.offset, d->place.line, utf8_quote(d->options.columns[s->column].name, name),
                      why);
}

static status next_group(documents *d) {
    state *s = d->state;
    TRY(parquet_group_read(&s->file, &s->group_at, s->chunks, &s->rows));
    s->row = 0;
    for (uint32_t i = 0; i < s->file.leaf_count; i++)
        parquet_leaf_begin(&s->leaves[i], &s->chunks[i], s->group);
    s->group++;
    return STATUS_OK;
}

/* A column must have no more values than the rows took. */
static status end_group(documents *d) {
    state *s = d->state;
    bool there;
    for (uint32_t i = 0; i < s->file.leaf_count; i++) {
        TRY(parquet_leaf_peek(&s->leaves[i], &there));
        if (there)
            return parquet_leaf_wrong(&s->leaves[i], "the column has more values than its row group rows");
    }
    return STATUS_OK;
}

static status find_record(documents *d, document_piece *p) {
    state *s = d->state;
    while (s->row == s->rows) {
        if (s->group) TRY(end_group(d));
        if (s->group == s->file.group_count) {
            s->at = ENDED;
            *p = (document_piece){ .event = DOCUMENT_END };
            return STATUS_OK;
        }
        TRY(next_group(d));
    }
    d->place = (document_place){ .record = d->place.record, .offset = s->group - 1, .line = s->row };
    s->column = 0;
    s->at = COLUMN;
    *p = (document_piece){ .event = DOCUMENT_RECORD };
    return STATUS_OK;
}

/* The next leaf of the column, from `leaf` on; leaf_count: there is none. */
static uint32_t leaf_of(const state *s, uint32_t leaf) {
    while (leaf < s->file.leaf_count && s->file.leaves[leaf].column != s->column) leaf++;
    return leaf;
}

static status peek(documents *d, uint32_t leaf) {
    state *s = d->state;
    bool there;
    TRY(parquet_leaf_peek(&s->leaves[leaf], &there));
    return there
               ? STATUS_OK
               : parquet_leaf_wrong(&s->leaves[leaf], "the column has fewer values than its row group rows");
}

/* The record has none of it. */
static status pass_column(state *s) {
    s->column++;
    s->at = COLUMN;
    return STATUS_OK;
}

/* In place of a number the name of the class that it stands for. */
static status name_class(documents *d, const parquet_leaf *l) {
    state *s = d->state;
    const parquet_classes *c = &s->classes[s->column];
    char why[96];
    if (!c->count) return STATUS_OK;
    if (l->number < 0 || (uint64_t)l->number >= c->count) {
        snprintf(why, sizeof why, "is %" PRId64 ", and the file names classes from 0 to %" PRIu64, l->number,
                 c->count - 1);
        return wrong_row(d, why);
    }
    uint64_t start = l->number ? c->ends[l->number - 1] : 0;
    s->bytes = c->text + start;
    s->count = (uint32_t)(c->ends[l->number] - start);
    return STATUS_OK;
}

static status begin_column(documents *d) {
    state *s = d->state;
    if (s->column == d->options.column_count) {
        s->at = RECORD_ENDS;
        return STATUS_OK;
    }
    s->leaf = leaf_of(s, 0);
    bool optional = d->options.optional >> s->column & 1;
    if (optional && s->leaf == s->file.leaf_count) return pass_column(s);
    parquet_leaf *l = &s->leaves[s->leaf];
    TRY(peek(d, s->leaf));
    s->is_list = l->column->is_list;
    if (s->is_list) {
        s->item = 0;
        s->first = true;
        s->at = ITEM;
        return STATUS_OK;
    }
    if (l->column->member[0]) {
        s->at = MEMBER;
        return STATUS_OK;
    }
    bool none = l->definition_level < l->column->value_level;
    if (none && !optional) return wrong_row(d, "is null");
    s->at = STRING;
    TRY(parquet_leaf_take(l, &s->bytes, &s->count));
    return none ? pass_column(s) : name_class(d, l);
}

/* What a leaf says of the item that comes: it is one, the list is empty, or the list has ended. */
typedef enum { IS_ITEM, IS_EMPTY, IS_BEHIND } next_is;

static status look_at_item(documents *d, uint32_t leaf, next_is *is) {
    state *s = d->state;
    parquet_leaf *l = &s->leaves[leaf];
    bool there;
    TRY(parquet_leaf_peek(l, &there));
    *is = IS_BEHIND;
    if (!s->first && (!there || l->repetition_level == 0)) return STATUS_OK;
    if (!there) return peek(d, leaf); /* says that it is missing */
    if (s->first && l->repetition_level) return parquet_leaf_wrong(l, "a row begins inside of a list");
    *is = IS_ITEM;
    if (l->definition_level >= l->column->struct_level) return STATUS_OK;
    if (l->definition_level >= l->column->item_level) return wrong_row(d, "has a null among its structs");
    if (l->definition_level < l->column->list_level) return wrong_row(d, "is null");
    if (!s->first) return parquet_leaf_wrong(l, "an empty list goes on");
    *is = IS_EMPTY;
    return STATUS_OK;
}

static status next_item(documents *d, document_piece *p, bool *made) {
    state *s = d->state;
    next_is first, is;
    uint32_t leaf = leaf_of(s, 0);
    TRY(look_at_item(d, leaf, &first));
    while ((leaf = leaf_of(s, leaf + 1)) < s->file.leaf_count) {
        TRY(look_at_item(d, leaf, &is));
        if (is != first) return wrong_row(d, "has members that are not equally many");
    }
    *made = first == IS_ITEM;
    s->leaf = leaf_of(s, 0);
    if (first == IS_ITEM) {
        if (!s->first) s->item++;
        s->first = false;
        s->at = MEMBER;
        *p = (document_piece){ .event = DOCUMENT_ITEM, .column = s->column, .item = s->item };
        return STATUS_OK;
    }
    for (leaf = leaf_of(s, 0); first == IS_EMPTY && leaf < s->file.leaf_count; leaf = leaf_of(s, leaf + 1))
        TRY(parquet_leaf_take(&s->leaves[leaf], &s->bytes, &s->count));
    return pass_column(s);
}

/* One that is null is not there. */
static status next_member(documents *d) {
    state *s = d->state;
    if (s->leaf == s->file.leaf_count) {
        s->at = ITEM;
        return s->is_list ? STATUS_OK : pass_column(s);
    }
    parquet_leaf *l = &s->leaves[s->leaf];
    TRY(peek(d, s->leaf));
    TRY(parquet_leaf_take(l, &s->bytes, &s->count));
    if (s->bytes) {
        s->at = STRING;
        if (!s->is_list) d->cell = parquet_leaf_cell(l, s->bytes, s->count);
    } else
        s->leaf = leaf_of(s, s->leaf + 1);
    return STATUS_OK;
}

static void give_string(documents *d, document_piece *p) {
    state *s = d->state;
    const parquet_column *c = &s->file.leaves[s->leaf];
    uint32_t count = s->count < d->options.piece_bytes ? s->count : d->options.piece_bytes;
    *p = (document_piece){ .event = DOCUMENT_STRING,
                           .column = s->column,
                           .item = c->is_list ? s->item : 0,
                           .member = c->member[0] ? c->member : NULL,
                           .bytes = s->bytes,
                           .count = count,
                           .last = count == s->count };
    s->bytes += count, s->count -= count;
    if (!p->last) return;
    s->at = c->member[0] ? MEMBER : COLUMN;
    if (c->member[0])
        s->leaf = leaf_of(s, s->leaf + 1);
    else
        s->column++;
}

static status next(documents *d, document_piece *p) {
    state *s = d->state;
    for (bool made = false; !made;) {
        switch (s->at) {
        case BEFORE: return find_record(d, p);
        case COLUMN: TRY(begin_column(d)); break;
        case ITEM: TRY(next_item(d, p, &made)); break;
        case MEMBER: TRY(next_member(d)); break;
        case STRING: give_string(d, p); return STATUS_OK;
        case RECORD_ENDS:
            s->at = BEFORE;
            s->row++;
            d->place.record++;
            *p = (document_piece){ .event = DOCUMENT_RECORD_END };
            return STATUS_OK;
        case ENDED: *p = (document_piece){ .event = DOCUMENT_END }; return STATUS_OK;
        }
    }
    return STATUS_OK;
}

/* ---- beginning ---- */

static status begin(documents *d) {
    state *s = d->state;
    s->file.of = d;
    for (uint32_t i = 0; i < s->file.leaf_count; i++) {
        s->leaves[i].of = d;
        s->leaves[i].column = &s->file.leaves[i];
        s->leaves[i].shared = &s->shared;
    }
    s->group_at = s->file.first_group;
    s->group = 0;
    s->rows = s->row = 0;
    s->at = BEFORE;
    d->place = (document_place){ 0 };
    return STATUS_OK;
}

/* Rows before it in its group are read and dropped. */
static status seek(documents *d, document_place to) {
    state *s = d->state;
    document_piece p;
    TRY(begin(d));
    if (to.record == 0) return STATUS_OK;
    if (to.offset >= s->file.group_count)
        return status_set(STATUS_INVALID, "%s has no row group %" PRIu64, d->file.path, to.offset);
    while (s->group <= to.offset) TRY(next_group(d));
    if (to.line >= s->rows)
        return status_set(STATUS_INVALID, "%s has no row %" PRIu64 " in row group %" PRIu64, d->file.path,
                          to.line, to.offset);
    while (s->row < to.line) TRY(next(d, &p));
    d->place = to;
    return STATUS_OK;
}

static status tell_classes(documents *d, uint32_t column, document_class *each, void *context) {
    parquet_file p = { 0 };
    TRY(parquet_file_open(&p, d));
    for (uint32_t i = 0; i < p.leaf_count; i++)
        if (p.leaves[i].column == column && has_classes(&p.leaves[i], d))
            return parquet_classes_each(&p, d->options.columns[column].name, each, context);
    return STATUS_OK;
}

const document_reader document_reader_parquet = { .name = "parquet",
                                                  .suffixes = { ".parquet", ".pq" },
                                                  .packs = true,
                                                  .many = true,
                                                  .inspect = inspect,
                                                  .begin = begin,
                                                  .next = next,
                                                  .seek = seek,
                                                  .classes = tell_classes };
