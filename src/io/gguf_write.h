/* GGUF files, version 3, as llama.cpp reads them: a header, metadata under keys, a list of tensors, their
 * data. Numbers are little-endian. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 *
 * The header says how many keys there are and the list where each tensor lies, so all of the metadata is put
 * twice: the first time it is only counted. Nothing of it is held, and the length of the file is known before
 * a byte is written. Data is asked for part by part. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/shape.h"
#include "base/status.h"

enum {
    GGUF_ALIGNMENT = 32, /* of every tensor's data in the file */
    GGUF_BLOCK = 32,     /* numbers that share a scale in Q8_0 */
    GGUF_BLOCK_BYTES = 34,
    GGUF_MOST_DIMENSIONS = 4,
    GGUF_NAME_BYTES = 64, /* of a tensor, with the zero behind it: llama.cpp has room for no more */
};

/* Values are those of the format. */
typedef enum {
    GGUF_WRITE_F32 = 0,
    GGUF_WRITE_F16 = 1,
    GGUF_WRITE_Q8_0 = 8,
    GGUF_WRITE_BF16 = 30
} gguf_write_type;
const char *gguf_write_type_name(gguf_write_type t); /* "F16" */
/* Bytes of a row of so many numbers; 0: that type has no such row (Q8_0 has rows of whole blocks). */
uint64_t gguf_row_bytes(gguf_write_type t, int64_t numbers);

/* What to write. Dimensions stand as everywhere here, rows first; the file lists them the other way round.
 * `part` gives the bytes from `first` on, some or all of them, until it is called again. */
typedef struct {
    const char *name;
    gguf_write_type type;
    shape shape;
    status (*part)(void *context, uint64_t first, const void **data, uint64_t *bytes);
    void *context;
} gguf_tensor;

typedef struct gguf_writer gguf_writer;

/* Metadata: a key and its value. A failure is remembered; what follows does nothing then. Texts need not end
 * with a zero and should be UTF-8. */
void gguf_put_u32(gguf_writer *w, const char *key, uint32_t value);
void gguf_put_f32(gguf_writer *w, const char *key, float value);
void gguf_put_bool(gguf_writer *w, const char *key, bool value);
void gguf_put_string(gguf_writer *w, const char *key, const char *value); /* with a zero behind it */
void gguf_put_text(gguf_writer *w, const char *key, const char *value, uint64_t bytes);
/* An array, whose items follow: exactly `count` of that kind. */
typedef enum { GGUF_ITEM_I32, GGUF_ITEM_F32, GGUF_ITEM_TEXT } gguf_item;
void gguf_put_array(gguf_writer *w, const char *key, gguf_item of, uint64_t count);
void gguf_add_i32(gguf_writer *w, int32_t value);
void gguf_add_f32(gguf_writer *w, float value);
void gguf_add_text(gguf_writer *w, const char *value, uint64_t bytes);
/* A text of which the pieces follow (gguf_more), `bytes` of them together. */
void gguf_begin_text(gguf_writer *w, uint64_t bytes);
void gguf_more(gguf_writer *w, const char *piece, uint64_t bytes);

typedef struct {
    status (*metadata)(void *context, gguf_writer *w); /* puts all keys; the same each time */
    const gguf_tensor *tensors;
    uint32_t count;
    void *context;
    /* So much of the file is written; what it returns ends the writing where it is a failure. May be NULL. */
    status (*written)(void *context, uint64_t bytes, uint64_t all);
} gguf_content;

/* Length of the file. STATUS_INVALID with a sentence for what no reader would take: a tensor's name that is
 * too long or there twice, more than four dimensions, a row that the type has not. */
status gguf_file_bytes(const char *path, const gguf_content *c, uint64_t *bytes);

/* Writes it to a temporary file beside `path`, syncs, renames (io/file.h). */
status gguf_write(const char *path, const gguf_content *c);

/* What writing holds of memory meanwhile. */
uint64_t gguf_held(uint32_t tensors);
