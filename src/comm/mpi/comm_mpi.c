/* Ranks by MPI: a module of its own (comm/module.h), linked with the MPI that was there when it was built.
 * Messages go from buffer to buffer, posted as they stand, so MPI needs no copies of large ones where it can
 * reach the other process's memory. Waiting naps: MPI's own waits burn a core. */
#include "comm/module.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
    int rank, world;
    MPI_Request *requests; /* two by rank, */
    int *of;               /* and by request the rank that it is of */
} own;

enum {
    MOST = 1 << 30 /* bytes of a message: MPI counts in int */,
    TRIES = 64,
    NAP = 20000,
    LONG_NAP = 200000
};

static int said(int code, char sentence[COMM_SENTENCE]) {
    char words[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (code == MPI_SUCCESS) return 0;
    MPI_Error_string(code, words, &length);
    snprintf(sentence, COMM_SENTENCE, "%.*s", length, words);
    return 1;
}

static int open_mpi(int *rank, int *world, char host[COMM_HOST_BYTES], char sentence[COMM_SENTENCE]) {
    int level;
    if (said(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level), sentence)) return 1;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &own.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &own.world);
    *rank = own.rank, *world = own.world;
    if (gethostname(host, COMM_HOST_BYTES - 1) != 0) strcpy(host, "its host");
    own.requests = malloc(2 * (size_t)own.world * sizeof *own.requests);
    own.of = malloc(2 * (size_t)own.world * sizeof *own.of);
    bool enough = own.requests && own.of;
    if (!enough) snprintf(sentence, COMM_SENTENCE, "no memory for %d ranks", own.world);
    if (enough && level < MPI_THREAD_SERIALIZED)
        snprintf(sentence, COMM_SENTENCE, "this MPI was built without threads");
    return !enough || level < MPI_THREAD_SERIALIZED;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Names the first one of those that are waited for. */
static int too_long(int count, double limit, char sentence[COMM_SENTENCE]) {
    for (int i = 0; i < count; i++) {
        int done = 0;
        if (said(MPI_Test(&own.requests[i], &done, MPI_STATUS_IGNORE), sentence)) return 1;
        if (done) continue;
        snprintf(sentence, COMM_SENTENCE, "rank %d has been waited for for %.0f s (--rank-timeout)",
                 own.of[i], limit);
        return 1;
    }
    return 0;
}

/* Whoever has waited for a millisecond naps longer: some percent of a core in all. A nap counts for a second
 * at most: where it took longer this process itself was suspended, and most likely the others with it. */
static int await(int count, double limit, char sentence[COMM_SENTENCE]) {
    double last = now(), waited = 0;
    for (long tries = 0;; tries++) {
        int done = 0;
        if (said(MPI_Testall(count, own.requests, &done, MPI_STATUSES_IGNORE), sentence)) return 1;
        if (done) return 0;
        if (tries % TRIES != TRIES - 1) continue;
        struct timespec nap = { .tv_nsec = tries < 16 * TRIES ? NAP : LONG_NAP };
        nanosleep(&nap, NULL);
        double time = now();
        waited += time - last < 1 ? time - last : 1;
        last = time;
        if (waited > limit) return too_long(count, limit, sentence);
    }
}

static uint64_t part(uint64_t bytes, uint64_t from) {
    if (bytes <= from) return 0;
    return bytes - from < MOST ? bytes - from : MOST;
}

/* Messages of at most MOST bytes, all pairs at once. */
static int swap_from(const comm_pair *pairs, uint64_t from, double limit, char sentence[COMM_SENTENCE]) {
    int count = 0;
    for (int r = 0; r < own.world; r++) {
        uint64_t bytes = r == own.rank ? 0 : part(pairs[r].receive_bytes, from);
        if (!bytes) continue;
        own.of[count] = r;
        if (said(MPI_Irecv((char *)pairs[r].receive + from, (int)bytes, MPI_BYTE, r, 0, MPI_COMM_WORLD,
                           &own.requests[count++]),
                 sentence))
            return 1;
    }
    for (int k = 1; k < own.world; k++) { /* each begins with the next one */
        int r = (own.rank + k) % own.world;
        uint64_t bytes = part(pairs[r].send_bytes, from);
        if (!bytes) continue;
        own.of[count] = r;
        if (said(MPI_Isend((const char *)pairs[r].send + from, (int)bytes, MPI_BYTE, r, 0, MPI_COMM_WORLD,
                           &own.requests[count++]),
                 sentence))
            return 1;
    }
    return await(count, limit, sentence);
}

static int swap(const comm_pair *pairs, double limit, char sentence[COMM_SENTENCE]) {
    uint64_t most = 0;
    for (int r = 0; r < own.world; r++) {
        if (pairs[r].send_bytes > most) most = pairs[r].send_bytes;
        if (pairs[r].receive_bytes > most) most = pairs[r].receive_bytes;
    }
    for (uint64_t from = 0; from < most; from += MOST)
        if (swap_from(pairs, from, limit, sentence)) return 1;
    return 0;
}

static void close_mpi(void) {
    MPI_Finalize();
    free(own.requests);
    free(own.of);
    own.requests = NULL, own.of = NULL;
}

static void abort_mpi(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

__attribute__((visibility("default"))) extern const comm_module snug_comm_module;
const comm_module snug_comm_module = { .version = COMM_MODULE_VERSION,
                                       .name = "MPI",
                                       .open = open_mpi,
                                       .swap = swap,
                                       .close = close_mpi,
                                       .abort = abort_mpi };
