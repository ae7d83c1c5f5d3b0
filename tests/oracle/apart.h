/* A device of memory only, as a stand-in for one that computes elsewhere: kernels are the CPU's, but its
 * pools are closed to the process unless kernels run or a copy is on its way. Whoever keeps an address in
 * such a pool, and looks there, ends by SIGSEGV. */
#pragma once

#include "device/device.h"

/* When its lane of copies does what it was given: at once; as late as its events allow; at random in between.
 * A wrong order of copies and kernels shows in at least one of them. */
typedef enum { APART_EAGER, APART_LAZY, APART_RANDOM } apart_pace;
extern apart_pace apart_pace_now;

typedef struct {
    uint64_t open_bytes, most_bytes; /* of its pools: now, and at most */
    uint64_t put_bytes, got_bytes;   /* that were copied */
    uint64_t runs;                   /* from begin to end */
    uint64_t copies, copied_bytes;   /* on the lane of copies */
    uint64_t waited;                 /* how many copies were waited for by kernels, or at the end of a run */
} apart_counts;

/* Of its memory: what is free, what its plans have reserved for what the process takes beside pools, and how
 * much that is. Its capability is that of its kernels, the CPU's, and then some. */
enum { APART_RESERVE = 3 << 20, APART_CAPABILITY = 70 };
extern uint64_t apart_free, apart_beside;

extern const device apart_device;
extern apart_counts apart_seen; /* of one thread that runs plans at a time */
