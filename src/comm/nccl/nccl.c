#include "comm/nccl/nccl.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "comm/nccl/nccl_calls.h"

_Static_assert(sizeof(nccl_unique_id) == NCCL_ID_BYTES, "an id is told by its bytes");

static struct {
    void *library;
#define CALL(name, arguments) int(*name) arguments;
    NCCL_CALLS(CALL)
#undef CALL
    const char *(*words)(int result);
    nccl_comm comm; /* NULL: none is joined */
    int rank, world;
} own;

/* ---- finding it ---- */

static const struct {
    const char *name;
    void *to; /* a pointer to a function */
} calls[] = {
#define CALL(name, arguments) { "nccl" #name, &own.name },
    NCCL_CALLS(CALL)
#undef CALL
        { "ncclGetErrorString", &own.words },
};

/* Before 2.9 a version is a number of one digit less. */
static status refuse_version(int version) {
    int major = version < 10000 ? version / 1000 : version / 10000,
        minor = version < 10000 ? version / 100 % 10 : version / 100 % 100;
    return status_set(STATUS_INVALID,
                      "the NCCL of this machine is %d.%d, and ranks on GPUs take 2.7 or later, which moves "
                      "between any two of them",
                      major, minor);
}

static status find_calls(void) {
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *at = dlsym(own.library, calls[i].name);
        if (!at)
            return status_set(STATUS_INVALID,
                              "libnccl.so.2 has no %s: it is older than 2.7, or another library's",
                              calls[i].name);
        memcpy(calls[i].to, &at, sizeof at);
    }
    return STATUS_OK;
}

status nccl_find(void) {
    int version = 0;
    if (!own.library) own.library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!own.library)
        return status_set(STATUS_INVALID,
                          "ranks on GPUs speak to each other by NCCL, and it is not to be had: %s (install "
                          "libnccl2, or say where it is in LD_LIBRARY_PATH)",
                          dlerror());
    int (*get_version)(int *) = NULL;
    void *at = dlsym(own.library, "ncclGetVersion");
    memcpy(&get_version, &at, sizeof at);
    if (get_version && get_version(&version) == NCCL_SUCCESS && version < NCCL_LEAST)
        return refuse_version(version);
    return find_calls();
}

/* ---- joining ---- */

static status said(int result, const char *what) {
    if (result == NCCL_SUCCESS) return STATUS_OK;
    return status_set(STATUS_FAILED, "NCCL can't %s: %s", what, own.words(result));
}

status nccl_id(unsigned char id[NCCL_ID_BYTES]) {
    nccl_unique_id own_id;
    TRY(said(own.GetUniqueId(&own_id), "begin"));
    memcpy(id, &own_id, sizeof own_id);
    return STATUS_OK;
}

status nccl_join(const unsigned char id[NCCL_ID_BYTES], int rank, int world) {
    nccl_unique_id of_all;
    memcpy(&of_all, id, sizeof of_all);
    int result = own.CommInitRank(&own.comm, world, of_all, rank);
    own.rank = rank, own.world = world;
    if (result == NCCL_SUCCESS) return STATUS_OK;
    own.comm = NULL;
    return status_set(STATUS_INVALID, "NCCL can't join rank %d of %d: %s%s", rank, world, own.words(result),
                      result == NCCL_INVALID_USAGE ? "; two ranks on one GPU are such a usage" : "");
}

void nccl_close(void) {
    if (own.comm) own.CommDestroy(own.comm);
    own.comm = NULL;
}

void nccl_abandon(void) {
    if (own.comm) own.CommAbort(own.comm);
    own.comm = NULL;
}

/* ---- moving ---- */

status nccl_gather(void *all, uint64_t bytes, void *stream) {
    const char *mine = (const char *)all + (uint64_t)own.rank * bytes;
    return said(own.AllGather(mine, all, bytes, NCCL_UINT8, own.comm, stream), "gather");
}

/* Each begins with the next one. The first failure counts; a group is ended in any case. */
status nccl_swap(const comm_pair *pairs, void *stream) {
    int result = own.GroupStart();
    for (int k = 0; k < own.world && result == NCCL_SUCCESS; k++) {
        int to = (own.rank + k) % own.world, from = (own.rank - k + own.world) % own.world;
        if (pairs[to].send_bytes)
            result = own.Send(pairs[to].send, pairs[to].send_bytes, NCCL_UINT8, to, own.comm, stream);
        if (pairs[from].receive_bytes && result == NCCL_SUCCESS)
            result =
                own.Recv(pairs[from].receive, pairs[from].receive_bytes, NCCL_UINT8, from, own.comm, stream);
    }
    int ended = own.GroupEnd();
    return said(result == NCCL_SUCCESS ? ended : result, "exchange");
}

status nccl_failed(void) {
    int so_far = NCCL_SUCCESS;
    if (!own.comm) return STATUS_OK;
    int result = own.CommGetAsyncError(own.comm, &so_far);
    return said(result == NCCL_SUCCESS ? so_far : result, "go on");
}
