/* A library that is loaded before MPI's (LD_PRELOAD), so that a test may end or freeze one rank at an instant
 * of its choice: AIMED=RANK:BYTES:WHICH:SIGNAL sends that rank the signal when it is about to post its
 * WHICH-th message of so many bytes, from 1 on, whichever way that goes. The file "aimed" is there from then
 * on. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct { int rank, bytes, which, signal, seen; } aim;

static void settle(void) {
    const char *said = getenv("AIMED"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (aim.which || !said || !rank) return;
    if (sscanf(said, "%d:%d:%d:%d", &aim.rank, &aim.bytes, &aim.which, &aim.signal) != 4) abort();
    if (atoi(rank) != aim.rank) aim.bytes = -1;
}

static void post(int bytes) {
    settle();
    if (bytes != aim.bytes || ++aim.seen != aim.which) return;
    FILE *mark = fopen("aimed", "w");
    if (mark) fclose(mark);
    kill(getpid(), aim.signal);
}

int MPI_Isend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request) {
    post(count);
    return PMPI_Isend(from, count, type, to, tag, comm, request);
}

int MPI_Irecv(void *to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request) {
    post(count);
    return PMPI_Irecv(to, count, type, from, tag, comm, request);
}
