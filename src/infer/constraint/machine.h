/* Reads JSON byte by byte and knows after each whether a value of the schema can still come of it.
 *
 * A state is a few threads, each a way of reading what was written: one, but where alternatives begin alike.
 * A thread stands somewhere in a value, and within frames: the objects and lists around it. Frames are never
 * changed once they are made, so threads share them, and a state of the past is there again by forgetting
 * the frames that came after it.
 *
 * Every thread can come to an end: none begins what has no end within SCHEMA_DEPTH. So dropping one, where
 * there is no room for more, only takes away ways of writing.
 *
 * Between values there are at most MACHINE_BLANKS blanks, and none around the whole; whole numbers have at
 * most 18 digits, others as many before and behind the point, and two in their exponents; names of known
 * properties and values of enum are written in one way. Members of objects come in any order, known ones
 * once. */
#pragma once

#include "infer/constraint/schema.h"

enum {
    MACHINE_THREADS = 24,
    MACHINE_FRAMES = 320,
    MACHINE_KEPT = 96,
    MACHINE_BLANKS = 64,
    MACHINE_DIGITS = 18
};

/* An object or list that has begun. */
typedef struct {
    uint64_t seen;   /* properties, by their places */
    uint32_t items;  /* of a list, as far as that matters */
    uint16_t parent; /* 0: none */
    uint16_t form;
    uint8_t depth;
} machine_frame;

typedef struct {
    uint16_t at; /* a place of machine.c */
    uint16_t form, frame;
    uint16_t small; /* bytes of a name so far; a range of bytes; hexadecimal digits */
    uint16_t first,
        last;       /* literals or properties that it may still be; or how many bytes and digits are left */
    uint32_t count; /* blanks, characters, digits */
} machine_thread;

typedef struct {
    uint32_t count; /* 0: nothing can come of it */
    machine_thread threads[MACHINE_THREADS];
} machine_state;

/* Frame 0 is none. */
typedef struct {
    const schema *schema;
    machine_frame *frames; /* room for `room` */
    uint32_t frame_count, room;
} machine;

void machine_begin(machine *m, machine_state *s); /* m: schema, frames and room are set */
/* The state behind one more byte; `to` is another one. */
void machine_step(machine *m, const machine_state *from, unsigned char c, machine_state *to);
bool machine_complete(const machine_state *s); /* may it end here? */
bool machine_over(const machine_state *s);     /* may nothing follow? */
/* Only the frames that the state needs are left, MACHINE_KEPT at most. */
void machine_settle(machine *m, machine_state *s);

/* Does a thread stand between two characters of a text? Then how many more it may have. */
bool machine_in_text(const machine *m, const machine_thread *t, uint32_t *left);
