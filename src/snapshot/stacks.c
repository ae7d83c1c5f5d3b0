#include "snapshot/stacks.h"

#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

/* A piece of a snapshot has 24 bits for its stack. */
enum { MOST_STACKS = 1 << 24, MOST_FRAMES = 1 << 24, MOST_MEMBERS = 1 << 28, FIRST_ROOM = 1 << 10 };

status stacks_open(stacks *s) {
    *s = (stacks){ 0 };
    status result = array_open(&s->frames, sizeof(stacks_frame), MOST_FRAMES);
    if (result == STATUS_OK) result = array_open(&s->members, sizeof(uint32_t), MOST_MEMBERS);
    if (result == STATUS_OK) result = array_open(&s->all, sizeof(stacks_stack), MOST_STACKS);
    if (result != STATUS_OK) stacks_close(s);
    return result;
}

void stacks_close(stacks *s) {
    array_close(&s->frames);
    array_close(&s->members);
    array_close(&s->all);
    memory_free(s->by_frame.slots);
    memory_free(s->by_stack.slots);
    *s = (stacks){ 0 };
}

uint64_t stacks_bytes(const stacks *s) {
    return (uint64_t)s->frames.count * s->frames.item_bytes +
           (uint64_t)s->members.count * s->members.item_bytes + (uint64_t)s->all.count * s->all.item_bytes +
           4ull * (s->by_frame.room + s->by_stack.room);
}

static uint32_t spread(uint32_t hash) { return hash ^ hash >> 15; }

static uint32_t frame_hash(const stacks *s, uint32_t frame) {
    return spread(hash_bytes((const stacks_frame *)s->frames.data + frame, sizeof(stacks_frame)));
}

static const uint32_t *members_of(const stacks *s, uint32_t stack) {
    return (const uint32_t *)s->members.data + ((const stacks_stack *)s->all.data)[stack].first;
}

static uint32_t stack_hash(const stacks *s, uint32_t stack) {
    return spread(hash_bytes(members_of(s, stack), stacks_depth(s, stack) * sizeof(uint32_t)));
}

static status grow(const stacks *s, stacks_table *t, uint32_t count,
                   uint32_t (*hash)(const stacks *, uint32_t)) {
    if (count < t->room / 2) return STATUS_OK;
    uint32_t room = t->room ? 2 * t->room : FIRST_ROOM, *slots = memory_new(room, sizeof *slots);
    if (!slots) return status_set(STATUS_FAILED, "no memory for the stacks of the snapshot");
    for (uint32_t i = 1; i < count; i++) {
        uint32_t at = hash(s, i) & (room - 1);
        while (slots[at]) at = (at + 1) & (room - 1);
        slots[at] = i;
    }
    memory_free(t->slots);
    *t = (stacks_table){ .slots = slots, .room = room };
    return STATUS_OK;
}

static status too_many(const array *a, const char *what) {
    if (a->capacity < a->wanted)
        return status_set(STATUS_FAILED,
                          "the limit on address space leaves no room for more %s of the snapshot; "
                          "raise it (ulimit -v)",
                          what);
    return status_set(STATUS_INVALID, "the snapshot has more different %s than are held", what);
}

status stacks_add_frame(stacks *s, stacks_frame f, uint32_t *number) {
    TRY(grow(s, &s->by_frame, s->frames.count, frame_hash));
    uint32_t at = spread(hash_bytes(&f, sizeof f)) & (s->by_frame.room - 1);
    for (; s->by_frame.slots[at]; at = (at + 1) & (s->by_frame.room - 1)) {
        *number = s->by_frame.slots[at];
        if (memcmp((const stacks_frame *)s->frames.data + *number, &f, sizeof f) == 0) return STATUS_OK;
    }
    if (array_add(&s->frames, 1, number) != STATUS_OK) return too_many(&s->frames, "frames");
    ((stacks_frame *)s->frames.data)[*number] = f;
    s->by_frame.slots[at] = *number;
    return STATUS_OK;
}

status stacks_add(stacks *s, const uint32_t *frames, uint32_t count, uint32_t *number) {
    *number = 0;
    if (!count) return STATUS_OK;
    TRY(grow(s, &s->by_stack, s->all.count, stack_hash));
    uint32_t at = spread(hash_bytes(frames, count * sizeof *frames)) & (s->by_stack.room - 1), first;
    for (; s->by_stack.slots[at]; at = (at + 1) & (s->by_stack.room - 1)) {
        *number = s->by_stack.slots[at];
        if (stacks_depth(s, *number) == count &&
            memcmp(members_of(s, *number), frames, count * sizeof *frames) == 0)
            return STATUS_OK;
    }
    if (array_add(&s->members, count, &first) != STATUS_OK) return too_many(&s->members, "stacks");
    if (array_add(&s->all, 1, number) != STATUS_OK) return too_many(&s->all, "stacks");
    memcpy((uint32_t *)s->members.data + first, frames, count * sizeof *frames);
    ((stacks_stack *)s->all.data)[*number] = (stacks_stack){ .first = first, .count = count };
    s->by_stack.slots[at] = *number;
    return STATUS_OK;
}

void stacks_set_plain(stacks *s, uint32_t stack, uint32_t plain) {
    ((stacks_stack *)s->all.data)[stack].plain = plain;
}

/* The frames are put behind the others, and are a stack there, or are taken back where it is known. */
status stacks_add_inner(stacks *s, uint32_t stack, uint32_t frame, uint32_t *number) {
    uint32_t depth = stacks_depth(s, stack), first, count = s->members.count;
    if (array_add(&s->members, depth + 1, &first) != STATUS_OK) return too_many(&s->members, "stacks");
    uint32_t *frames = (uint32_t *)s->members.data + first;
    *frames = frame;
    if (depth) memcpy(frames + 1, members_of(s, stack), depth * sizeof *frames);
    status result = stacks_add(s, frames, depth + 1, number);
    bool grew = result == STATUS_OK && s->members.count > first + depth + 1;
    if (grew) memmove(frames, frames + depth + 1, (depth + 1) * sizeof *frames);
    if (grew) ((stacks_stack *)s->all.data)[*number].first = first;
    uint32_t end = grew ? first + depth + 1 : count;
    memset((uint32_t *)s->members.data + end, 0, (s->members.count - end) * sizeof *frames);
    s->members.count = end;
    if (result == STATUS_OK) stacks_set_plain(s, *number, stack);
    return result;
}
