/* Lanes: queues of work that go on side by side. Each does its own in order. Work begins when its lane is
 * free and what it waits for has happened; when that is, is all that the model of time knows of a lane. */
#pragma once

#include "device/device.h"

/* What reads and writes a file is a lane as well, though no device's, and so is what moves between ranks. */
enum { LANES_FILE = LANE_COUNT, LANES_ALL };

/* By lane: the moment, in seconds, when it will have done all that it was given. */
typedef struct {
    double free[LANES_ALL];
} lanes;

/* Gives a lane work that takes `seconds` and may begin at moment `event`. Returns the moment when it is done:
 * an event that other work can wait for. */
static inline double lanes_add(lanes *l, int which, double event, double seconds) {
    double *free = &l->free[which];
    *free = (*free > event ? *free : event) + seconds;
    return *free;
}

/* All lanes go on working for so long, in the same pace. */
void lanes_pass(lanes *l, double seconds);
