#include "data/formats/format.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const data_format *const formats[DATA_KINDS] = {
    [DATA_KIND_BYTES] = &format_bytes, [DATA_KIND_U16] = &format_u16,     [DATA_KIND_U32] = &format_u32,
    [DATA_KIND_NPY] = &format_npy,     [DATA_KIND_JSONL] = &format_jsonl, [DATA_KIND_TOKENS] = &format_tokens
};

const data_format *format_of(data_kind kind) { return formats[kind]; }

data_kind format_by_name(const char *path) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    for (int k = DATA_KIND_AUTO + 1; dot && k < DATA_KINDS; k++)
        for (const char *const *suffix = formats[k]->suffixes; *suffix; suffix++)
            if (strcmp(dot, *suffix) == 0) return (data_kind)k;
    return DATA_KIND_BYTES;
}

status data_kind_parse(const char *word, const char *name, data_kind *kind) {
    for (int k = 0; k < DATA_KINDS; k++)
        if (strcmp(word, data_kind_name((data_kind)k)) == 0) {
            *kind = (data_kind)k;
            return STATUS_OK;
        }
    return status_set(STATUS_INVALID,
                      "%s: '%s' is none of auto, bytes, u16, u32, npy, jsonl and "
                      "tokens",
                      name, word);
}

const char *data_kind_name(data_kind kind) { return kind == DATA_KIND_AUTO ? "auto" : format_of(kind)->name; }
const char *data_kind_about(data_kind kind) {
    return kind == DATA_KIND_AUTO ? "tokens" : format_of(kind)->about;
}

bool format_stamp(int handle, data_stamp *stamp) {
    struct stat about;
    if (fstat(handle, &about) != 0) return false;
    *stamp = (data_stamp){ .device = about.st_dev,
                           .inode = about.st_ino,
                           .seconds = about.st_mtim.tv_sec,
                           .nanoseconds = about.st_mtim.tv_nsec,
                           .bytes = (uint64_t)about.st_size };
    return true;
}

bool format_stamp_equal(const data_stamp *a, const data_stamp *b) {
    return a->device == b->device && a->inode == b->inode && a->seconds == b->seconds &&
           a->nanoseconds == b->nanoseconds && a->bytes == b->bytes;
}

/* Looked at behind a read, so that bytes which came from a change come with its time. */
static status check_stamp(const data_file *f, int handle) {
    data_stamp now = { 0 }, then = f->stamp;
    if (format_stamp(handle, &now) && format_stamp_equal(&now, &then)) return STATUS_OK;
    return status_set(STATUS_FAILED,
                      "%s has changed since it was opened (%" PRIu64 " bytes then, %" PRIu64
                      " now), and nothing of what it holds now was used; put back what it held",
                      f->path, then.bytes, now.bytes);
}

static status read_all(const data_file *f, int handle, uint64_t offset, void *into, uint64_t bytes) {
    for (char *to = into; bytes > 0;) {
        ssize_t n = pread(handle, to, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return status_set(STATUS_FAILED, "cannot read %s at byte %" PRIu64 ": %s", f->path, offset,
                              n < 0 ? strerror(errno) : "it has become shorter");
        to += n, offset += (uint64_t)n, bytes -= (uint64_t)n;
    }
    return STATUS_OK;
}

status format_pread(const data_file *f, uint64_t offset, void *into, uint64_t bytes) {
    int handle = f->handle >= 0 ? f->handle : open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (handle < 0) return status_set(STATUS_FAILED, "cannot open %s again: %s", f->path, strerror(errno));
    status result = read_all(f, handle, offset, into, bytes);
    if (result == STATUS_OK) result = check_stamp(f, handle);
    if (f->handle < 0) close(handle);
    return result;
}

status format_wrong_id(const data_file *f, uint64_t token, uint64_t id, bool negative, uint32_t vocabulary) {
    return status_set(STATUS_INVALID,
                      "%s: token %" PRIu64 " is %s%" PRIu64 ", but the vocabulary has %u ids (0 to %u); "
                      "the data needs the tokenizer of this model, or a model with a larger vocabulary",
                      f->path, token, negative ? "-" : "", negative ? 0 - id : id, vocabulary,
                      vocabulary - 1);
}

/* ---- items of one size ---- */

/* Item i, little-endian, signed ones extended. */
static uint64_t item(const data_file *f, const void *raw, uint64_t i) {
    switch (f->width) {
    case 1: return f->is_signed ? (uint64_t)((const int8_t *)raw)[i] : ((const uint8_t *)raw)[i];
    case 2: return f->is_signed ? (uint64_t)((const int16_t *)raw)[i] : ((const uint16_t *)raw)[i];
    case 4: return f->is_signed ? (uint64_t)((const int32_t *)raw)[i] : ((const uint32_t *)raw)[i];
    default: return ((const uint64_t *)raw)[i];
    }
}

/* Negative ids are large numbers here, so one comparison finds them as well. */
static status read_piece(const data_file *f, uint64_t first, uint64_t count, data_window *to) {
    TRY(format_pread(f, f->offset + first * f->width, to->scratch, count * f->width));
    for (uint64_t i = 0; i < count; i++) {
        uint64_t id = item(f, to->scratch, i);
        if (id >= to->vocabulary)
            return format_wrong_id(f, first + i, id, f->is_signed && id > INT64_MAX, to->vocabulary);
        if (to->tokens) format_put(to, (int32_t)id);
    }
    return STATUS_OK;
}

status format_read_items(const data_file *f, uint64_t first, uint64_t count, data_window *to) {
    uint64_t most = to->scratch_bytes / f->width;
    for (uint64_t n; count > 0; first += n, count -= n) {
        n = count < most ? count : most;
        TRY(read_piece(f, first, n, to));
    }
    return STATUS_OK;
}
