/* From nodes to kernel calls: for every node that computes, the first kernel of its op that accepts it, and
 * the scratch that this kernel asks for. Views and gathers compute nothing and have no step. */
#pragma once

#include "device/device.h"
#include "ir/graph.h"
#include "ir/op.h"

typedef struct {
    node_id node;
    bool by_host;    /* the kernel is the host's, on a device that has none (device.host) */
    uint16_t starts; /* of kernels, on a GPU: of its sweep in the first step of one (schedule/sweep.h) */
    const op_kernel *kernel;
    uint64_t scratch_bytes;
    double seconds; /* predicted */
} lower_step;

/* What the host asks for: an optimizer step, the loss over the validation samples, the next token. */
typedef enum { TASK_TRAIN, TASK_EVALUATE, TASK_DECODE } program_task;

/* How the host runs a program: in `calls` calls of `batch` samples, from sample `first` of its task on and
 * then from every `every`th. All programs of a task together take each of its samples once, in order; where
 * several could begin at a sample, the one whose `first` is largest does. */
typedef struct {
    const char *name; /* static: for reports */
    program_task task;
    int64_t batch, first, calls, every; /* every 0: batch */
} program_shape;

/* What one call runs: a graph and its kernels in order of execution. Owns both. */
typedef struct {
    program_shape shape; /* given by who makes the program */
    graph graph;
    lower_step *steps;
    uint32_t count;
    double seconds;   /* predicted, of all steps */
    double computing; /* the same but for waiting for pieces */
    double waiting;   /* of `seconds`, for other ranks; with what moving takes of a processor */
    bool has_away;    /* some values are away from memory (lower/pieces.h) */
} program;

typedef struct {
    const device *device; /* that computes; NULL: device_default */
    int threads;
    device_rates rates;
    bool reference;  /* only reference kernels: for tests */
    bool unverified; /* the graph is not proved to be sound; what comes of it must not be run */
    bool unwaited;   /* what waits for pieces and ranks is not predicted (predict_unwaited) */
} lower_options;

const device *lower_device(const lower_options *o);

/* Takes over `g` (also on failure), and leaves p->shape as it is; free with lower_close. */
status lower_program(graph *g, const lower_options *o, program *p);
void lower_close(program *p);

/* Can a device start all of it as one (device.capture)? Each run gives it the same kernels, and nothing else:
 * no pieces, nothing that moves between ranks, no kernel of the host's. */
bool lower_capturable(const program *p);

/* What a device starts for all steps, as predicted; 0 where that is not counted. */
uint64_t lower_starts(const program *p);

/* What the step's node costs, by the kernel that it has: GPUs multiply numbers of 16 bits on tensor cores, or
 * as f32, whatever the op says. */
op_cost lower_cost(const graph *g, const lower_step *step);

/* Fills a call on the device, its arguments but for their data: shapes and dtypes of node n. `args` has room
 * for in_count + out_count. */
void lower_call(const graph *g, const node *n, const device *d, op_arg *args, op_call *call);
