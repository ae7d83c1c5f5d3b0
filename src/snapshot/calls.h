/* Calls as a trace has them, by their times: operators, functions of Python, and what was annotated. From
 * those that were going on in a thread when it asked for memory a stack of frames is made.
 *
 * A frame's line is the one that it was at, where the trace tells from where the next call came (CallFrom),
 * else the one that its function begins with. */
#pragma once

#include "snapshot/snapshot.h"

typedef struct {
    uint64_t begins;        /* nanoseconds */
    uint64_t lasts : 48;    /* nanoseconds */
    uint64_t thread : 16;   /* of threads */
    uint32_t frame;         /* of the snapshot's stacks */
    uint32_t from : 31;     /* the line in the caller that it was called from; 0: not told */
    uint32_t has_lines : 1; /* a function of Python, whose lines are told by what it calls */
} calls_call;

typedef struct {
    uint32_t call;  /* UINT32_MAX: it has ended before one that is within it, and is passed over */
    uint32_t stack; /* the number of the stack with all up to this one, */
    uint32_t made;  /* and how many had ended so when that was made; UINT32_MAX: it was not asked for yet */
    uint32_t heap;  /* of the thread's heap: no field of this call */
} calls_open_call;

typedef struct {
    uint64_t name;         /* as the file has it, mixed */
    calls_open_call *open; /* the outermost first; places of those that go on are a heap by their ends */
    uint32_t count, room;
    uint32_t live;   /* of count: they go on */
    uint32_t passed; /* how many ended before one that is within them, so far */
} calls_thread;

enum { CALLS_THREADS = 1 << 12 };
typedef struct {
    array all; /* calls_call */
    calls_thread *threads;
    uint32_t thread_count, thread_room, last_thread;
    uint16_t by_name[2 * CALLS_THREADS]; /* numbers of threads from 1, by hash; 0: free */
    uint32_t next;                       /* the first that has not begun yet */
} calls;

status calls_start(calls *c);
void calls_close(calls *c); /* fine on a zeroed one */

/* The thread's number. */
status calls_thread_of(calls *c, uint64_t name, uint16_t *thread);
status calls_add(calls *c, const calls_call *call);
uint64_t calls_bytes(const calls *c);

/* When all are there. */
void calls_sort(calls *c);
/* The stack of that thread at that time; times grow from one to the next. */
status calls_stack_at(calls *c, snapshot *s, uint16_t thread, uint64_t time, uint32_t *stack);
