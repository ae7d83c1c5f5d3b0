#include "data/documents/parquet_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"

enum { MAGIC = 4, TAIL = 8 };
enum { REQUIRED = 0, OPTIONAL = 1, REPEATED = 2, NO_REPETITION = -1 };
enum { BOOLEAN = 0, INT32 = 1, INT64 = 2, FLOAT = 4, DOUBLE = 5, BYTE_ARRAY = 6, NO_TYPE = -1 };
enum {
    CONVERTED_TEXT = 0,
    CONVERTED_LIST = 3,
    CONVERTED_DECIMAL = 5,
    CONVERTED_U8 = 11,
    CONVERTED_U64 = 14,
    CONVERTED_I8 = 15
};
enum { CONVERTED_I64 = 18 };

static status wrong(const parquet_file *p, const char *why) { return thrift_wrong(&p->reading, why); }

/* ---- where things stand ---- */

static status find_footer(parquet_file *p, const data_file *f) {
    unsigned char tail[TAIL], head[MAGIC];
    if (f->bytes < MAGIC + TAIL) return status_set(STATUS_INVALID, "%s is too short to be Parquet", f->path);
    TRY(format_pread(f, 0, head, MAGIC));
    TRY(format_pread(f, f->bytes - TAIL, tail, TAIL));
    if (memcmp(tail + 4, "PARE", MAGIC) == 0)
        return status_set(STATUS_INVALID, "%s is encrypted; decrypt it first", f->path);
    if (memcmp(head, "PAR1", MAGIC) != 0 || memcmp(tail + 4, "PAR1", MAGIC) != 0)
        return status_set(STATUS_INVALID,
                          "%s is no Parquet, or is cut short: it does not begin and end with PAR1", f->path);
    uint64_t bytes = tail[0] | (uint64_t)tail[1] << 8 | (uint64_t)tail[2] << 16 | (uint64_t)tail[3] << 24;
    if (bytes > f->bytes - MAGIC - TAIL)
        return status_set(STATUS_INVALID,
                          "%s says that its footer has %" PRIu64 " bytes, and it has only %" PRIu64, f->path,
                          bytes, f->bytes);
    p->footer_end = f->bytes - TAIL;
    p->footer = p->footer_end - bytes;
    return STATUS_OK;
}

/* Of the texts that are kept beside the columns, by a name each, that of Hugging Face's datasets. */
static status find_classes(parquet_file *p, const thrift_field *field) {
    thrift *t = &p->reading;
    uint32_t count;
    TRY(thrift_list(t, field, THRIFT_STRUCT, &count));
    while (count-- > 0) {
        thrift_field f = { 0 };
        uint64_t start = 0, end = 0;
        char key[16] = "";
        for (;;) {
            TRY(thrift_next(t, &f));
            if (f.type == THRIFT_STOP) break;
            bool cut;
            if (f.id == 1)
                TRY(thrift_text(t, &f, key, sizeof key, &cut));
            else if (f.id == 2)
                TRY(thrift_place_of_text(t, &f, &start, &end));
            else
                TRY(thrift_skip(t, &f));
        }
        if (strcmp(key, "huggingface") == 0) p->classes = start, p->classes_end = end;
    }
    return STATUS_OK;
}

/* Notes where the schema and the row groups are described; both are there once. */
static status find_parts(parquet_file *p, const data_file *file, uint64_t *schema, uint32_t *elements) {
    thrift *t = &p->reading;
    thrift_field f = { 0 };
    thrift_begin(t, file, "the footer", p->footer, p->footer_end);
    for (;;) {
        TRY(thrift_next(t, &f));
        if (f.type == THRIFT_STOP) break;
        uint32_t count;
        uint64_t from = thrift_place(t);
        if (f.id == 8) return status_set(STATUS_INVALID, "%s is encrypted; decrypt it first", file->path);
        if (f.id == 5 && p->of->options.classes) {
            TRY(find_classes(p, &f));
            continue;
        }
        if (f.id == 2 || f.id == 4) {
            TRY(thrift_list(t, &f, THRIFT_STRUCT, &count));
            if (f.id == 2) *schema = thrift_place(t), *elements = count;
            if (f.id == 4) p->first_group = thrift_place(t), p->group_count = count;
            thrift_begin(t, file, "the footer", from, p->footer_end);
        }
        TRY(thrift_skip(t, &f));
    }
    if (!*elements) return wrong(p, "it has no schema");
    return p->first_group ? STATUS_OK : wrong(p, "it has no row groups");
}

/* ---- the schema ---- */

typedef struct {
    int64_t type, repetition, children, converted;
    bool is_list, is_text;
    char name[DOCUMENT_NAME];
} element;

/* { 1: bits, 2: is it signed } */
static status read_integer(parquet_file *p, const thrift_field *field, element *e) {
    thrift_field f = { 0 };
    bool is_signed = true;
    if (field->type != THRIFT_STRUCT) return wrong(p, "a logical type is no struct");
    for (;;) {
        TRY(thrift_next(&p->reading, &f));
        if (f.type == THRIFT_STOP) break;
        if (f.id == 2)
            TRY(thrift_bool(&p->reading, &f, &is_signed));
        else
            TRY(thrift_skip(&p->reading, &f));
    }
    e->converted = is_signed ? CONVERTED_I64 : CONVERTED_U64;
    return STATUS_OK;
}

/* LogicalType is a union: the field that is there says which; a STRING is its first, a LIST its third, an
 * INTEGER its tenth. What is written as a number and is none (DECIMAL, DATE, TIME, TIMESTAMP) is told as the
 * first of these. */
static status read_logical(parquet_file *p, const thrift_field *field, element *e) {
    thrift_field f = { 0 };
    if (field->type != THRIFT_STRUCT) return wrong(p, "a logical type is no struct");
    for (;;) {
        TRY(thrift_next(&p->reading, &f));
        if (f.type == THRIFT_STOP) return STATUS_OK;
        e->is_list = e->is_list || f.id == 3;
        e->is_text = e->is_text || f.id == 1;
        if (f.id >= 5 && f.id <= 8) e->converted = CONVERTED_DECIMAL;
        if (f.id == 10)
            TRY(read_integer(p, &f, e));
        else
            TRY(thrift_skip(&p->reading, &f));
    }
}

static status read_element(parquet_file *p, element *e) {
    thrift *t = &p->reading;
    thrift_field f = { 0 };
    bool cut;
    *e = (element){ .type = NO_TYPE, .repetition = NO_REPETITION, .converted = -1 };
    for (;;) {
        TRY(thrift_next(t, &f));
        switch (f.type == THRIFT_STOP ? 0 : f.id) {
        case 0:
            e->is_list = e->is_list || e->converted == CONVERTED_LIST;
            e->is_text = e->is_text || e->converted == CONVERTED_TEXT;
            return STATUS_OK;
        case 1: TRY(thrift_whole(t, &f, 0, 7, &e->type)); break;
        case 3: TRY(thrift_whole(t, &f, 0, 2, &e->repetition)); break;
        case 4: /* what is cut is longer than any name that can be asked for, and stays different from it */
            TRY(thrift_text(t, &f, e->name, sizeof e->name, &cut));
            if (cut) e->name[0] = 0;
            break;
        case 5: TRY(thrift_whole(t, &f, 0, INT32_MAX, &e->children)); break;
        case 6: TRY(thrift_whole(t, &f, 0, INT32_MAX, &e->converted)); break;
        case 10: TRY(read_logical(p, &f, e)); break;
        default: TRY(thrift_skip(t, &f));
        }
    }
}

/* Reading a schema: its elements come parents first. */
typedef struct {
    uint32_t left; /* elements that were not read yet */
    uint32_t leaf; /* the number of the next leaf */
    uint32_t definition, repetition;
} walk;

static status next_element(parquet_file *p, walk *w, element *e) {
    if (!w->left) return wrong(p, "the schema ends too early");
    w->left--;
    TRY(read_element(p, e));
    if (e->children == 0 && e->type == NO_TYPE)
        return wrong(p, "a column of the schema has neither type nor parts");
    if (e->children > 0 && e->type != NO_TYPE) return wrong(p, "a group of the schema has a type");
    if (e->children == 0) w->leaf++;
    return STATUS_OK;
}

/* Passes over all that lies under an element that was read. */
static status skip_below(parquet_file *p, walk *w, const element *e) {
    for (uint64_t left = (uint64_t)e->children; left > 0; left--) {
        element child;
        TRY(next_element(p, w, &child));
        left += (uint64_t)child.children;
        if (left > w->left + 1ull) return wrong(p, "the schema has fewer columns than it says");
    }
    return STATUS_OK;
}

static status not_so(const parquet_file *p, uint32_t column, const char *member, const char *why) {
    char name[UTF8_QUOTE_BYTES], inner[UTF8_QUOTE_BYTES];
    return status_set(STATUS_INVALID, "%s: the column %s%s%s %s", p->of->options.path,
                      utf8_quote(p->of->options.columns[column].name, name), member ? "." : "",
                      member ? utf8_quote(member, inner) : "", why);
}

static bool is_string(const element *e) {
    return e->children == 0 && e->type == BYTE_ARRAY && e->repetition != REPEATED &&
           e->converted != CONVERTED_DECIMAL;
}

/* Days, times and sums of money are written as numbers too, and say so. */
static bool is_number(const element *e, parquet_kind *kind) {
    bool is_unsigned = e->converted >= CONVERTED_U8 && e->converted <= CONVERTED_U64;
    if (e->children || e->repetition == REPEATED) return false;
    if (e->converted >= 0 && !is_unsigned && (e->converted < CONVERTED_I8 || e->converted > CONVERTED_I64))
        return false;
    switch (e->type) {
    case BOOLEAN: *kind = PARQUET_BOOL; return true;
    case INT32: *kind = is_unsigned ? PARQUET_U32 : PARQUET_I32; return true;
    case INT64: *kind = is_unsigned ? PARQUET_U64 : PARQUET_I64; return true;
    case FLOAT: *kind = PARQUET_F32; return true;
    case DOUBLE: *kind = PARQUET_F64; return true;
    default: return false;
    }
}

static status add_leaf(parquet_file *p, const parquet_column *leaf) {
    if (p->leaf_count == PARQUET_LEAVES)
        return status_set(STATUS_INVALID, "%s: more than %d columns of strings are wanted at once",
                          p->of->options.path, PARQUET_LEAVES);
    p->leaves[p->leaf_count++] = *leaf;
    return STATUS_OK;
}

static status add_string(parquet_file *p, walk *w, const element *e, uint32_t column) {
    bool plain = p->of->options.plain >> column & 1, json = p->of->options.json >> column & 1;
    parquet_kind kind = PARQUET_STRING;
    if (!is_string(e) && !(plain && is_number(e, &kind))) {
        TRY(skip_below(p, w, e));
        return not_so(p, column, NULL,
                      json    ? "holds no strings; write it as JSON in strings"
                      : plain ? "holds neither strings nor numbers"
                              : "holds no strings");
    }
    return add_leaf(p, &(parquet_column){ .number = w->leaf - 1,
                                          .column = column,
                                          .kind = kind,
                                          .value_level = e->repetition == OPTIONAL });
}

/* What was taken from files: `bytes`, `path`, or a struct of one or both of them. */
static status add_file(parquet_file *p, walk *w, const element *e, uint32_t column) {
    uint32_t own_level = e->repetition == OPTIONAL;
    bool seen[2] = { false };
    parquet_column leaf = { .number = w->leaf - 1, .column = column, .value_level = own_level };
    if (is_string(e)) {
        strcpy(leaf.member, e->is_text ? "path" : "bytes");
        return add_leaf(p, &leaf);
    }
    if (!e->children || e->is_list || e->repetition == REPEATED) {
        TRY(skip_below(p, w, e));
        return not_so(p, column, NULL, "holds neither bytes nor paths");
    }
    for (int64_t i = 0; i < e->children; i++) {
        element inner;
        TRY(next_element(p, w, &inner));
        bool is_bytes = strcmp(inner.name, "bytes") == 0;
        if (!is_bytes && strcmp(inner.name, "path") != 0) {
            TRY(skip_below(p, w, &inner));
            continue;
        }
        if (!is_string(&inner)) return not_so(p, column, inner.name, "holds neither bytes nor a string");
        leaf.number = w->leaf - 1;
        leaf.value_level = own_level + (inner.repetition == OPTIONAL);
        strcpy(leaf.member, is_bytes ? "bytes" : "path");
        if (seen[is_bytes]) return not_so(p, column, leaf.member, "is there twice");
        seen[is_bytes] = true;
        TRY(add_leaf(p, &leaf));
    }
    return seen[0] || seen[1] ? STATUS_OK
                              : not_so(p, column, NULL, "is a struct with neither bytes nor path in it");
}

/* The members of a struct in a list; `list` has the levels so far. */
static status add_members(parquet_file *p, walk *w, const element *of, const parquet_column *list) {
    uint32_t found = p->leaf_count;
    for (int64_t i = 0; i < of->children; i++) {
        element e;
        parquet_column leaf = *list;
        TRY(next_element(p, w, &e));
        leaf.number = w->leaf - 1;
        if (!document_member_wanted(&p->of->options.columns[list->column], e.name)) {
            TRY(skip_below(p, w, &e));
            continue;
        }
        if (!e.name[0])
            return not_so(p, list->column, NULL, "has a member whose name has not 1 to 255 bytes");
        if (!is_string(&e))
            return not_so(p, list->column, e.name,
                          "holds no strings; name the members that are wanted, without it");
        leaf.value_level += e.repetition == OPTIONAL;
        memcpy(leaf.member, e.name, sizeof leaf.member);
        TRY(add_leaf(p, &leaf));
    }
    if (p->leaf_count == found)
        return not_so(p, list->column, NULL, "has none of the members that are wanted");
    if (p->leaf_count - found > DOCUMENT_MEMBERS)
        return not_so(p, list->column, NULL, "has more than 16 members; name those that are wanted");
    return STATUS_OK;
}

/* A list has a repeated group inside, whose only child is the item; old writers leave out one of the two
 * (https://github.com/apache/parquet-format/blob/master/LogicalTypes.md, backward compatibility). */
static status add_list(parquet_file *p, walk *w, const element *e, uint32_t column) {
    parquet_column list = { .column = column, .is_list = true };
    char tuple[DOCUMENT_NAME + 8];
    element repeated = *e, item;
    list.list_level = e->repetition == OPTIONAL;
    if (e->repetition != REPEATED) {
        if (!e->is_list || e->children != 1) return not_so(p, column, NULL, "is no list of structs");
        TRY(next_element(p, w, &repeated));
        if (repeated.repetition != REPEATED)
            return wrong(p, "a list of the schema has nothing repeated in it");
    }
    list.struct_level = list.item_level = list.list_level + 1;
    snprintf(tuple, sizeof tuple, "%s_tuple", e->name);
    bool is_item = repeated.children > 1 || e->repetition == REPEATED ||
                   strcmp(repeated.name, "array") == 0 || strcmp(repeated.name, tuple) == 0;
    if (!repeated.children) return not_so(p, column, NULL, "is no list of structs");
    item = repeated;
    if (!is_item) {
        TRY(next_element(p, w, &item));
        if (!item.children || item.is_list || item.repetition == REPEATED)
            return not_so(p, column, NULL, "is no list of structs");
        list.struct_level += item.repetition == OPTIONAL;
    }
    list.value_level = list.struct_level;
    return add_members(p, w, &item, &list);
}

static status read_schema(parquet_file *p, const data_file *file, uint64_t at, uint32_t elements) {
    walk w = { .left = elements };
    uint32_t seen = 0;
    element root, e;
    bool is_list;
    thrift_begin(&p->reading, file, "the footer", at, p->footer_end);
    w.left--;
    TRY(read_element(p, &root));
    for (int64_t i = 0; i < root.children; i++) {
        TRY(next_element(p, &w, &e));
        if (p->of->options.see)
            p->of->options.see(p->of->options.to, e.name, e.is_list || e.repetition == REPEATED);
        int column = e.name[0] ? document_column_find(p->of, e.name, &is_list) : -1;
        if (column < 0) {
            TRY(skip_below(p, &w, &e));
            continue;
        }
        if (seen >> column & 1) return not_so(p, (uint32_t)column, NULL, "is there twice");
        seen |= 1u << column;
        if (!is_list && p->of->options.bytes >> column & 1)
            TRY(add_file(p, &w, &e, (uint32_t)column));
        else
            TRY(is_list ? add_list(p, &w, &e, (uint32_t)column) : add_string(p, &w, &e, (uint32_t)column));
    }
    if (w.left) return wrong(p, "the schema has more columns than it says");
    for (uint32_t c = 0; c < p->of->options.column_count; c++)
        if (!((seen | p->of->options.optional) >> c & 1)) return not_so(p, c, NULL, "is not in it");
    p->all_leaves = w.leaf;
    return STATUS_OK;
}

status parquet_file_open(parquet_file *p, const documents *d) {
    uint64_t schema = 0;
    uint32_t elements = 0;
    p->of = d;
    p->leaf_count = 0;
    p->first_group = 0;
    p->classes = p->classes_end = 0;
    TRY(find_footer(p, &d->file));
    TRY(find_parts(p, &d->file, &schema, &elements));
    return read_schema(p, &d->file, schema, elements);
}

/* ---- row groups ---- */

typedef struct {
    int64_t type, codec, values, packed, data, dictionary;
} chunk_facts;

static status read_chunk_facts(parquet_file *p, chunk_facts *c) {
    thrift *t = &p->reading;
    thrift_field f = { 0 };
    for (;;) {
        TRY(thrift_next(t, &f));
        switch (f.type == THRIFT_STOP ? 0 : f.id) {
        case 0: return STATUS_OK;
        case 1: TRY(thrift_whole(t, &f, 0, 7, &c->type)); break;
        case 4: TRY(thrift_whole(t, &f, 0, INT32_MAX, &c->codec)); break;
        case 5: TRY(thrift_whole(t, &f, 0, INT64_MAX, &c->values)); break;
        case 7: TRY(thrift_whole(t, &f, 0, INT64_MAX, &c->packed)); break;
        case 9: TRY(thrift_whole(t, &f, 0, INT64_MAX, &c->data)); break;
        case 11: TRY(thrift_whole(t, &f, 0, INT64_MAX, &c->dictionary)); break;
        default: TRY(thrift_skip(t, &f));
        }
    }
}

/* The pages begin with the dictionary's, where there is one. Without values none is looked at. */
static status set_chunk(parquet_file *p, const chunk_facts *c, parquet_kind kind, parquet_chunk *chunk) {
    static const int64_t types[] = {
        [PARQUET_STRING] = BYTE_ARRAY, [PARQUET_BOOL] = BOOLEAN, [PARQUET_I32] = INT32, [PARQUET_U32] = INT32,
        [PARQUET_I64] = INT64,         [PARQUET_U64] = INT64,    [PARQUET_F32] = FLOAT, [PARQUET_F64] = DOUBLE
    };
    static const char *const names[PARQUET_CODECS] = {
        [3] = "LZO", [4] = "Brotli", [5] = "LZ4", [7] = "LZ4"
    };
    uint64_t start = (uint64_t)c->data, bytes = c->values ? (uint64_t)c->packed : 0;
    if (c->type != types[kind]) return wrong(p, "a column has another type than its schema says");
    if (c->dictionary > 0 && c->dictionary < c->data) start = (uint64_t)c->dictionary;
    if (c->packed < 0 || c->values < 0 || (c->data <= 0 && c->values))
        return wrong(p, "a column does not say where it is");
    if (start > p->footer || bytes > p->footer - start)
        return wrong(p, "a column lies beyond the end of the data");
    if (c->codec >= PARQUET_CODECS) return wrong(p, "a column is packed in a way that is unknown");
    if (c->codec >= 0 && names[c->codec])
        return status_set(STATUS_INVALID,
                          "%s is packed by %s; of Parquet's codecs Snappy, gzip and Zstandard are read",
                          p->of->file.path, names[c->codec]);
    if (c->codec < 0) return wrong(p, "a column does not say how it is packed");
    *chunk = (parquet_chunk){
        .start = start, .end = start + bytes, .values = (uint64_t)c->values, .codec = (parquet_codec)c->codec
    };
    return STATUS_OK;
}

static status read_chunk(parquet_file *p, parquet_kind kind, parquet_chunk *chunk) {
    thrift *t = &p->reading;
    thrift_field f = { 0 };
    chunk_facts c = { .type = -1, .codec = -1, .values = -1, .packed = -1 };
    for (;;) {
        TRY(thrift_next(t, &f));
        if (f.type == THRIFT_STOP) break;
        if (f.id == 1)
            return status_set(STATUS_INVALID, "%s keeps its columns in other files, which are not read",
                              p->of->file.path);
        if (f.id == 8)
            return status_set(STATUS_INVALID, "%s is encrypted; decrypt it first", p->of->file.path);
        if (f.id == 3 && f.type == THRIFT_STRUCT)
            TRY(read_chunk_facts(p, &c));
        else
            TRY(thrift_skip(t, &f));
    }
    return set_chunk(p, &c, kind, chunk);
}

static status read_chunks(parquet_file *p, const thrift_field *field, parquet_chunk chunks[PARQUET_LEAVES]) {
    static const thrift_field structure = { .type = THRIFT_STRUCT };
    uint32_t count;
    TRY(thrift_list(&p->reading, field, THRIFT_STRUCT, &count));
    if (count != p->all_leaves) return wrong(p, "a row group has not as many columns as the schema");
    for (uint32_t i = 0; i < count; i++) {
        uint32_t leaf = 0;
        while (leaf < p->leaf_count && p->leaves[leaf].number != i) leaf++;
        if (leaf < p->leaf_count)
            TRY(read_chunk(p, p->leaves[leaf].kind, &chunks[leaf]));
        else
            TRY(thrift_skip(&p->reading, &structure));
    }
    return STATUS_OK;
}

status parquet_group_read(parquet_file *p, uint64_t *at, parquet_chunk chunks[PARQUET_LEAVES],
                          uint64_t *rows) {
    thrift *t = &p->reading;
    thrift_field f = { 0 };
    int64_t number = -1;
    bool found = false;
    thrift_begin(t, &p->of->file, "the footer", *at, p->footer_end);
    for (;;) {
        TRY(thrift_next(t, &f));
        if (f.type == THRIFT_STOP) break;
        if (f.id == 1) {
            TRY(read_chunks(p, &f, chunks));
            found = true;
        } else if (f.id == 3) {
            TRY(thrift_whole(t, &f, 0, INT64_MAX, &number));
        } else {
            TRY(thrift_skip(t, &f));
        }
    }
    if (!found || number < 0) return wrong(p, "a row group does not say what it holds");
    *rows = (uint64_t)number;
    *at = thrift_place(t);
    return STATUS_OK;
}
