/* libnccl.so.2 for tests, upon MPI or upon pages that ranks share (between.h): it has NCCL's names, moves
 * what is asked for, in the order of a stream of the emulated GPU, and ends the program with a sentence where
 * it was asked otherwise than NCCL may be asked:
 *
 * - a gathering that other ranks don't make, in this order and with these bytes, or a message that the other
 *   rank doesn't get so;
 * - memory that is not the device's, another stream than before, messages outside of a group;
 * - a communicator that was not made, or is not ended before the process ends without failure.
 *
 * Told by the environment: STANDIN_VERSION, the number it says it has (22304); STANDIN_FAILS=N, the group
 * that fails while it is under way, on all ranks; STANDIN_COUNTS=FILE, what was asked for, as JSON, from rank
 * 0. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/nccl/nccl_calls.h"
#include "comm/standin/between.h"
#include "device/cuda/emulate_stream.h"

enum { CALLS = 64, REMOTE = 6 };

typedef struct {
    enum { GATHERS, SENDS, RECEIVES } kind;
    int peer;
    const void *from;
    void *to;
    uint64_t bytes;
} call;

/* What was asked for between ncclGroupStart and ncclGroupEnd, or alone. */
typedef struct {
    uint64_t number, count;
    call calls[CALLS];
} group;

struct ncclComm {
    int rank, world;
};

static struct ncclComm the_one;
static struct {
    bool joined, aborted;
    int depth, error;
    group now;
    emulated_stream *stream;
    uint64_t asked, moved, gathers, sends, sent_bytes;
    uint64_t *sent, *got, gathered; /* messages so far, by rank; gatherings */
} own;

#define NCCL(type) __attribute__((visibility("default"))) type
#define DECLARE(name, arguments) NCCL(int) nccl##name arguments;
NCCL_CALLS(DECLARE)
NCCL(const char *) ncclGetErrorString(int result);

static void die(const char *why) {
    fprintf(stderr, "stand-in of NCCL: rank %d, group %llu: %s\n", the_one.rank,
            (unsigned long long)own.asked, why);
    fflush(stderr);
    between_abort();
}

static void must(bool holds, const char *why) {
    if (!holds) die(why);
}

/* ---- moving ---- */

/* The group that is under way: what ranks tell each other of it, then its messages. */
static struct {
    enum { NOT_BEGUN, COMPARING, MOVING } at;
    uint64_t *mine, *all;
    uint64_t told[CALLS]; /* of each message that comes, what the other rank says of it: bytes */
    char *copies[CALLS];
} flight;

static bool is_gather(const group *g) { return g->calls[0].kind == GATHERS; }

/* Two ranks have the same messages in the same order: each tells the other how large the next one is. */
static void begin_telling(const group *g) {
    for (uint64_t i = 0; i < g->count; i++) {
        const call *c = &g->calls[i];
        must(c->kind != GATHERS, "a gathering in a group of others");
        if (c->kind == SENDS) {
            own.sent[c->peer]++;
            between_send(&c->bytes, sizeof c->bytes, c->peer);
        } else {
            own.got[c->peer]++;
            between_receive(&flight.told[i], sizeof flight.told[i], c->peer);
        }
    }
}

static void end_telling(const group *g) {
    for (uint64_t i = 0; i < g->count; i++)
        must(g->calls[i].kind == SENDS || flight.told[i] == g->calls[i].bytes,
             "a rank sends other bytes than this one expects");
}

/* All ranks have the same gatherings in the same order, and before each the same messages: each tells how
 * many it has sent and got, by rank. */
static void begin_comparing(const group *g) {
    int world = the_one.world, words = world * 2 + 2;
    if (!is_gather(g)) {
        begin_telling(g);
        return;
    }
    flight.mine = calloc((size_t)words, sizeof *flight.mine);
    flight.all = calloc((size_t)(world * words), sizeof *flight.all);
    must(g->count == 1, "a gathering in a group of others");
    flight.mine[0] = own.gathered++;
    flight.mine[1] = g->calls[0].bytes;
    for (int r = 0; r < world; r++) flight.mine[2 + r] = own.sent[r], flight.mine[2 + world + r] = own.got[r];
    between_gather(flight.mine, flight.all, (uint64_t)words * sizeof *flight.mine);
}

static void end_comparing(const group *g) {
    int world = the_one.world, words = world * 2 + 2;
    if (!is_gather(g)) {
        end_telling(g);
        return;
    }
    for (int r = 0; r < world; r++) {
        const uint64_t *other = flight.all + r * words;
        must(other[0] == flight.mine[0], "other ranks are at another gathering");
        must(other[1] == flight.mine[1], "other ranks gather other bytes");
        must(other[2 + the_one.rank] == flight.mine[2 + world + r],
             "a rank has sent other messages than this one has got");
    }
    free(flight.mine);
    free(flight.all);
}

/* What moves is copies: what would be reached of the device is closed while it is under way. */
static void begin_moving(const group *g) {
    for (uint64_t i = 0; i < g->count; i++) {
        const call *c = &g->calls[i];
        uint64_t room = c->kind == GATHERS ? c->bytes * (uint64_t)(the_one.world + 1) : c->bytes;
        char *copy = flight.copies[i] = malloc(room);
        must(copy != NULL, "no memory");
        if (c->from) memcpy(copy, c->from, c->bytes);
        if (c->kind == GATHERS) between_gather(copy, copy + c->bytes, c->bytes);
        if (c->kind == SENDS) between_send(copy, c->bytes, c->peer);
        if (c->kind == RECEIVES) between_receive(copy, c->bytes, c->peer);
    }
}

static void end_moving(const group *g) {
    for (uint64_t i = 0; i < g->count; i++) {
        const call *c = &g->calls[i];
        if (c->kind == GATHERS)
            memcpy(c->to, flight.copies[i] + c->bytes, c->bytes * (uint64_t)the_one.world);
        if (c->kind == RECEIVES) memcpy(c->to, flight.copies[i], c->bytes);
        free(flight.copies[i]);
    }
}

/* STANDIN_FAILS. */
static bool fails(const group *g) {
    const char *said = getenv("STANDIN_FAILS");
    return said && strtoull(said, NULL, 10) == g->number;
}

static bool move(void *context) {
    const group *g = context;
    if (own.aborted || own.error) return true;
    must(g->number == own.moved, "a stream is out of order");
    if (flight.at == NOT_BEGUN) flight.at = COMPARING, begin_comparing(g);
    if (!between_over()) return false;
    if (flight.at == COMPARING) {
        end_comparing(g);
        if (fails(g)) own.error = REMOTE;
        if (own.error) return true;
        flight.at = MOVING, begin_moving(g);
    }
    if (!between_over()) return false;
    end_moving(g);
    flight.at = NOT_BEGUN;
    own.moved++;
    return true;
}

static void give(void) {
    group *g = &own.now;
    g->number = own.asked++;
    if (!g->count) die("an empty group");
    own.stream->give(own.stream, move, g, sizeof *g);
    memset(g, 0, sizeof *g);
}

static void add(call c, nccl_comm comm, int type, void *stream) {
    must(own.joined && !own.aborted && comm == &the_one, "this communicator is not made");
    must(type == NCCL_UINT8, "what is moved are no bytes");
    must(stream && (!own.stream || own.stream == stream), "another stream than before");
    own.stream = stream;
    uint64_t received = c.kind == GATHERS ? c.bytes * (uint64_t)the_one.world : c.bytes;
    must(c.kind == RECEIVES || own.stream->is_in_pool(c.from, c.bytes), "what is sent is not the device's");
    must(c.kind == SENDS || own.stream->is_in_pool(c.to, received), "what comes is not for the device");
    must(c.bytes > 0 && c.bytes < 1u << 30, "so many bytes are no message of a test's");
    must(c.peer >= 0 && c.peer < the_one.world, "there is no such rank");
    must(own.now.count < CALLS, "a group is too large for a test");
    own.now.calls[own.now.count++] = c;
}

int ncclAllGather(const void *send, void *receive, size_t count, int type, nccl_comm comm, void *stream) {
    own.gathers++, own.sent_bytes += count * (size_t)(the_one.world - 1);
    add((call){ GATHERS, 0, send, receive, count }, comm, type, stream);
    if (!own.depth) give();
    return 0;
}

int ncclSend(const void *send, size_t count, int type, int peer, nccl_comm comm, void *stream) {
    must(own.depth > 0, "a message outside of a group waits for the other rank");
    own.sends++, own.sent_bytes += count;
    add((call){ SENDS, peer, send, NULL, count }, comm, type, stream);
    return 0;
}

int ncclRecv(void *receive, size_t count, int type, int peer, nccl_comm comm, void *stream) {
    must(own.depth > 0, "a message outside of a group waits for the other rank");
    add((call){ RECEIVES, peer, NULL, receive, count }, comm, type, stream);
    return 0;
}

int ncclGroupStart(void) {
    own.depth++;
    return 0;
}

int ncclGroupEnd(void) {
    must(own.depth > 0, "no group has begun");
    if (--own.depth == 0) give();
    return 0;
}

/* ---- joining ---- */

int ncclGetVersion(int *version) {
    const char *said = getenv("STANDIN_VERSION");
    *version = said ? atoi(said) : 22304;
    return 0;
}

/* Processes that have one have a random part in common, or the address that all were told. */
int ncclGetUniqueId(nccl_unique_id *id) {
    const char *address = getenv("NCCL_COMM_ID");
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "%.100s %d", address ? address : "by",
             address ? 0 : (int)getpid());
    return 0;
}

/* Each tells all others its id. */
static void compare_ids(const nccl_unique_id *id) {
    char *list = calloc((size_t)the_one.world, sizeof *id);
    must(list != NULL, "no memory");
    between_gather(id, list, sizeof *id);
    while (!between_over()) usleep(100);
    for (int r = 0; r < the_one.world; r++)
        must(memcmp(list + (size_t)r * sizeof *id, id, sizeof *id) == 0, "ranks have different ids");
    free(list);
}

int ncclCommInitRank(nccl_comm *comm, int ranks, nccl_unique_id id, int rank) {
    must(!own.joined, "a second communicator");
    between_open(rank, ranks);
    the_one = (struct ncclComm){ rank, ranks };
    must(rank == between_rank() && ranks == between_world(), "ranks are other ones than the launcher's");
    compare_ids(&id);
    own.sent = calloc((size_t)ranks, sizeof *own.sent), own.got = calloc((size_t)ranks, sizeof *own.got);
    must(own.sent && own.got, "no memory");
    own.joined = true;
    *comm = &the_one;
    return 0;
}

static void write_counts(void) {
    const char *path = getenv("STANDIN_COUNTS");
    FILE *file = path && the_one.rank == 0 ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file,
            "{\"groups\": %llu, \"moved\": %llu, \"gathers\": %llu, \"sends\": %llu, \"sent_bytes\": %llu}\n",
            (unsigned long long)own.asked, (unsigned long long)own.moved, (unsigned long long)own.gathers,
            (unsigned long long)own.sends, (unsigned long long)own.sent_bytes);
    fclose(file);
}

int ncclCommDestroy(nccl_comm comm) {
    must(own.joined && comm == &the_one && !own.aborted, "this communicator is not made");
    must(own.asked == own.moved, "what was asked for has not been moved");
    write_counts();
    free(own.sent);
    free(own.got);
    between_close();
    own.joined = false;
    return 0;
}

int ncclCommAbort(nccl_comm comm) {
    must(own.joined && comm == &the_one, "this communicator is not made");
    own.aborted = true;
    return 0;
}

int ncclCommGetAsyncError(nccl_comm comm, int *result) {
    must(own.joined && comm == &the_one && !own.aborted, "this communicator is not made");
    *result = own.error;
    return 0;
}

const char *ncclGetErrorString(int result) {
    return result == REMOTE ? "remote process exited or there was a network error" : "no error";
}
