/* The writing half of io/safetensors.h. The header is small and built in memory; the data goes to the file
 * from where it lies. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/finite.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/units.h"
#include "base/utf8.h"
#include "io/file.h"
#include "io/json.h"
#include "io/safetensors.h"

static status check_item(const char *path, const safetensors_item *item) {
    char name[UTF8_QUOTE_BYTES];
    utf8_quote(item->name, name);
    for (const char *at = item->name; *at;) {
        size_t length = utf8_length(at, strlen(at));
        if (length == 0) return status_set(STATUS_INVALID, "%s: the name '%s' is not UTF-8", path, name);
        at += length;
    }
    if (!*item->name || strcmp(item->name, "__metadata__") == 0)
        return status_set(STATUS_INVALID, "%s: a tensor cannot have the name '%s'", path, name);
    uint64_t bytes = safetensors_dtype_bytes(item->dtype);
    if (bytes == 0)
        return status_set(STATUS_INVALID, "%s: tensor '%s' has the unknown dtype '%s'", path, name,
                          item->dtype);
    for (uint32_t i = 0; i < item->shape.rank; i++)
        if (item->shape.dim[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)item->shape.dim[i], &bytes))
            return status_set(STATUS_INVALID, "%s: tensor '%s' has the impossible dimension %" PRId64, path,
                              name, item->shape.dim[i]);
    if (bytes != item->bytes)
        return status_set(STATUS_INVALID,
                          "%s: tensor '%s' has %" PRIu64 " bytes, its shape and %s need %" PRIu64, path, name,
                          item->bytes, item->dtype, bytes);
    return STATUS_OK;
}

static int by_name(const void *left, const void *right) {
    const safetensors_item *a = *(const safetensors_item *const *)left,
                           *b = *(const safetensors_item *const *)right;
    return strcmp(a->name, b->name);
}

/* Wide elements first, then as they came (all items are in one array). */
static int by_place(const void *left, const void *right) {
    const safetensors_item *a = *(const safetensors_item *const *)left,
                           *b = *(const safetensors_item *const *)right;
    uint32_t wide = safetensors_dtype_bytes(a->dtype), other = safetensors_dtype_bytes(b->dtype);
    if (wide != other) return wide > other ? -1 : 1;
    return (a > b) - (a < b);
}

/* The items in the order of the file, checked; memory_free it. */
static status order_items(const char *path, const safetensors_item *items, uint32_t count,
                          const safetensors_item ***ordered) {
    for (uint32_t i = 0; i < count; i++) TRY(check_item(path, &items[i]));
    const safetensors_item **order = memory_new(count, sizeof(const safetensors_item *));
    if (!order) return status_set(STATUS_FAILED, "%s: no memory for %u tensors", path, count);
    for (uint32_t i = 0; i < count; i++) order[i] = &items[i];
    qsort(order, count, sizeof *order, by_name);
    for (uint32_t i = 1; i < count; i++) {
        char name[UTF8_QUOTE_BYTES];
        if (strcmp(order[i - 1]->name, order[i]->name) != 0) continue;
        utf8_quote(order[i]->name, name);
        memory_free(order);
        return status_set(STATUS_INVALID, "%s: two tensors have the name '%s'", path, name);
    }
    qsort(order, count, sizeof *order, by_place);
    *ordered = order;
    return STATUS_OK;
}

/* Builds the header, padded so that the data begins at a multiple of 8. "format" is what the Python libraries
 * look for. */
static status build_header(const char *path, const safetensors_item *const *order, uint32_t count,
                           text *header, uint64_t *data_bytes) {
    json_writer w = { .out = header };
    json_begin_object(&w, NULL);
    json_begin_object(&w, "__metadata__");
    json_put_string(&w, "format", "pt");
    json_end_object(&w);
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        json_begin_object(&w, order[i]->name);
        json_put_string(&w, "dtype", order[i]->dtype);
        json_begin_array(&w, "shape");
        for (uint32_t d = 0; d < order[i]->shape.rank; d++)
            json_put_integer(&w, NULL, order[i]->shape.dim[d]);
        json_end_array(&w);
        json_begin_array(&w, "data_offsets");
        json_put_unsigned(&w, NULL, at);
        at += order[i]->bytes;
        json_put_unsigned(&w, NULL, at);
        json_end_array(&w);
        json_end_object(&w);
    }
    json_end_object(&w);
    text_add(header, "%*s", (int)(units_align(header->length, 8) - header->length), "");
    if (header->failed)
        return status_set(STATUS_FAILED, "%s: no memory for the header of %u tensors", path, count);
    if (header->length > SAFETENSORS_HEADER_LIMIT)
        return status_set(STATUS_INVALID, "%s: the header would have %zu bytes; at most %d can be read again",
                          path, header->length, SAFETENSORS_HEADER_LIMIT);
    *data_bytes = at;
    return STATUS_OK;
}

enum { LOOKED_AT = 256 << 10 }; /* bytes at a time: what was looked at is written from a cache */

/* The bytes of an item from `first` on: the one door that weights leave memory by. */
static status write_finite(io_writer *w, const safetensors_item *item, uint64_t first, const char *data,
                           uint64_t bytes) {
    dtype type = safetensors_dtype(item->dtype);
    uint64_t each = safetensors_dtype_bytes(item->dtype);
    for (uint64_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < LOOKED_AT ? bytes - done : LOOKED_AT;
        int64_t at = finite_find(type, data + done, (int64_t)(n / each));
        if (at >= 0)
            return status_set(STATUS_FAILED,
                              "%s: tensor '%s' is not finite (number %" PRIu64 "), so it is not saved",
                              w->path, item->name, (first + done) / each + (uint64_t)at);
        TRY(io_writer_add(w, data + done, n));
    }
    return STATUS_OK;
}

static status write_item(io_writer *w, const safetensors_item *item) {
    if (!item->part) return write_finite(w, item, 0, item->data, item->bytes);
    for (uint64_t done = 0, bytes; done < item->bytes; done += bytes) {
        const void *data;
        TRY(item->part(item->context, done, &data, &bytes));
        TRY(write_finite(w, item, done, data, bytes));
    }
    return STATUS_OK;
}

static status write_parts(io_writer *w, const text *header, const safetensors_item *const *order,
                          uint32_t count) {
    uint64_t length = header->length;
    TRY(io_writer_add(w, &length, sizeof length));
    TRY(io_writer_add(w, header->data, length));
    for (uint32_t i = 0; i < count; i++) TRY(write_item(w, order[i]));
    return STATUS_OK;
}

status safetensors_write_summed(const char *path, const safetensors_item *items, uint32_t count,
                                io_sum *sum) {
    const safetensors_item **order = NULL;
    text header = { 0 };
    io_writer w = { 0 };
    uint64_t data_bytes;
    status result;
    TRY_OR(done, order_items(path, items, count, &order));
    TRY_OR(done, build_header(path, order, count, &header, &data_bytes));
    TRY_OR(done, io_writer_open(&w, path));
    TRY_OR(done, write_parts(&w, &header, order, count));
    *sum = (io_sum){ .bytes = w.written, .sum = checksum_value(&w.sum) };
    result = io_writer_commit(&w);
done:
    io_writer_discard(&w);
    text_close(&header);
    memory_free(order);
    return result;
}

status safetensors_write(const char *path, const safetensors_item *items, uint32_t count) {
    io_sum sum;
    return safetensors_write_summed(path, items, count, &sum);
}

status safetensors_file_bytes(const char *path, const safetensors_item *items, uint32_t count,
                              uint64_t *bytes) {
    const safetensors_item **order = NULL;
    text header = { 0 };
    uint64_t data_bytes;
    status result;
    TRY_OR(done, order_items(path, items, count, &order));
    TRY_OR(done, build_header(path, order, count, &header, &data_bytes));
    *bytes = 8 + header.length + data_bytes;
done:
    text_close(&header);
    memory_free(order);
    return result;
}
