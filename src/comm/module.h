/* What a transport between ranks is: a shared object of its own, which is opened only where several processes
 * were started. So one process loads nothing. A module knows nothing of snug but this table; calls return 0,
 * or leave a sentence in `sentence`. It takes no memory after `open` that it has not shown in a rehearsal. */
#pragma once

#include <stdint.h>

enum { COMM_MODULE_VERSION = 2, COMM_SENTENCE = 256, COMM_HOST_BYTES = 64 };

/* What this rank sends to another, and what it gets from it: addresses and bytes. */
typedef struct {
    const void *send;
    void *receive;
    uint64_t send_bytes, receive_bytes;
} comm_pair;

typedef struct {
    int version; /* COMM_MODULE_VERSION */
    const char *name;
    int (*open)(int *rank, int *world, char host[COMM_HOST_BYTES], char sentence[COMM_SENTENCE]);
    /* pairs[r] is of rank r; this one's own pair is left alone. All ranks call it in the same order, from one
     * thread each, and naps while it waits. Whoever is waited for longer than `limit` seconds is named: where
     * one of those does not answer it is that one. */
    int (*swap)(const comm_pair *pairs, double limit, char sentence[COMM_SENTENCE]);
    /* Between two swaps, on any one thread. A rank answers while it swaps, and as often as it calls `answer`.
     * find_silent asks all others, and waits a moment for their answers: the first that gives none, or -1.
     * These two may take memory; whoever asks is at its end. */
    void (*answer)(void);
    int (*find_silent)(void);
    void (*close)(void);     /* all ranks */
    void (*abort)(int code); /* ends all of them, with this exit code; does not come back */
} comm_module;

#define COMM_MODULE_SYMBOL "snug_comm_module" /* a const comm_module */
