#include "data/documents/input.h"

#include <inttypes.h>
#include <string.h>

#include "base/least.h"

void input_lay_out(input *in, document_room *room) {
    in->buffer = document_room_take(room, in->capacity);
    if (!in->unpack) return;
    in->packed = document_room_take(room, INPUT_PACKED);
    in->unpacking = document_room_take(room, in->unpack->need(in->window));
}

static status read_packed(input *in) {
    uint64_t rest = in->file->bytes - in->next, n = (uint64_t)least((int64_t)rest, INPUT_PACKED);
    TRY(format_pread(in->file, in->next, in->packed, n));
    in->next += n;
    in->packed_at = 0, in->packed_end = (uint32_t)n;
    return STATUS_OK;
}

/* Unpacks into the rest of the buffer until there is something, or the end. */
static status unpack_some(input *in, uint32_t *made) {
    *made = 0;
    while (!*made) {
        if (in->packed_at == in->packed_end && in->next < in->file->bytes) TRY(read_packed(in));
        bool last = in->next == in->file->bytes;
        uint32_t room = in->capacity - in->end;
        unpack_span s = { .in = in->packed + in->packed_at,
                          .in_left = in->packed_end - in->packed_at,
                          .out = (unsigned char *)in->buffer + in->end,
                          .out_left = room,
                          .between = in->between };
        size_t had = s.in_left;
        if (in->unpack->step(in->unpacking, &s) != STATUS_OK)
            return status_prefix(STATUS_INVALID, "%s, near byte %" PRIu64, in->file->path,
                                 in->next - in->packed_end + in->packed_at);
        in->packed_at = in->packed_end - (uint32_t)s.in_left;
        in->between = s.between;
        *made = room - (uint32_t)s.out_left;
        if (*made || s.in_left != had || !last) continue;
        if (in->between && !s.in_left && in->file->bytes) break;
        return status_set(STATUS_INVALID, "%s is cut short: it ends inside of what %s packed", in->file->path,
                          in->unpack->name);
    }
    return STATUS_OK;
}

static status read_some(input *in, uint32_t *made) {
    uint64_t rest = in->file->bytes - in->next;
    *made = (uint32_t)least((int64_t)rest, in->capacity - in->end);
    TRY(format_pread(in->file, in->next, in->buffer + in->end, *made));
    in->next += *made;
    return STATUS_OK;
}

status input_more(input *in, uint32_t wanted) {
    memmove(in->buffer, in->buffer + in->at, in->end - in->at);
    in->offset += in->at;
    in->end -= in->at;
    in->at = 0;
    for (uint32_t made = 1; in->end < wanted && made;) {
        TRY(in->unpack ? unpack_some(in, &made) : read_some(in, &made));
        in->end += made;
    }
    return STATUS_OK;
}

/* Takes what is there until the offset comes. */
static status skip_to(input *in, uint64_t offset) {
    while (input_place(in) < offset) {
        TRY(input_ahead(in, 1));
        if (in->at == in->end)
            return status_set(STATUS_INVALID, "%s has no byte %" PRIu64 ": it ends at %" PRIu64,
                              in->file->path, offset, input_place(in));
        in->at += (uint32_t)least((int64_t)(offset - input_place(in)), in->end - in->at);
    }
    return STATUS_OK;
}

status input_seek(input *in, uint64_t offset) {
    if (!in->unpack && offset > in->file->bytes)
        return status_set(STATUS_INVALID, "%s has no byte %" PRIu64 ": it ends at %" PRIu64, in->file->path,
                          offset, in->file->bytes);
    in->at = in->end = in->packed_at = in->packed_end = 0;
    in->next = in->offset = in->unpack ? 0 : offset;
    in->between = false;
    if (!in->unpack) return STATUS_OK;
    if (in->unpack->begin(in->unpacking, in->window) != STATUS_OK)
        return status_prefix(STATUS_INVALID, "%s", in->file->path);
    return skip_to(in, offset);
}
