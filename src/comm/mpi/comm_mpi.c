/* Ranks by MPI: a module of its own (comm/module.h), linked with the MPI that was there when it was built.
 * Messages go from buffer to buffer, posted as they stand, so MPI needs no copies of large ones where it can
 * reach the other process's memory. Waiting naps: MPI's own waits burn a core. */
#include "comm/module.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static struct {
    int rank, world;
    MPI_Request *requests; /* two by rank, */
    MPI_Status *statuses;  /* what became of them, */
    int *of;               /* and by request the rank that it is of, */
    int *bytes;            /* and what is to come from it; 0: it is sent something */
    bool *there;           /* by rank: it has answered */
} own;

/* Messages of a swap; and of no bytes: is a rank there, and that it is. */
enum { TAG_DATA, TAG_ASKS, TAG_ANSWERS };

enum {
    MOST = 1 << 30 /* bytes of a message: MPI counts in int */,
    TRIES = 64,
    SLACK = 1000, /* nanoseconds that a nap may take longer; else Linux makes 70 microseconds of NAP */
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

/* Open MPI sends large messages of both directions through one connection in turns, which is half of what
 * the link can do: with two connections they go at once. Whoever has said something of either setting is
 * left alone, since the two together were seen to wait for ever (4.1.4). */
static void use_both_directions(void) {
    if (!getenv("OMPI_MCA_btl_tcp_flags")) setenv("OMPI_MCA_btl_tcp_links", "2", 0);
}

static int open_mpi(int *rank, int *world, char host[COMM_HOST_BYTES], char sentence[COMM_SENTENCE]) {
    int level;
    use_both_directions();
    if (said(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level), sentence)) return 1;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &own.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &own.world);
    *rank = own.rank, *world = own.world;
    if (gethostname(host, COMM_HOST_BYTES - 1) != 0) strcpy(host, "its host");
    own.requests = malloc(2 * (size_t)own.world * sizeof *own.requests);
    own.statuses = malloc(2 * (size_t)own.world * sizeof *own.statuses);
    own.of = malloc(2 * (size_t)own.world * sizeof *own.of);
    own.bytes = malloc(2 * (size_t)own.world * sizeof *own.bytes);
    own.there = malloc((size_t)own.world * sizeof *own.there);
    bool enough = own.requests && own.statuses && own.of && own.bytes && own.there;
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

/* ---- who is there ---- */

/* Nobody waits for such a message to be sent: whom it is for may have stopped. */
static void send_word(int rank, int tag) {
    MPI_Request sent;
    if (MPI_Isend(NULL, 0, MPI_BYTE, rank, tag, MPI_COMM_WORLD, &sent) == MPI_SUCCESS)
        MPI_Request_free(&sent);
}

/* The rank that has sent such a message, which is taken; -1: none has. */
static int next_word(int tag) {
    int come = 0;
    MPI_Status from;
    if (MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &come, &from) != MPI_SUCCESS || !come) return -1;
    MPI_Recv(NULL, 0, MPI_BYTE, from.MPI_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return from.MPI_SOURCE;
}

static void answer(void) {
    for (int rank; (rank = next_word(TAG_ASKS)) >= 0;) send_word(rank, TAG_ANSWERS);
}

static int first_silent(void) {
    for (int r = 0; r < own.world; r++)
        if (!own.there[r]) return r;
    return -1;
}

/* Those that wait look for questions every few milliseconds; they may have to get a processor first. */
static int find_silent(void) {
    const double patience = 2;
    for (int r = 0; r < own.world; r++) own.there[r] = r == own.rank;
    for (int r = 0; r < own.world; r++)
        if (r != own.rank) send_word(r, TAG_ASKS);
    for (double end = now() + patience; first_silent() >= 0 && now() < end;) {
        for (int r; (r = next_word(TAG_ANSWERS)) >= 0;) own.there[r] = true;
        answer();
        nanosleep(&(struct timespec){ .tv_nsec = LONG_NAP }, NULL);
    }
    return first_silent();
}

/* ---- moving ---- */

/* Of those that are waited for the first that is silent. They may all wait themselves: then whoever is
 * silent, and if nobody is the first of them. -1: what was to come has come. */
static int blame(int count) {
    int silent = find_silent(), first = -1;
    for (int i = 0; i < count; i++) {
        int done = 0;
        MPI_Test(&own.requests[i], &done, MPI_STATUS_IGNORE);
        if (done) continue;
        if (!own.there[own.of[i]]) return own.of[i];
        if (first < 0) first = own.of[i];
    }
    return first >= 0 && silent >= 0 ? silent : first;
}

static int too_long(int count, double limit, char sentence[COMM_SENTENCE]) {
    int rank = blame(count);
    if (rank < 0) return 0;
    snprintf(sentence, COMM_SENTENCE, "rank %d has been waited for for %.0f s (--rank-timeout)", rank, limit);
    return 1;
}

/* Ranks that don't do the same would take each other's messages for their own. */
static int as_meant(int count, char sentence[COMM_SENTENCE]) {
    for (int i = 0; i < count; i++) {
        int come = 0;
        if (own.bytes[i]) MPI_Get_count(&own.statuses[i], MPI_BYTE, &come);
        if (come == own.bytes[i]) continue;
        snprintf(sentence, COMM_SENTENCE, "rank %d has sent %d bytes where %d were meant", own.of[i], come,
                 own.bytes[i]);
        return 1;
    }
    return 0;
}

/* Whoever has waited for a millisecond naps longer: some percent of a core in all. A nap counts for a second
 * at most: where it took longer this process itself was suspended, and most likely the others with it. */
static int await(int count, double limit, char sentence[COMM_SENTENCE]) {
    prctl(PR_SET_TIMERSLACK, SLACK);
    double last = now(), waited = 0;
    for (long tries = 0;; tries++) {
        int done = 0;
        if (said(MPI_Testall(count, own.requests, &done, own.statuses), sentence)) return 1;
        if (done) return as_meant(count, sentence);
        if (tries % TRIES != TRIES - 1) continue;
        struct timespec nap = { .tv_nsec = tries < 16 * TRIES ? NAP : LONG_NAP };
        nanosleep(&nap, NULL);
        double time = now();
        waited += time - last < 1 ? time - last : 1;
        last = time;
        if (waited > limit) return too_long(count, limit, sentence);
        answer();
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
        own.of[count] = r, own.bytes[count] = (int)bytes;
        if (said(MPI_Irecv((char *)pairs[r].receive + from, (int)bytes, MPI_BYTE, r, TAG_DATA, MPI_COMM_WORLD,
                           &own.requests[count++]),
                 sentence))
            return 1;
    }
    for (int k = 1; k < own.world; k++) { /* each begins with the next one */
        int r = (own.rank + k) % own.world;
        uint64_t bytes = part(pairs[r].send_bytes, from);
        if (!bytes) continue;
        own.of[count] = r, own.bytes[count] = 0;
        if (said(MPI_Isend((const char *)pairs[r].send + from, (int)bytes, MPI_BYTE, r, TAG_DATA,
                           MPI_COMM_WORLD, &own.requests[count++]),
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
    free(own.statuses);
    free(own.bytes);
    free(own.of);
    free(own.there);
    own.requests = NULL, own.statuses = NULL, own.of = NULL, own.bytes = NULL, own.there = NULL;
}

static void abort_mpi(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

__attribute__((visibility("default"))) extern const comm_module snug_comm_module;
const comm_module snug_comm_module = { .version = COMM_MODULE_VERSION,
                                       .name = "MPI",
                                       .open = open_mpi,
                                       .swap = swap,
                                       .answer = answer,
                                       .find_silent = find_silent,
                                       .close = close_mpi,
                                       .abort = abort_mpi };
