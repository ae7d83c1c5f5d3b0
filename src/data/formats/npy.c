/* Token ids in a NumPy array of one dimension, signed or unsigned, of 1 to 8 bytes.
 * Format: "\x93NUMPY", a major and a minor version, the length of the header (2 bytes; from version 2 on 4),
 * the header: a Python dictionary of descr, fortran_order and shape; the data.
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "data/formats/format.h"

enum { HEADER_LIMIT = 4096, MOST_DIMENSIONS = 32, TYPE_BYTES = 32 };

typedef struct {
    const data_file *file;
    const char *at; /* ends in a zero */
    unsigned seen;  /* which keys, as bits */
    char type[TYPE_BYTES];
    bool fortran;
    uint64_t dim[MOST_DIMENSIONS];
    uint32_t rank;
} header;

static status wrong(const data_file *f, const char *what) {
    return status_set(STATUS_INVALID,
                      "%s is no NumPy array that can be read: %s; save it anew with numpy.save", f->path,
                      what);
}

static bool take(header *h, char c) {
    while (*h->at == ' ' || *h->at == '\n') h->at++;
    if (*h->at != c) return false;
    h->at++;
    return true;
}

static bool take_word(header *h, const char *word) {
    take(h, ' ');
    size_t length = strlen(word);
    if (strncmp(h->at, word, length) != 0) return false;
    h->at += length;
    return true;
}

/* A text in quotes; backslashes have no place in the names and types that are known. */
static status read_text(header *h, char *out, size_t bytes) {
    char quote = take(h, '\'') ? '\'' : take(h, '"') ? '"' : 0;
    if (!quote) return wrong(h->file, "its header lacks a text where one belongs");
    size_t length = strcspn(h->at, quote == '"' ? "\"\\\n" : "'\\\n");
    if (h->at[length] != quote || length >= bytes)
        return wrong(h->file, "a text in its header is too long or does not end");
    memcpy(out, h->at, length);
    out[length] = 0;
    h->at += length + 1;
    return STATUS_OK;
}

/* (3,) or (2, 3) or () */
static status read_shape(header *h) {
    if (!take(h, '(')) return wrong(h->file, "its shape does not begin with (");
    while (!take(h, ')')) {
        uint64_t value = 0;
        const char *first = h->at;
        if (h->rank == MOST_DIMENSIONS) return wrong(h->file, "it has more than 32 dimensions");
        for (; *h->at >= '0' && *h->at <= '9'; h->at++)
            if (__builtin_mul_overflow(value, 10, &value) ||
                __builtin_add_overflow(value, (uint64_t)(*h->at - '0'), &value))
                return wrong(h->file, "its shape does not fit in 64 bits");
        if (h->at == first) return wrong(h->file, "its shape is not made of whole numbers");
        h->dim[h->rank++] = value;
        bool more = take(h, ',');
        take(h, ' ');
        if (!more && *h->at != ')') return wrong(h->file, "its shape does not end");
    }
    return STATUS_OK;
}

static status read_member(header *h) {
    static const char *const keys[] = { "descr", "fortran_order", "shape" };
    char key[TYPE_BYTES];
    unsigned k = 0;
    TRY(read_text(h, key, sizeof key));
    while (k < 3 && strcmp(key, keys[k]) != 0) k++;
    if (k == 3) return wrong(h->file, "its header has another key than descr, fortran_order and shape");
    if (h->seen & 1u << k) return wrong(h->file, "its header has a key twice");
    h->seen |= 1u << k;
    if (!take(h, ':')) return wrong(h->file, "its header lacks a colon");
    if (k == 2) return read_shape(h);
    if (k == 1) {
        h->fortran = take_word(h, "True");
        return h->fortran || take_word(h, "False") ? STATUS_OK : wrong(h->file, "its order is unknown");
    }
    if (take(h, '[')) return wrong(h->file, "its items have several fields, and token ids have one");
    return read_text(h, h->type, sizeof h->type);
}

static status read_header(header *h) {
    if (!take(h, '{')) return wrong(h->file, "its header is no dictionary");
    while (!take(h, '}')) {
        TRY(read_member(h));
        if (take(h, ',')) continue;
        if (!take(h, '}')) return wrong(h->file, "its header does not end");
        break;
    }
    take(h, ' '); /* and all blanks behind it */
    if (*h->at) return wrong(h->file, "something follows the dictionary of its header");
    return h->seen == 7 ? STATUS_OK : wrong(h->file, "its header lacks descr, fortran_order or shape");
}

/* '<u2', '|i1' … */
static status check_type(const header *h, data_file *f) {
    char order = h->type[0], kind = order ? h->type[1] : 0, width = kind ? h->type[2] : 0,
         shown[UTF8_QUOTE_BYTES];
    utf8_quote(h->type, shown);
    if ((kind != 'u' && kind != 'i') || !width || !strchr("1248", width) || h->type[3])
        return status_set(
            STATUS_INVALID,
            "%s holds items of type '%s'; token ids are whole numbers: save ids.astype('uint32')", f->path,
            shown);
    if (order == '>')
        return status_set(STATUS_INVALID, "%s is big-endian ('%s'); save ids.astype('<%s')", f->path, shown,
                          shown + 1);
    f->width = (uint32_t)(width - '0');
    f->is_signed = kind == 'i';
    f->ceiling = f->is_signed || f->width == 8 ? UINT64_MAX : (uint64_t)1 << 8 * f->width;
    return strchr("<|=", order) ? STATUS_OK : wrong(f, "the order of its bytes is unknown");
}

static status check_shape(const header *h, data_file *f) {
    uint64_t bytes;
    if (h->rank != 1)
        return status_set(STATUS_INVALID,
                          "%s has %u dimensions; token ids stand in one row: save ids.ravel()", f->path,
                          h->rank);
    f->tokens = h->dim[0];
    if (!__builtin_mul_overflow(f->tokens, (uint64_t)f->width, &bytes) && bytes == f->bytes - f->offset)
        return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s should have %" PRIu64 " ids of %u bytes by its header and has %" PRIu64
                      " bytes of them; it is damaged: save it anew",
                      f->path, f->tokens, f->width, f->bytes - f->offset);
}

static status inspect(data_file *f, bool asked) {
    char text[HEADER_LIMIT + 1] = { 0 };
    unsigned char head[12] = { 0 };
    (void)asked;
    TRY(format_pread(f, 0, head, f->bytes < sizeof head ? f->bytes : sizeof head));
    if (memcmp(head, "\x93NUMPY", 6) != 0) return wrong(f, "it does not begin as one");
    if (head[6] < 1 || head[6] > 3) return wrong(f, "its version is none of 1, 2 and 3");
    f->offset = head[6] == 1 ? 10 : 12;
    uint64_t length = head[8] | (uint64_t)head[9] << 8;
    if (head[6] > 1) length |= (uint64_t)head[10] << 16 | (uint64_t)head[11] << 24;
    if (f->offset > f->bytes || length > f->bytes - f->offset) return wrong(f, "it ends inside its header");
    if (length > HEADER_LIMIT) return wrong(f, "its header is longer than 4,096 bytes");
    TRY(format_pread(f, f->offset, text, length));
    if (strlen(text) != length) return wrong(f, "its header has a zero byte");
    f->offset += length;
    header h = { .file = f, .at = text };
    TRY(read_header(&h));
    TRY(check_type(&h, f));
    return check_shape(&h, f);
}

const data_format format_npy = { .name = "npy",
                                 .about = "token ids of a NumPy array",
                                 .suffixes = { ".npy" },
                                 .inspect = inspect,
                                 .read = format_read_items };
