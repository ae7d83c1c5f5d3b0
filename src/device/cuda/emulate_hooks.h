/* Between the emulation of kernels and who watches it (emulate_watch.h). */
#pragma once

#include "device/cuda/emulate.h"

namespace emulate {
/* The thread of a block that runs on this thread of the host. */
struct running {
    unsigned thread, barriers; /* how often its block has met so far */
    const char *stack;         /* NULL: that of the host */
    size_t stack_bytes;
    bool aside; /* it does what a unit does beside the kernel (emulate.h) */
};
/* False outside of kernels. */
bool is_running(running *r);

/* Of the running thread, which ends: its copies from global to shared memory must have landed, and products
 * of its group of warps be done. */
void copies_end(const char *kernel);
void groups_end();

/* A block begins, with so many bytes of shared memory: tensor cores have seen none of it. */
void shared_begins(size_t bytes);

/* Of the copy engine and its barriers (emulate_bulk.h): a block begins, and ends; a thread has shown what it
 * wrote; it has tensor cores read sixteen bytes of shared memory, and it wrote them itself. */
void bulk_begins(size_t bytes);
void bulk_ends();
void bulk_shown(unsigned thread);
void bulk_read(unsigned offset, unsigned thread);
void bulk_written(unsigned offset);

/* Of what tensor cores read by themselves (emulate_mma_group.h): where an address of shared memory is; the
 * running thread has them multiply sixteen bytes from there, and found these; are they still there? */
unsigned shared_offset(unsigned address);
void shared_multiplied(unsigned offset, const void *bytes);
bool shared_is(unsigned offset, const void *bytes);

/* A barrier that a commit will arrive at, by its number; it arrives, in the phase that it says; has the
 * thread waited until this phase was over? */
unsigned bulk_committed(const void *barrier);
unsigned bulk_arrived(unsigned number);
bool bulk_waited(unsigned number, unsigned phase, unsigned thread);

/* How many of each warp's reads of tensor memory are over. */
struct tmem_read_so_far {
    enum { WARPS = 32 };
    unsigned of_warp[WARPS];
};

/* Of tensor memory (emulate_tmem.h): a block begins, and ends; what a commit waits for is done, and it
 * arrives at this barrier (false: none would); a thread arrives at a barrier, to which it tells what it knows
 * of reads, and has waited for one, which tells it what those knew who had arrived. */
void tmem_begins_block();
void tmem_ends_block();
bool tmem_lands(unsigned barrier);
void tmem_arrives(unsigned thread, tmem_read_so_far *barrier);
void tmem_waited(unsigned thread, const tmem_read_so_far &barrier);

/* Four warps wait for each other. Orders no memory. */
void meet_group(site at);

/* The running thread waits for what another one does, or an engine: until it is given the processor again. */
void give_way(site at);
/* Something has happened that threads may wait for: else, where all of them wait, they do so for ever. */
void went_on();
/* All other threads that can go on do so, until they wait. */
void let_others_run(site at);
/* Ends the program: says why, and where the block's threads are. */
[[noreturn]] void stop(const char *why);

struct watcher {
    unsigned most_blocks; /* of a launch are run, evenly spaced; 0: all */
    void (*launch)(const launch_shape &shape, const void *arguments, size_t bytes);
    /* `given`: where shuffles pass what they exchange. */
    void (*block)(const unsigned char *shared, size_t shared_bytes, const void *given, size_t given_bytes);
    void (*block_ends)();
    void (*come)(unsigned lanes, unsigned turn, bool first); /* the running thread, to a __syncwarp */
    void (*go)(unsigned lanes, unsigned turn);               /* and on from it */
};
extern const watcher *watching; /* NULL: nobody. Where it is set, kernels run on the thread that launches */
} // namespace emulate
