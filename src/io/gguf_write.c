#include "io/gguf_write.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "base/utf8.h"
#include "io/file.h"

enum { VERSION = 3, BUFFER = 64 << 10, KEY_BYTES = 65535 };

/* Of values, as the format numbers them. */
enum { VALUE_U32 = 4, VALUE_I32 = 5, VALUE_F32 = 6, VALUE_BOOL = 7, VALUE_STRING = 8, VALUE_ARRAY = 9 };

struct gguf_writer {
    const char *path;
    io_writer *file; /* NULL: only counted */
    status failed;
    uint64_t bytes, keys, unaligned; /* unaligned: what stands before the data, without what fills it up */
    uint64_t items, pieces;          /* of an array and a text that were begun: how many have not come yet */
    gguf_item item;
    uint32_t used;
    char buffer[BUFFER];
};

/* ---- types ---- */

const char *gguf_write_type_name(gguf_write_type t) {
    switch (t) {
    case GGUF_WRITE_F32: return "F32";
    case GGUF_WRITE_F16: return "F16";
    case GGUF_WRITE_Q8_0: return "Q8_0";
    case GGUF_WRITE_BF16: return "BF16";
    }
    return "?";
}

uint64_t gguf_row_bytes(gguf_write_type t, int64_t numbers) {
    if (numbers < 1) return 0;
    switch (t) {
    case GGUF_WRITE_F32: return (uint64_t)numbers * 4;
    case GGUF_WRITE_F16:
    case GGUF_WRITE_BF16: return (uint64_t)numbers * 2;
    case GGUF_WRITE_Q8_0: return numbers % GGUF_BLOCK ? 0 : (uint64_t)numbers / GGUF_BLOCK * GGUF_BLOCK_BYTES;
    }
    return 0;
}

/* Of a tensor that passed check_tensor. */
static uint64_t tensor_bytes(const gguf_tensor *t) {
    return gguf_row_bytes(t->type, shape_last(&t->shape)) * (uint64_t)shape_rows(&t->shape);
}

/* ---- bytes ---- */

static void flush(gguf_writer *w) {
    if (w->file && w->used && w->failed == STATUS_OK) w->failed = io_writer_add(w->file, w->buffer, w->used);
    w->used = 0;
}

static void add(gguf_writer *w, const void *data, uint64_t bytes) {
    w->bytes += bytes;
    if (!w->file || w->failed != STATUS_OK || !bytes) return;
    if (bytes > BUFFER - w->used) flush(w);
    if (bytes > BUFFER) {
        if (w->failed == STATUS_OK) w->failed = io_writer_add(w->file, data, bytes);
        return;
    }
    memcpy(w->buffer + w->used, data, bytes);
    w->used += (uint32_t)bytes;
}

static void add_u32(gguf_writer *w, uint32_t value) { add(w, &value, sizeof value); }
static void add_u64(gguf_writer *w, uint64_t value) { add(w, &value, sizeof value); }

static void add_string(gguf_writer *w, const char *text, uint64_t bytes) {
    add_u64(w, bytes);
    add(w, text, bytes);
}

static void align(gguf_writer *w) {
    static const char zeros[GGUF_ALIGNMENT];
    add(w, zeros, units_align(w->bytes, GGUF_ALIGNMENT) - w->bytes);
}

/* ---- metadata ---- */

/* A text or an array of which less has come than was said would shift all that follows. */
static void check_whole(gguf_writer *w) {
    if (w->failed == STATUS_OK && (w->items || w->pieces))
        w->failed =
            status_set(STATUS_FAILED, "%s: a list of its metadata came shorter than was said", w->path);
}

static void put_key(gguf_writer *w, const char *key, uint32_t type) {
    check_whole(w);
    if (w->failed == STATUS_OK && strlen(key) > KEY_BYTES)
        w->failed = status_set(STATUS_INVALID, "%s: the key '%.60s...' is too long", w->path, key);
    w->keys++;
    add_string(w, key, strlen(key));
    add_u32(w, type);
}

void gguf_put_u32(gguf_writer *w, const char *key, uint32_t value) {
    put_key(w, key, VALUE_U32);
    add_u32(w, value);
}

void gguf_put_f32(gguf_writer *w, const char *key, float value) {
    put_key(w, key, VALUE_F32);
    add(w, &value, sizeof value);
}

void gguf_put_bool(gguf_writer *w, const char *key, bool value) {
    uint8_t byte = value;
    put_key(w, key, VALUE_BOOL);
    add(w, &byte, sizeof byte);
}

void gguf_put_text(gguf_writer *w, const char *key, const char *value, uint64_t bytes) {
    put_key(w, key, VALUE_STRING);
    add_string(w, value, bytes);
}

void gguf_put_string(gguf_writer *w, const char *key, const char *value) {
    gguf_put_text(w, key, value, strlen(value));
}

void gguf_put_array(gguf_writer *w, const char *key, gguf_item of, uint64_t count) {
    static const uint32_t types[] = {
        [GGUF_ITEM_I32] = VALUE_I32, [GGUF_ITEM_F32] = VALUE_F32, [GGUF_ITEM_TEXT] = VALUE_STRING
    };
    put_key(w, key, VALUE_ARRAY);
    add_u32(w, types[of]);
    add_u64(w, count);
    w->item = of, w->items = count;
}

/* False: no item of that kind may come here, and the writer has failed. */
static bool next_item(gguf_writer *w, gguf_item of) {
    if (w->failed != STATUS_OK) return false;
    if (w->pieces || !w->items || w->item != of)
        w->failed =
            status_set(STATUS_FAILED, "%s: a list of its metadata came longer than was said", w->path);
    else
        w->items--;
    return w->failed == STATUS_OK;
}

void gguf_add_i32(gguf_writer *w, int32_t value) {
    if (next_item(w, GGUF_ITEM_I32)) add(w, &value, sizeof value);
}

void gguf_add_f32(gguf_writer *w, float value) {
    if (next_item(w, GGUF_ITEM_F32)) add(w, &value, sizeof value);
}

void gguf_add_text(gguf_writer *w, const char *value, uint64_t bytes) {
    if (next_item(w, GGUF_ITEM_TEXT)) add_string(w, value, bytes);
}

void gguf_begin_text(gguf_writer *w, uint64_t bytes) {
    if (!next_item(w, GGUF_ITEM_TEXT)) return;
    add_u64(w, bytes);
    w->pieces = bytes;
}

void gguf_more(gguf_writer *w, const char *piece, uint64_t bytes) {
    if (w->failed != STATUS_OK) return;
    if (bytes > w->pieces) {
        w->failed =
            status_set(STATUS_FAILED, "%s: a text of its metadata came longer than was said", w->path);
        return;
    }
    w->pieces -= bytes;
    add(w, piece, bytes);
}

/* ---- tensors ---- */

static status check_tensor(const char *path, const gguf_tensor *t) {
    char name[UTF8_QUOTE_BYTES], is[SHAPE_TEXT_BYTES];
    uint64_t row, bytes;
    utf8_quote(t->name, name);
    if (!*t->name || strlen(t->name) >= GGUF_NAME_BYTES)
        return status_set(STATUS_INVALID, "%s: a tensor cannot have the name '%s', which is %s", path, name,
                          *t->name ? "too long" : "empty");
    if (!t->shape.rank || t->shape.rank > GGUF_MOST_DIMENSIONS)
        return status_set(STATUS_INVALID, "%s: tensor '%s' has %u dimensions; GGUF has 1 to %d", path, name,
                          (unsigned)t->shape.rank, GGUF_MOST_DIMENSIONS);
    row = gguf_row_bytes(t->type, shape_last(&t->shape));
    bool impossible = !row;
    bytes = row;
    for (uint32_t d = 0; d + 1 < t->shape.rank; d++)
        impossible = impossible || t->shape.dim[d] < 1 ||
                     __builtin_mul_overflow(bytes, (uint64_t)t->shape.dim[d], &bytes);
    if (impossible || bytes > INT64_MAX)
        return status_set(STATUS_INVALID, "%s: tensor '%s' of shape %s cannot be %s", path, name,
                          shape_text(&t->shape, is), gguf_write_type_name(t->type));
    return STATUS_OK;
}

static int by_name(const void *left, const void *right) {
    const gguf_tensor *a = *(const gguf_tensor *const *)left, *b = *(const gguf_tensor *const *)right;
    return strcmp(a->name, b->name);
}

static status check_tensors(const char *path, const gguf_content *c) {
    for (uint32_t i = 0; i < c->count; i++) TRY(check_tensor(path, &c->tensors[i]));
    const gguf_tensor **order = memory_new(c->count + 1u, sizeof(const gguf_tensor *));
    status result = STATUS_OK;
    if (!order) return status_set(STATUS_FAILED, "%s: no memory for %u tensors", path, c->count);
    for (uint32_t i = 0; i < c->count; i++) order[i] = &c->tensors[i];
    qsort(order, c->count, sizeof *order, by_name);
    for (uint32_t i = 1; i < c->count && result == STATUS_OK; i++)
        if (strcmp(order[i - 1]->name, order[i]->name) == 0)
            result = status_set(STATUS_INVALID, "%s: two tensors have the name '%s'", path, order[i]->name);
    memory_free(order);
    return result;
}

static void list_tensors(gguf_writer *w, const gguf_content *c) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const gguf_tensor *t = &c->tensors[i];
        add_string(w, t->name, strlen(t->name));
        add_u32(w, t->shape.rank);
        for (uint32_t d = t->shape.rank; d-- > 0;) add_u64(w, (uint64_t)t->shape.dim[d]);
        add_u32(w, (uint32_t)t->type);
        add_u64(w, at);
        at = units_align(at + tensor_bytes(t), GGUF_ALIGNMENT);
    }
}

/* ---- the file ---- */

/* All that stands before the data. */
static status write_head(gguf_writer *w, const gguf_content *c, uint64_t keys) {
    w->bytes = w->keys = 0;
    add(w, "GGUF", 4);
    add_u32(w, VERSION);
    add_u64(w, c->count);
    add_u64(w, keys);
    TRY(c->metadata(c->context, w));
    check_whole(w);
    list_tensors(w, c);
    w->unaligned = w->bytes;
    align(w);
    return w->failed;
}

static status write_tensor(gguf_writer *w, const gguf_content *c, const gguf_tensor *t, uint64_t all) {
    uint64_t length = tensor_bytes(t);
    for (uint64_t done = 0, bytes; done < length; done += bytes) {
        const void *data;
        TRY(t->part(t->context, done, &data, &bytes));
        if (!bytes || bytes > length - done)
            return status_set(STATUS_FAILED, "%s: '%s' came in parts of another length", w->path, t->name);
        add(w, data, bytes);
        if (c->written) TRY(c->written(c->context, w->bytes, all));
    }
    align(w);
    return w->failed;
}

static status count(gguf_writer *w, const gguf_content *c, uint64_t *bytes) {
    TRY(check_tensors(w->path, c));
    TRY(write_head(w, c, 0));
    *bytes = w->bytes;
    for (uint32_t i = 0; i < c->count; i++)
        *bytes = units_align(*bytes + tensor_bytes(&c->tensors[i]), GGUF_ALIGNMENT);
    return STATUS_OK;
}

static status write_all(gguf_writer *w, const gguf_content *c, io_writer *file) {
    uint64_t all;
    TRY(count(w, c, &all));
    uint64_t keys = w->keys, head = w->unaligned;
    w->file = file;
    TRY(write_head(w, c, keys));
    if (w->unaligned != head)
        return status_set(STATUS_FAILED, "%s: its metadata changed while it was written", w->path);
    for (uint32_t i = 0; i < c->count; i++) TRY(write_tensor(w, c, &c->tensors[i], all));
    flush(w);
    return w->failed;
}

static status writer_open(const char *path, gguf_writer **w) {
    *w = memory_new(1, sizeof **w);
    if (!*w) return status_set(STATUS_FAILED, "%s: no memory to write it", path);
    (*w)->path = path;
    return STATUS_OK;
}

uint64_t gguf_held(uint32_t tensors) {
    return sizeof(gguf_writer) + (tensors + UINT64_C(1)) * sizeof(const gguf_tensor *);
}

status gguf_file_bytes(const char *path, const gguf_content *c, uint64_t *bytes) {
    gguf_writer *w;
    TRY(writer_open(path, &w));
    status result = count(w, c, bytes);
    memory_free(w);
    return result;
}

status gguf_write(const char *path, const gguf_content *c) {
    io_writer file = { 0 };
    gguf_writer *w;
    TRY(writer_open(path, &w));
    status result = io_writer_open(&file, path);
    if (result == STATUS_OK) {
        result = write_all(w, c, &file);
        if (result == STATUS_OK)
            result = io_writer_commit(&file);
        else
            io_writer_discard(&file);
    }
    memory_free(w);
    return result;
}
