#include "data/documents/parquet_leaf.h"

#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"

enum { DATA_PAGE = 0, INDEX_PAGE = 1, DICTIONARY_PAGE = 2, DATA_PAGE_V2 = 3 };
enum {
    PLAIN = 0,
    PLAIN_DICTIONARY = 2,
    RLE = 3,
    DELTA_NUMBERS = 5,
    DELTA_LENGTHS = 6,
    DELTA_STRINGS = 7,
    RLE_DICTIONARY = 8
};

static const unpacker *const unpackers[PARQUET_CODECS] = {
    [PARQUET_SNAPPY] = &unpack_snappy, [PARQUET_GZIP] = &unpack_gzip, [PARQUET_ZSTD] = &unpack_zstd
};

const unpacker *parquet_unpacker(parquet_codec codec) { return unpackers[codec]; }

status parquet_leaf_wrong(const parquet_leaf *l, const char *why) {
    char name[UTF8_QUOTE_BYTES], member[UTF8_QUOTE_BYTES];
    return status_set(
        STATUS_INVALID, "%s, row group %" PRIu64 ", column %s%s%s, page at byte %" PRIu64 ": %s",
        l->of->file.path, l->group, utf8_quote(l->of->options.columns[l->column->column].name, name),
        l->column->member[0] ? "." : "", utf8_quote(l->column->member, member), l->page_at, why);
}

/* ---- headers of pages ---- */

typedef struct {
    int64_t type, unpacked, packed, values, encoding;
    int64_t definition_encoding, repetition_encoding; /* of version 1 */
    int64_t definition_bytes, repetition_bytes;       /* of version 2 */
    bool plain;                                       /* version 2 may leave a page unpacked */
    uint64_t body, end;                               /* offsets in the file */
} page_header;

/* The header of a data page of either version, or of a dictionary's; they number their fields otherwise. */
static status read_inner(thrift *t, const thrift_field *field, page_header *h) {
    thrift_field f = { 0 };
    bool second = h->type == DATA_PAGE_V2, packed = true;
    if (field->type != THRIFT_STRUCT) return thrift_wrong(t, "a part of it is no struct");
    for (;;) {
        TRY(thrift_next(t, &f));
        if (f.type == THRIFT_STOP) break;
        if (f.id == 1)
            TRY(thrift_whole(t, &f, 0, INT32_MAX, &h->values));
        else if (f.id == (second ? 4 : 2))
            TRY(thrift_whole(t, &f, 0, INT32_MAX, &h->encoding));
        else if (f.id == 3 && h->type == DATA_PAGE)
            TRY(thrift_whole(t, &f, 0, INT32_MAX, &h->definition_encoding));
        else if (f.id == 4 && h->type == DATA_PAGE)
            TRY(thrift_whole(t, &f, 0, INT32_MAX, &h->repetition_encoding));
        else if (f.id == 5 && second)
            TRY(thrift_whole(t, &f, 0, INT32_MAX, &h->definition_bytes));
        else if (f.id == 6 && second)
            TRY(thrift_whole(t, &f, 0, INT32_MAX, &h->repetition_bytes));
        else if (f.id == 7 && second)
            TRY(thrift_bool(t, &f, &packed));
        else
            TRY(thrift_skip(t, &f));
    }
    h->plain = !packed;
    return STATUS_OK;
}

/* Where each type of page says the rest of it. */
static int32_t inner_field(int64_t type) {
    return type == DATA_PAGE ? 5 : type == DICTIONARY_PAGE ? 7 : type == DATA_PAGE_V2 ? 8 : 0;
}

static status check_header(const thrift *t, const page_header *h, uint64_t end) {
    if (h->packed < 0 || h->unpacked < 0) return thrift_wrong(t, "it does not say how large its page is");
    if ((uint64_t)h->packed > end - h->body) return thrift_wrong(t, "its page is longer than its column");
    if (!inner_field(h->type)) return STATUS_OK;
    if (h->values < 0 || h->encoding < 0) return thrift_wrong(t, "it does not say what its page holds");
    if (h->type != DATA_PAGE_V2) return STATUS_OK;
    if (h->definition_bytes < 0 || h->repetition_bytes < 0 ||
        h->definition_bytes + h->repetition_bytes > h->packed ||
        h->definition_bytes + h->repetition_bytes > h->unpacked)
        return thrift_wrong(t, "the levels of its page are longer than the page");
    return STATUS_OK;
}

static status read_header(const documents *d, uint64_t at, uint64_t end, page_header *h) {
    thrift t;
    thrift_field f = { 0 };
    *h = (page_header){ .type = -1, .unpacked = -1, .packed = -1, .values = -1, .encoding = -1 };
    h->definition_bytes = h->repetition_bytes = -1;
    h->definition_encoding = h->repetition_encoding = RLE;
    thrift_begin(&t, &d->file, "the header of a page", at, end);
    for (;;) {
        TRY(thrift_next(&t, &f));
        if (f.type == THRIFT_STOP) break;
        if (f.id == 1)
            TRY(thrift_whole(&t, &f, 0, INT32_MAX, &h->type));
        else if (f.id == 2)
            TRY(thrift_whole(&t, &f, 0, INT32_MAX, &h->unpacked));
        else if (f.id == 3)
            TRY(thrift_whole(&t, &f, 0, INT32_MAX, &h->packed));
        else if (f.id == inner_field(h->type))
            TRY(read_inner(&t, &f, h));
        else
            TRY(thrift_skip(&t, &f));
    }
    h->body = thrift_place(&t);
    TRY(check_header(&t, h, end));
    h->end = h->body + (uint64_t)h->packed;
    return STATUS_OK;
}

/* ---- how much they take ---- */

static void grow(uint64_t *most, int64_t bytes) {
    if (*most < (uint64_t)bytes) *most = (uint64_t)bytes;
}

status parquet_leaf_measure(const documents *d, const parquet_chunk *chunk, parquet_leaf_need *need,
                            parquet_shared_need *shared) {
    const unpacker *unpack = unpackers[chunk->codec];
    if (unpack && unpack->there() != STATUS_OK) return status_prefix(STATUS_INVALID, "%s", d->file.path);
    for (uint64_t at = chunk->start; at < chunk->end;) {
        page_header h;
        TRY(read_header(d, at, chunk->end, &h));
        at = h.end;
        if (!inner_field(h.type)) continue;
        bool dictionary = h.type == DICTIONARY_PAGE;
        grow(dictionary ? &need->dictionary : &need->page, h.unpacked);
        if (dictionary) grow(&need->entries, h.values);
        if (!dictionary && h.encoding == DELTA_STRINGS) grow(&need->joined, h.unpacked);
        if (!unpack) continue;
        grow(&shared->packed, h.packed);
        shared->unpacking[chunk->codec] = unpack->need_whole();
    }
    return STATUS_OK;
}

/* ---- pages ---- */

static status read_body(parquet_leaf *l, const page_header *h, unsigned char *to, uint64_t room) {
    const unpacker *unpack = h->plain ? NULL : unpackers[l->chunk.codec];
    uint64_t levels = h->type == DATA_PAGE_V2 ? (uint64_t)(h->definition_bytes + h->repetition_bytes) : 0;
    uint64_t packed = (uint64_t)h->packed, unpacked = (uint64_t)h->unpacked;
    if (unpacked > room) return parquet_leaf_wrong(l, "it is larger than it was when it was planned");
    if (!unpack && packed != unpacked)
        return parquet_leaf_wrong(l, "it is not packed, and has two different sizes");
    TRY(format_pread(&l->of->file, h->body, to, levels));
    if (!unpack) return format_pread(&l->of->file, h->body + levels, to + levels, packed - levels);
    unpack_span block = { .in = l->shared->packed,
                          .in_left = (size_t)(packed - levels),
                          .out = to + levels,
                          .out_left = (size_t)(unpacked - levels) };
    TRY(format_pread(&l->of->file, h->body + levels, l->shared->packed, packed - levels));
    if (!block.in_left && !block.out_left) return STATUS_OK; /* a page of nulls alone */
    if (unpack->whole(l->shared->unpacking, &block) != STATUS_OK) {
        char why[256];
        strncpy(why, status_message(), sizeof why - 1);
        why[sizeof why - 1] = 0;
        return parquet_leaf_wrong(l, why);
    }
    return STATUS_OK;
}

static uint32_t length_at(const unsigned char *b) {
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* What of a page is unpacked as one. */
static parquet_cell_page part_of(const parquet_leaf *l, const page_header *h) {
    uint64_t levels = h->type == DATA_PAGE_V2 ? (uint64_t)(h->definition_bytes + h->repetition_bytes) : 0;
    return (parquet_cell_page){ .start = h->body + levels,
                                .packed = (uint32_t)((uint64_t)h->packed - levels),
                                .unpacked = (uint32_t)((uint64_t)h->unpacked - levels),
                                .codec = (uint8_t)(h->plain ? PARQUET_UNPACKED : l->chunk.codec) };
}

static status note_entries(parquet_leaf *l, uint64_t bytes, uint32_t count) {
    uint64_t at = 0;
    uint32_t each = parquet_number_bytes(l->column->kind);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t left = bytes - at;
        if (each ? left < each : left < 4 || length_at(l->dictionary + at) > left - 4)
            return parquet_leaf_wrong(l, "its dictionary has fewer values than it says");
        l->entries[i] = (uint32_t)at;
        at += each ? each : 4 + length_at(l->dictionary + at);
    }
    l->entry_count = count;
    return STATUS_OK;
}

static status read_dictionary(parquet_leaf *l, const page_header *h) {
    if (h->encoding != PLAIN && h->encoding != PLAIN_DICTIONARY)
        return parquet_leaf_wrong(l, "the values of its dictionary are written in a way that is unknown");
    if ((uint64_t)h->values > l->need.entries)
        return parquet_leaf_wrong(l, "it is larger than it was when it was planned");
    TRY(read_body(l, h, l->dictionary, l->need.dictionary));
    l->dictionary_part = part_of(l, h);
    return note_entries(l, (uint64_t)h->unpacked, (uint32_t)h->values);
}

/* The levels of version 1 stand before the strings, with their length before them. */
static status first_levels(parquet_leaf *l, parquet_hybrid *levels, uint32_t largest, int64_t encoding) {
    if (!largest) return STATUS_OK;
    if (encoding != RLE)
        return parquet_leaf_wrong(l, "its levels are written in a way that is no longer used");
    uint64_t there = (uint64_t)(l->end - l->at);
    if (there < 4 || length_at(l->at) > there - 4)
        return parquet_leaf_wrong(l, "its levels are longer than it");
    const unsigned char *from = l->at + 4;
    l->at = from + length_at(l->at);
    *levels = parquet_hybrid_of(from, l->at, parquet_width(largest));
    return STATUS_OK;
}

static status begin_levels(parquet_leaf *l, const page_header *h) {
    uint32_t deepest = l->column->value_level;
    l->at = l->page;
    l->end = l->page + h->unpacked;
    if (h->type == DATA_PAGE) {
        TRY(first_levels(l, &l->repetition, l->column->is_list, h->repetition_encoding));
        return first_levels(l, &l->definition, deepest, h->definition_encoding);
    }
    const unsigned char *definition = l->page + h->repetition_bytes;
    l->at = definition + h->definition_bytes;
    l->repetition = parquet_hybrid_of(l->page, definition, parquet_width(l->column->is_list));
    l->definition = parquet_hybrid_of(definition, l->at, parquet_width(deepest));
    return STATUS_OK;
}

/* Lengths come before all that they speak of: one decoder runs ahead, to find where they end. */
static status begin_delta(parquet_leaf *l) {
    int64_t most = l->end - l->page;
    uint64_t bytes = 0, ignored;
    bool good = true;
    l->joined_bytes = 0;
    if (l->encoding == DELTA_STRINGS)
        good = parquet_delta_of(&l->prefixes, l->at, l->end, most, l->page_left) &&
               parquet_delta_pass(l->prefixes, &l->at, &ignored);
    good = good && parquet_delta_of(&l->lengths, l->at, l->end, most, l->page_left) &&
           parquet_delta_pass(l->lengths, &l->at, &bytes);
    good = good && bytes <= (uint64_t)(l->end - l->at);
    return good ? STATUS_OK : parquet_leaf_wrong(l, "the lengths of its strings are damaged");
}

/* What is true or false is a bit each, or runs of them with their length before. */
static status begin_bits(parquet_leaf *l) {
    uint64_t there = (uint64_t)(l->end - l->at);
    if (l->encoding == PLAIN) {
        l->places =
            (parquet_hybrid){ .at = l->at, .end = l->end, .left = there * 8, .width = 1, .packed = true };
        return STATUS_OK;
    }
    if (l->encoding != RLE)
        return parquet_leaf_wrong(l, "its values are written in a way that these are not");
    if (!there) return STATUS_OK; /* nulls alone */
    if (there < 4 || length_at(l->at) > there - 4)
        return parquet_leaf_wrong(l, "its values are longer than it");
    l->places = parquet_hybrid_of(l->at + 4, l->at + 4 + length_at(l->at), 1);
    return STATUS_OK;
}

static status begin_values(parquet_leaf *l, const page_header *h) {
    bool is_string = l->column->kind == PARQUET_STRING;
    l->encoding = h->encoding;
    if (l->column->kind == PARQUET_BOOL) return begin_bits(l);
    switch (h->encoding) {
    case PLAIN: return STATUS_OK;
    case DELTA_NUMBERS:
        if (!parquet_number_whole(l->column->kind)) break;
        if (l->at == l->end || parquet_delta_of(&l->lengths, l->at, l->end, INT64_MAX, l->page_left))
            return STATUS_OK;
        return parquet_leaf_wrong(l, "its numbers are damaged");
    case PLAIN_DICTIONARY:
    case RLE_DICTIONARY:
        l->encoding = RLE_DICTIONARY;
        if (l->at == l->end) return STATUS_OK; /* nulls alone; else taking a string fails */
        if (*l->at > 32) return parquet_leaf_wrong(l, "its places in the dictionary have more than 32 bits");
        l->places = parquet_hybrid_of(l->at + 1, l->end, *l->at);
        return STATUS_OK;
    case DELTA_LENGTHS:
    case DELTA_STRINGS:
        if (is_string) return l->at == l->end ? STATUS_OK : begin_delta(l);
        break;
    }
    return parquet_leaf_wrong(l, is_string ? "its strings are written in a way that strings are not"
                                           : "its numbers are written in a way that is unknown");
}

/* Strings are counted from where those of the page begin. */
static void note_part(parquet_leaf *l, const page_header *h) {
    l->part = part_of(l, h);
    l->part_begins = l->page + ((uint64_t)h->unpacked - l->part.unpacked);
    l->part.strings = (uint32_t)(l->at - l->part_begins);
    l->part.joined = h->encoding == DELTA_STRINGS;
    l->part.values = (uint32_t)h->values;
    l->taken = 0;
}

static status next_page(parquet_leaf *l) {
    page_header h;
    l->page_at = l->next;
    if (l->next >= l->chunk.end) return parquet_leaf_wrong(l, "the column ends before its values do");
    TRY(read_header(l->of, l->next, l->chunk.end, &h));
    l->next = h.end;
    if (!inner_field(h.type)) return STATUS_OK; /* an index, or what is newer than this: passed over */
    if (h.type == DICTIONARY_PAGE) return read_dictionary(l, &h);
    if ((uint64_t)h.values > l->chunk_left)
        return parquet_leaf_wrong(l, "it has more values than its column");
    TRY(read_body(l, &h, l->page, l->need.page));
    l->chunk_left -= (uint64_t)h.values;
    l->page_left = (uint32_t)h.values;
    l->places = l->repetition = l->definition = (parquet_hybrid){ 0 };
    l->lengths = l->prefixes = (parquet_delta){ 0 };
    TRY(begin_levels(l, &h));
    note_part(l, &h);
    return begin_values(l, &h);
}

/* ---- values ---- */

void parquet_leaf_begin(parquet_leaf *l, const parquet_chunk *chunk, uint64_t group) {
    l->chunk = *chunk;
    l->group = group;
    l->next = l->page_at = chunk->start;
    l->chunk_left = chunk->values;
    l->page_left = 0;
    l->entry_count = 0;
    l->peeked = false;
}

status parquet_leaf_peek(parquet_leaf *l, bool *there) {
    *there = true;
    if (l->peeked) return STATUS_OK;
    while (!l->page_left) {
        *there = l->chunk_left > 0;
        if (!*there) return STATUS_OK;
        TRY(next_page(l));
    }
    *there = true;
    l->repetition_level = l->definition_level = 0;
    if ((l->column->is_list && !parquet_hybrid_next(&l->repetition, &l->repetition_level)) ||
        (l->column->value_level && !parquet_hybrid_next(&l->definition, &l->definition_level)))
        return parquet_leaf_wrong(l, "its levels are fewer than its values");
    if (l->repetition_level > 1 || l->definition_level > l->column->value_level)
        return parquet_leaf_wrong(l, "a level is higher than its schema has");
    l->peeked = true;
    return STATUS_OK;
}

static bool take_plain(parquet_leaf *l, const unsigned char **bytes, uint32_t *count) {
    uint64_t there = (uint64_t)(l->end - l->at);
    if (there < 4 || length_at(l->at) > there - 4) return false;
    *count = length_at(l->at);
    *bytes = l->at + 4;
    l->at += 4 + *count;
    return true;
}

static bool entry_at(parquet_leaf *l, const unsigned char **entry) {
    uint32_t place;
    if (!parquet_hybrid_next(&l->places, &place) || place >= l->entry_count) return false;
    *entry = l->dictionary + l->entries[place];
    return true;
}

static bool take_from_dictionary(parquet_leaf *l, const unsigned char **bytes, uint32_t *count) {
    const unsigned char *entry;
    if (!entry_at(l, &entry)) return false;
    *count = length_at(entry);
    *bytes = entry + 4;
    return true;
}

static bool take_delta(parquet_leaf *l, const unsigned char **bytes, uint32_t *count) {
    if (!parquet_delta_next(&l->lengths, count) || *count > (uint64_t)(l->end - l->at)) return false;
    *bytes = l->at;
    l->at += *count;
    return true;
}

/* What a string has in common with the one before, then what it has not. All that it has not together is no
 * more than the page, so the string isn't either. */
static bool take_joined(parquet_leaf *l, const unsigned char **bytes, uint32_t *count) {
    uint32_t prefix, rest;
    const unsigned char *more;
    if (!parquet_delta_next(&l->prefixes, &prefix) || prefix > l->joined_bytes) return false;
    if (!take_delta(l, &more, &rest) || rest > l->need.joined - prefix) return false;
    memcpy(l->joined + prefix, more, rest);
    *bytes = l->joined;
    *count = l->joined_bytes = prefix + rest;
    return true;
}

static bool take_string(parquet_leaf *l, const unsigned char **bytes, uint32_t *count) {
    l->taken++;
    switch (l->encoding) {
    case PLAIN: return take_plain(l, bytes, count);
    case RLE_DICTIONARY: return take_from_dictionary(l, bytes, count);
    case DELTA_LENGTHS: return take_delta(l, bytes, count);
    default: return take_joined(l, bytes, count);
    }
}

static bool next_number(parquet_leaf *l) {
    parquet_kind kind = l->column->kind;
    uint32_t each = parquet_number_bytes(kind), bit;
    const unsigned char *from = l->at;
    if (!each) {
        bool there = parquet_hybrid_next(&l->places, &bit);
        l->number = there && bit;
        return there;
    }
    if (l->encoding == DELTA_NUMBERS) {
        bool there = parquet_delta_whole(&l->lengths, &l->number);
        l->number = parquet_number_as(kind, l->number);
        return there;
    }
    if (l->encoding == RLE_DICTIONARY) {
        if (!entry_at(l, &from)) return false;
    } else {
        if ((uint64_t)(l->end - l->at) < each) return false;
        l->at += each;
    }
    l->number = parquet_number_at(kind, from);
    return true;
}

static bool take_number(parquet_leaf *l, const unsigned char **bytes, uint32_t *count) {
    if (!next_number(l)) return false;
    *count = parquet_number_letters(l->column->kind, l->number, l->letters);
    *bytes = (const unsigned char *)l->letters;
    return true;
}

status parquet_leaf_take(parquet_leaf *l, const char **bytes, uint32_t *count) {
    const unsigned char *from = NULL;
    bool good = true, is_string = l->column->kind == PARQUET_STRING;
    l->peeked = false;
    l->page_left--;
    *count = 0;
    if (l->definition_level == l->column->value_level)
        good = is_string ? take_string(l, &from, count) : take_number(l, &from, count);
    *bytes = (const char *)from;
    if (good) return STATUS_OK;
    return parquet_leaf_wrong(l, is_string ? "its strings are fewer or longer than it has room for"
                                           : "its numbers are fewer than it has room for");
}

parquet_cell parquet_leaf_cell(const parquet_leaf *l, const char *bytes, uint32_t count) {
    const unsigned char *at = (const unsigned char *)bytes;
    if (l->encoding == RLE_DICTIONARY)
        return (parquet_cell){ l->dictionary_part, (uint32_t)(at - l->dictionary), count };
    return (parquet_cell){ l->part, l->part.joined ? l->taken - 1 : (uint32_t)(at - l->part_begins), count };
}
