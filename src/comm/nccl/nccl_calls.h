/* The part of NCCL's interface that is used, as its documentation describes it (NCCL API: communicator
 * creation, collective functions, point to point, group calls, types), in words of our own. A result of 0 is
 * success; a stream is a cudaStream_t. Types and functions keep their names there, without the prefix.
 *
 * Once: NCCL_CALLS(CALL) lists CALL(name, arguments). */
#pragma once

#include <stddef.h>

typedef struct ncclComm *nccl_comm;

/* It is handed over by value. */
typedef struct {
    char internal[128];
} nccl_unique_id;

enum {
    NCCL_SUCCESS = 0,
    NCCL_INVALID_USAGE = 5, /* two ranks on one GPU among others */
    NCCL_UINT8 = 1          /* ncclUint8 of ncclDataType_t */
};

#define NCCL_CALLS(CALL)                                                                                     \
    CALL(GetVersion, (int *version))                                                                         \
    CALL(GetUniqueId, (nccl_unique_id * id))                                                                 \
    CALL(CommInitRank, (nccl_comm * comm, int ranks, nccl_unique_id id, int rank))                           \
    CALL(CommDestroy, (nccl_comm comm))                                                                      \
    CALL(CommAbort, (nccl_comm comm))                                                                        \
    CALL(CommGetAsyncError, (nccl_comm comm, int *result))                                                   \
    CALL(AllGather, (const void *send, void *receive, size_t count, int type, nccl_comm comm, void *stream)) \
    CALL(Send, (const void *send, size_t count, int type, int peer, nccl_comm comm, void *stream))           \
    CALL(Recv, (void *receive, size_t count, int type, int peer, nccl_comm comm, void *stream))              \
    CALL(GroupStart, (void))                                                                                 \
    CALL(GroupEnd, (void))
/* And const char *ncclGetErrorString(int result). */
