#include "snapshot/source.h"

#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/units.h"
#include "data/documents/unpack.h"
#include "io/file.h"

enum { PACKED = 1 << 17, ALIGNMENT = 64 };

static status begin_unpacking(source *s) {
    TRY(unpack_gzip.there());
    s->packed = true;
    s->block = memory_room(1, (size_t)unpack_gzip.need(0) + ALIGNMENT);
    s->in = memory_room(PACKED, 1);
    if (!s->block || !s->in) return status_set(STATUS_FAILED, "no memory to unpack with");
    s->room = (void *)(uintptr_t)units_align((uintptr_t)s->block, ALIGNMENT);
    return unpack_gzip.begin(s->room, 0);
}

static status read_plain(source *s, void *into, size_t room, size_t *got) {
    *got = s->bytes - s->next < room ? (size_t)(s->bytes - s->next) : room;
    if (*got) TRY(io_read_at(s->file, s->path, s->next, into, *got));
    s->next += *got;
    return STATUS_OK;
}

static status read_on(source *s, void *into, size_t room, size_t *got) {
    if (!s->packed) return read_plain(s, into, room, got);
    for (*got = 0; *got == 0;) {
        if (s->in_at == s->in_end) {
            s->in_at = 0;
            TRY(read_plain(s, s->in, PACKED, &s->in_end));
        }
        unpack_span span = {
            .in = s->in + s->in_at, .in_left = s->in_end - s->in_at, .out = into, .out_left = room
        };
        bool ended = span.in_left == 0;
        status result = unpack_gzip.step(s->room, &span);
        if (result != STATUS_OK) return status_prefix(result, "%s", s->path);
        s->in_at = s->in_end - span.in_left;
        *got = room - span.out_left;
        if (ended && *got == 0)
            return span.between
                       ? STATUS_OK
                       : status_set(STATUS_INVALID, "%s: the packed file ends in the middle", s->path);
    }
    return STATUS_OK;
}

/* Of texts the mark of their order of bytes, and blanks, come before. */
static status read_head(source *s) {
    TRY(read_on(s, s->head, sizeof s->head, &s->head_end));
    size_t at = s->head_end >= 3 && memcmp(s->head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    s->head_at = at;
    while (at < s->head_end && strchr(" \t\r\n", s->head[at] ? s->head[at] : 'x')) at++;
    s->begins = at < s->head_end ? s->head[at] : 0;
    return STATUS_OK;
}

status source_open(const char *path, source *s) {
    *s = (source){ .path = path, .file = -1 };
    unsigned char head[2];
    TRY(io_open(path, &s->file, &s->bytes));
    status result = STATUS_OK;
    if (s->bytes >= sizeof head) {
        result = io_read_at(s->file, path, 0, head, sizeof head);
        if (result == STATUS_OK && head[0] == 0x1f && head[1] == 0x8b) {
            result = begin_unpacking(s);
            if (result != STATUS_OK) result = status_prefix(result, "%s", path);
        }
    }
    if (result == STATUS_OK) result = read_head(s);
    if (result != STATUS_OK) source_close(s);
    return result;
}

void source_close(source *s) {
    if (s->file >= 0) close(s->file);
    memory_free(s->block);
    memory_free(s->in);
    *s = (source){ .file = -1 };
}

status source_read(void *from, void *into, size_t room, size_t *got) {
    source *s = from;
    size_t left = s->head_end - s->head_at;
    if (!left) return read_on(s, into, room, got);
    *got = left < room ? left : room;
    memcpy(into, s->head + s->head_at, *got);
    s->head_at += *got;
    return STATUS_OK;
}
