/* Frames of code and stacks of them, each once, by number from 1. Stack 0 has no frames. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"

typedef struct {
    uint32_t name, file, line; /* texts; a frame without a file and a line says what was said of the event */
} stacks_frame;

typedef struct {
    uint32_t first, count; /* of `members`; the innermost frame first */
    uint32_t plain;        /* the stack without what was said; 0: this one says nothing, or has no more */
} stacks_stack;

typedef struct {
    uint32_t *slots, room;
} stacks_table;

typedef struct {
    array frames, members, all; /* stacks_frame, uint32_t, stacks_stack */
    stacks_table by_frame, by_stack;
} stacks;

status stacks_open(stacks *s);
void stacks_close(stacks *s); /* fine on a zeroed one */

status stacks_add_frame(stacks *s, stacks_frame f, uint32_t *number);
status stacks_add(stacks *s, const uint32_t *frames, uint32_t count, uint32_t *number);
/* The stack with one more frame, innermost, which is something that was said. */
status stacks_add_inner(stacks *s, uint32_t stack, uint32_t frame, uint32_t *number);
/* Without what was said: so that the lines of a model's blocks are the same, whatever the blocks are called.
 */
static inline uint32_t stacks_plain(const stacks *s, uint32_t stack) {
    uint32_t plain = stack ? ((const stacks_stack *)s->all.data)[stack].plain : 0;
    return plain ? plain : stack;
}
/* `plain` has the same frames but those that say something. */
void stacks_set_plain(stacks *s, uint32_t stack, uint32_t plain);
static inline bool stacks_is_said(const stacks_frame *f) { return !f->file && !f->line; }

static inline uint32_t stacks_depth(const stacks *s, uint32_t stack) {
    return stack ? ((const stacks_stack *)s->all.data)[stack].count : 0;
}
static inline const stacks_frame *stacks_at(const stacks *s, uint32_t stack, uint32_t i) {
    const stacks_stack *x = (const stacks_stack *)s->all.data + stack;
    return (const stacks_frame *)s->frames.data + ((const uint32_t *)s->members.data)[x->first + i];
}
uint64_t stacks_bytes(const stacks *s);
