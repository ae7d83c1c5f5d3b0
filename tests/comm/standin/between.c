#include "comm/standin/between.h"

#include <fcntl.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 256, RING = 1 << 16, MOST_RANKS = 8 };

/* Bytes from one rank to another: `put` and `got` so far. */
typedef struct {
    _Atomic uint64_t put, got;
    unsigned char bytes[RING];
} ring;

typedef struct {
    atomic_int joined; /* ranks; tests look at it */
    ring rings[MOST_RANKS][MOST_RANKS];
} pages;

typedef struct {
    char *at;
    uint64_t bytes, done;
    int peer;
    bool sends;
} message;

static struct {
    int rank, world, count;
    bool ours_to_end;
    MPI_Comm mpi;
    MPI_Request requests[MOST];
    pages *shared; /* NULL: by MPI */
    message messages[MOST];
} own;

/* ---- opening ---- */

static void open_pages(const char *path) {
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (own.world > MOST_RANKS || file < 0 || ftruncate(file, sizeof(pages)) != 0) between_abort();
    own.shared = mmap(NULL, sizeof(pages), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (own.shared == MAP_FAILED) between_abort();
    atomic_fetch_add(&own.shared->joined, 1);
    while (atomic_load(&own.shared->joined) < own.world) usleep(1000);
}

static void open_mpi(void) {
    int begun, level;
    MPI_Initialized(&begun);
    own.ours_to_end = !begun;
    if (!begun) MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_dup(MPI_COMM_WORLD, &own.mpi);
}

void between_open(int rank, int world) {
    const char *path = getenv("STANDIN_SHARED");
    own.rank = rank, own.world = world;
    if (path)
        open_pages(path);
    else
        open_mpi();
}

void between_close(void) {
    if (own.shared) munmap(own.shared, sizeof(pages));
    if (!own.shared) MPI_Comm_free(&own.mpi);
    if (own.ours_to_end) MPI_Finalize();
}

_Noreturn void between_abort(void) {
    if (!getenv("STANDIN_SHARED")) MPI_Abort(MPI_COMM_WORLD, 70);
    _exit(70);
}

int between_rank(void) {
    int rank = own.rank;
    if (!own.shared) MPI_Comm_rank(own.mpi, &rank);
    return rank;
}

int between_world(void) {
    int world = own.world;
    if (!own.shared) MPI_Comm_size(own.mpi, &world);
    return world;
}

/* ---- moving ---- */

static void begin(message m) {
    if (own.count == MOST) between_abort();
    own.messages[own.count++] = m;
}

void between_send(const void *from, uint64_t bytes, int to) {
    if (own.shared)
        begin((message){ .at = (char *)(uintptr_t)from, .bytes = bytes, .peer = to, .sends = true });
    else
        MPI_Isend(from, (int)bytes, MPI_BYTE, to, 0, own.mpi, &own.requests[own.count++]);
}

void between_receive(void *to, uint64_t bytes, int from) {
    if (own.shared)
        begin((message){ .at = to, .bytes = bytes, .peer = from });
    else
        MPI_Irecv(to, (int)bytes, MPI_BYTE, from, 0, own.mpi, &own.requests[own.count++]);
}

void between_gather(const void *mine, void *all, uint64_t bytes) {
    if (!own.shared) {
        MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, own.mpi,
                       &own.requests[own.count++]);
        return;
    }
    memcpy((char *)all + (uint64_t)own.rank * bytes, mine, bytes);
    for (int r = 0; r < own.world; r++) {
        if (r == own.rank) continue;
        between_send(mine, bytes, r);
        between_receive((char *)all + (uint64_t)r * bytes, bytes, r);
    }
}

/* As much of it as there is, or as there is room for. */
static void go_on(message *m) {
    ring *x = m->sends ? &own.shared->rings[own.rank][m->peer] : &own.shared->rings[m->peer][own.rank];
    uint64_t put = atomic_load(&x->put), got = atomic_load(&x->got), at = m->sends ? put : got,
             most = m->sends ? RING - (put - got) : put - got, rest = m->bytes - m->done,
             some = rest < most ? rest : most;
    for (uint64_t i = 0; i < some; i++) {
        unsigned char *slot = &x->bytes[(at + i) % RING];
        if (m->sends)
            *slot = (unsigned char)m->at[m->done + i];
        else
            m->at[m->done + i] = (char)*slot;
    }
    m->done += some;
    atomic_fetch_add(m->sends ? &x->put : &x->got, some);
}

bool between_over(void) {
    bool waits[2][MOST_RANKS] = { 0 }, over = true;
    int done = 0;
    if (!own.shared) {
        MPI_Testall(own.count, own.requests, &done, MPI_STATUSES_IGNORE);
        if (done) own.count = 0;
        return done;
    }
    for (int i = 0; i < own.count; i++) {
        message *m = &own.messages[i];
        if (!waits[m->sends][m->peer]) go_on(m);
        waits[m->sends][m->peer] |= m->done < m->bytes;
        over &= m->done == m->bytes;
    }
    if (over) own.count = 0;
    return over;
}
