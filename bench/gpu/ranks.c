/* One rank of NCCL's on a GPU: bench-gpu-ranks DEVICE. What ranks ask of the library is asked of it here, on
 * the lane of movements, between events of computing: memory is filled, sent to this rank itself and gathered
 * in place, and filled anew when that is over, in so many rounds that a wait which is missing shows. Prints
 * whether what came is right, and what NCCL then holds of the GPU. Exit 0: all was right; 1: something was
 * not; 2: there is no such device, or no NCCL, and a sentence says so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/nccl/nccl.h"
#include "device/device.h"

enum { BYTES = 32 << 20, ROUNDS = 20 };

static const device *gpu;

static void must(status s) {
    if (s == STATUS_OK) return;
    fprintf(stderr, "%s\n", status_message());
    exit(2);
}

/* from -> to on the lane of movements, which waits for what computing was given, and is waited for. */
static status move(void *stream, char *from, char *to) {
    comm_pair own = { from, to, BYTES, BYTES };
    gpu->after(gpu, LANE_RANKS, LANE_COMPUTE, gpu->mark(gpu, LANE_COMPUTE));
    TRY(nccl_swap(&own, stream));
    TRY(nccl_gather(to, BYTES, stream));
    gpu->after(gpu, LANE_COMPUTE, LANE_RANKS, gpu->mark(gpu, LANE_RANKS));
    return STATUS_OK;
}

static bool holds(const char *at, int byte) {
    static char here[BYTES];
    gpu->get(gpu, here, at, BYTES);
    for (int i = 0; i < BYTES; i++)
        if (here[i] != (char)byte) return false;
    return true;
}

/* Round by round what came is kept where the next one does not write. */
static int rounds(void *stream, char *pool) {
    int wrong = 0;
    for (int r = 0; r < ROUNDS; r++) {
        char *from = pool, *to = pool + BYTES;
        gpu->begin(gpu);
        gpu->fill(gpu, to, 99, BYTES);
        gpu->fill(gpu, from, r, BYTES);
        must(move(stream, from, to));
        gpu->fill(gpu, from, 77, BYTES);
        gpu->end(gpu);
        must(nccl_failed());
        wrong += !holds(to, r);
    }
    return wrong;
}

int main(int count, char **arguments) {
    unsigned char id[NCCL_ID_BYTES];
    device_pool pool;
    if (count < 2) {
        fprintf(stderr, "bench-gpu-ranks DEVICE\n");
        return 2;
    }
    must(device_find(arguments[1], &gpu));
    if (!gpu->apart || !gpu->stream) {
        fprintf(stderr, "%s is no GPU\n", gpu->name);
        return 2;
    }
    must(nccl_find());
    must(gpu->open(gpu, &pool, 2u * BYTES));
    void *stream = gpu->stream(gpu);
    must(nccl_id(id));
    must(nccl_join(id, 0, 1));
    device_parts before = gpu->beside(gpu);
    int wrong = rounds(stream, pool.data);
    device_parts after = gpu->beside(gpu);
    printf("one rank of NCCL: %d of %d rounds of %d MiB right; it holds %.1f MiB of the GPU, %.1f of them "
           "when it "
           "was joined\n",
           ROUNDS - wrong, ROUNDS, BYTES >> 20, (double)after.ranks / (1 << 20),
           (double)before.ranks / (1 << 20));
    nccl_close();
    gpu->close(gpu, &pool);
    return wrong != 0;
}
