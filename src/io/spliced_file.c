#include "io/spliced_file.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "io/file.h"

status spliced_file_open(const char *path, const file_splice *splice, spliced_file *f) {
    uint64_t bytes;
    *f = (spliced_file){ .path = path, .file = -1 };
    TRY(io_open(path, &f->file, &bytes));
    f->splice = splice ? *splice : (file_splice){ .at = bytes, .of = bytes };
    if (f->splice.of == bytes) return STATUS_OK;
    spliced_file_close(f);
    return status_set(STATUS_INVALID,
                      "%s was changed since the run began: it had %" PRIu64 " bytes, and now %" PRIu64, path,
                      splice->of, bytes);
}

void spliced_file_close(spliced_file *f) {
    if (f->file >= 0) close(f->file);
    f->file = -1;
}

uint64_t spliced_file_bytes(const spliced_file *f) { return f->splice.of - f->splice.gone + f->splice.bytes; }

/* How many of `bytes` from `offset` on lie before `end`. */
static uint64_t before(uint64_t end, uint64_t offset, uint64_t bytes) {
    uint64_t most = end > offset ? end - offset : 0;
    return most < bytes ? most : bytes;
}

status spliced_file_read(const spliced_file *f, uint64_t offset, void *into, uint64_t bytes) {
    const file_splice *s = &f->splice;
    char *to = into;
    uint64_t n = before(s->at, offset, bytes);
    if (n) TRY(io_read_at(f->file, f->path, offset, to, n));
    to += n, offset += n, bytes -= n;
    n = before(s->at + s->bytes, offset, bytes);
    if (n) memcpy(to, s->put + (offset - s->at), n);
    to += n, offset += n, bytes -= n;
    return bytes ? io_read_at(f->file, f->path, offset - s->bytes + s->gone, to, bytes) : STATUS_OK;
}

static status read_source(const void *from, const char *path, uint64_t offset, void *into, uint64_t bytes) {
    (void)path;
    return spliced_file_read(from, offset, into, bytes);
}

json_source spliced_file_source(const spliced_file *f, const char *what) {
    return (json_source){
        .read = read_source, .from = f, .path = f->path, .what = what, .bytes = spliced_file_bytes(f)
    };
}
