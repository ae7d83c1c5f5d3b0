/* Writes traces as Kineto does, and memory timelines as PyTorch's profiler does, of any length, with what is
 * true of them: a random course of allocations and frees, counted here by itself. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "snapshot/writer.h"

typedef struct {
    uint64_t seed;
    uint32_t events; /* that tell of memory */
    uint32_t calls;  /* that enclose each of them */
    uint32_t most;   /* alive at once */
    int devices;     /* the first is the CPU, the others are GPUs */
    bool list;       /* a bare list of events, and no object */
    bool behind;     /* calls stand behind memory, as those of Python do; else before it */
    bool whole;      /* times without a fraction, as of 2021 */
    bool narrow;     /* no blanks */
} trace_options;

/* `truth` has room for all devices, in the order of the options. */
void trace_write(const char *path, const trace_options *o, writer_truth *truth);

typedef struct {
    uint64_t seed;
    uint32_t rows;
    bool raw;
} timeline_options;

typedef struct {
    uint64_t peak, end, by_category[8]; /* at the peak, in the timeline's order */
    uint64_t peak_time;                 /* microseconds */
} timeline_truth;

void timeline_write(const char *path, const timeline_options *o, timeline_truth *truth);
