#include "data/documents/thrift.h"

#include <inttypes.h>

#include "base/least.h"

void thrift_begin(thrift *t, const data_file *file, const char *what, uint64_t start, uint64_t end) {
    t->file = file, t->what = what;
    t->next = start, t->end = end;
    t->at = t->have = 0;
}

uint64_t thrift_place(const thrift *t) { return t->next - (t->have - t->at); }

status thrift_wrong(const thrift *t, const char *why) {
    return status_set(STATUS_INVALID, "%s: %s is wrong at byte %" PRIu64 ": %s", t->file->path, t->what,
                      thrift_place(t), why);
}

static status next_byte(thrift *t, unsigned char *byte) {
    *byte = 0;
    if (t->at == t->have) {
        uint64_t n = t->end - t->next < THRIFT_BUFFER ? t->end - t->next : THRIFT_BUFFER;
        if (!n) return thrift_wrong(t, "it ends too early");
        TRY(format_pread(t->file, t->next, t->buffer, n));
        t->next += n;
        t->at = 0, t->have = (uint32_t)n;
    }
    *byte = t->buffer[t->at++];
    return STATUS_OK;
}

static status pass(thrift *t, uint64_t bytes) {
    uint64_t here = (uint64_t)least((int64_t)bytes, t->have - t->at);
    if (bytes - here > t->end - t->next) return thrift_wrong(t, "something in it is longer than it");
    t->at += (uint32_t)here;
    t->next += bytes - here;
    if (bytes > here) t->at = t->have = 0;
    return STATUS_OK;
}

static status varint(thrift *t, uint64_t *value) {
    unsigned char byte = 0x80;
    *value = 0;
    for (unsigned shift = 0; byte & 0x80; shift += 7) {
        TRY(next_byte(t, &byte));
        if (shift == 63 && byte > 1) return thrift_wrong(t, "a number does not fit in 64 bits");
        *value |= (uint64_t)(byte & 0x7f) << shift;
    }
    return STATUS_OK;
}

static status zigzag(thrift *t, int64_t *value) {
    uint64_t raw;
    TRY(varint(t, &raw));
    *value = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
    return STATUS_OK;
}

status thrift_next(thrift *t, thrift_field *f) {
    unsigned char byte;
    int64_t id;
    TRY(next_byte(t, &byte));
    f->type = byte & 15;
    if (f->type == THRIFT_STOP) return STATUS_OK;
    if (f->type > THRIFT_STRUCT) return thrift_wrong(t, "a field has a type that is none");
    id = f->id + (byte >> 4);
    if (!(byte >> 4)) TRY(zigzag(t, &id));
    if (id <= 0 || id > INT16_MAX) return thrift_wrong(t, "the number of a field is out of range");
    f->id = (int32_t)id;
    return STATUS_OK;
}

static status expect(const thrift *t, bool good) {
    return good ? STATUS_OK : thrift_wrong(t, "a field has another type than it should");
}

status thrift_whole(thrift *t, const thrift_field *f, int64_t low, int64_t high, int64_t *value) {
    TRY(expect(t, f->type >= THRIFT_I16 && f->type <= THRIFT_I64));
    TRY(zigzag(t, value));
    return *value >= low && *value <= high ? STATUS_OK : thrift_wrong(t, "a number is out of range");
}

status thrift_bool(thrift *t, const thrift_field *f, bool *value) {
    *value = f->type == THRIFT_TRUE;
    return expect(t, f->type == THRIFT_TRUE || f->type == THRIFT_FALSE);
}

static status list_header(thrift *t, thrift_type *type, uint64_t *count) {
    unsigned char byte;
    TRY(next_byte(t, &byte));
    *type = byte & 15;
    *count = byte >> 4;
    if (*count == 15) TRY(varint(t, count));
    /* No item takes less than a byte, save those of a type that is none. */
    if (*count > t->end - thrift_place(t)) return thrift_wrong(t, "a list is longer than what holds it");
    return STATUS_OK;
}

status thrift_list(thrift *t, const thrift_field *f, thrift_type type, uint32_t *count) {
    thrift_type has;
    uint64_t items;
    TRY(expect(t, f->type == THRIFT_LIST));
    TRY(list_header(t, &has, &items));
    if (items > INT32_MAX) return thrift_wrong(t, "a list has too many items");
    *count = (uint32_t)items;
    return expect(t, has == type || !items);
}

status thrift_text(thrift *t, const thrift_field *f, char *to, uint32_t bytes, bool *cut) {
    uint64_t length;
    uint32_t used = 0;
    unsigned char byte;
    TRY(expect(t, f->type == THRIFT_BINARY));
    TRY(varint(t, &length));
    if (length > t->end - thrift_place(t)) return thrift_wrong(t, "a text is longer than what holds it");
    for (; used < length && used < bytes - 1; used++) {
        TRY(next_byte(t, &byte));
        to[used] = (char)byte;
        if (!byte) return thrift_wrong(t, "a name holds a zero");
    }
    to[used] = 0;
    *cut = used < length;
    return pass(t, length - used);
}

status thrift_place_of_text(thrift *t, const thrift_field *f, uint64_t *start, uint64_t *end) {
    uint64_t length;
    TRY(expect(t, f->type == THRIFT_BINARY));
    TRY(varint(t, &length));
    *start = thrift_place(t);
    if (length > t->end - *start) return thrift_wrong(t, "a text is longer than what holds it");
    *end = *start + length;
    return pass(t, length);
}

/* ---- what nobody wants ---- */

static status skip_value(thrift *t, thrift_type type, int depth, bool in_list);

static status skip_items(thrift *t, int depth) {
    thrift_type type;
    uint64_t count;
    TRY(list_header(t, &type, &count));
    while (count-- > 0) TRY(skip_value(t, type, depth, true));
    return STATUS_OK;
}

static status skip_map(thrift *t, int depth) {
    uint64_t count;
    unsigned char types;
    TRY(varint(t, &count));
    if (!count) return STATUS_OK;
    if (count > t->end - thrift_place(t)) return thrift_wrong(t, "a map is longer than what holds it");
    TRY(next_byte(t, &types));
    while (count-- > 0) {
        TRY(skip_value(t, types >> 4, depth, true));
        TRY(skip_value(t, types & 15, depth, true));
    }
    return STATUS_OK;
}

static status skip_struct(thrift *t, int depth) {
    thrift_field f = { 0 };
    for (;;) {
        TRY(thrift_next(t, &f));
        if (f.type == THRIFT_STOP) return STATUS_OK;
        TRY(skip_value(t, f.type, depth, false));
    }
}

static status skip_value(thrift *t, thrift_type type, int depth, bool in_list) {
    uint64_t number;
    if (depth == THRIFT_DEPTH) return thrift_wrong(t, "it is nested too deep");
    switch (type) {
    case THRIFT_TRUE:
    case THRIFT_FALSE: return in_list ? pass(t, 1) : STATUS_OK; /* of a field the type is the value */
    case THRIFT_BYTE: return pass(t, 1);
    case THRIFT_I16:
    case THRIFT_I32:
    case THRIFT_I64: return varint(t, &number);
    case THRIFT_DOUBLE: return pass(t, 8);
    case THRIFT_BINARY:
        TRY(varint(t, &number));
        if (number > t->end) return thrift_wrong(t, "a text is longer than what holds it");
        return pass(t, number);
    case THRIFT_LIST:
    case THRIFT_SET: return skip_items(t, depth + 1);
    case THRIFT_MAP: return skip_map(t, depth + 1);
    case THRIFT_STRUCT: return skip_struct(t, depth + 1);
    case THRIFT_STOP: break;
    }
    return thrift_wrong(t, "a value has a type that is none");
}

status thrift_skip(thrift *t, const thrift_field *f) { return skip_value(t, f->type, 0, false); }
