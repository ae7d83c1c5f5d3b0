/* Events of a device's allocator, played one after the other: who is alive, and how much at most. */
#pragma once

#include "snapshot/snapshot.h"

typedef enum {
    PLAY_OTHER, /* what says nothing of memory, or is not known */
    PLAY_ALLOC,
    PLAY_FREE_REQUESTED,
    PLAY_FREE_COMPLETED,
    PLAY_SEGMENT_ALLOC,
    PLAY_SEGMENT_FREE,
    PLAY_SEGMENT_MAP,
    PLAY_SEGMENT_UNMAP,
    PLAY_OOM
} play_action;

typedef struct {
    play_action action;
    uint32_t stack;
    uint64_t address, bytes, time, device_free;
    uint16_t lane;
    bool free_known; /* device_free is told */
} play_event;

/* Of the word that the file has: "alloc". */
play_action play_action_of(const char *word);

status play_open(snapshot_trace *t);
void play_close(snapshot_trace *t);
status play_add(snapshot_trace *t, const play_event *e);

/* Bytes that were there before and stay, of which nothing else is known. */
status play_before(snapshot_trace *t, uint64_t bytes);
/* Since the last event so many bytes are reserved. */
status play_reserved(snapshot_trace *t, uint64_t bytes);

/* When all events and segments are there: what was alive before the recording and still is at the end, from
 * the blocks of the device's segments; sets base, reserved and unlike, and forgets `live`. */
status play_finish(const snapshot *s, snapshot_trace *t);
