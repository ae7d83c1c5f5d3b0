#include "comm/comm.h"

#include <string.h>

static const comm_transport *const transports[] = { &comm_self };

status comm_open(const char *transport, comm *c) {
    *c = (comm){ 0 };
    for (size_t i = 0; i < sizeof transports / sizeof *transports; i++) {
        if (strcmp(transports[i]->name, transport) != 0) continue;
        c->transport = transports[i];
        return c->transport->open(c);
    }
    return status_set(STATUS_INVALID, "this build has no transport '%s' between ranks, only self", transport);
}

void comm_close(comm *c) {
    if (c->transport) c->transport->close(c);
    *c = (comm){ 0 };
}

static status check_buffer(const comm_buffer *b) {
    if (b->count < 0 || (b->count && !b->data) || !dtype_bytes(b->dtype))
        return status_set(STATUS_INVALID, "%lld elements of type %s are nothing that ranks can share",
                          (long long)b->count, dtype_name(b->dtype));
    return STATUS_OK;
}

status comm_all_reduce(const comm *c, const comm_buffer *b, comm_reduction r) {
    TRY(check_buffer(b));
    return c->transport->all_reduce(c, b, r);
}

status comm_broadcast(const comm *c, const comm_buffer *b, int root) {
    TRY(check_buffer(b));
    if (root < 0 || root >= c->world)
        return status_set(STATUS_INVALID, "there is no rank %d to broadcast from, only 0 to %d", root,
                          c->world - 1);
    return c->transport->broadcast(c, b, root);
}

status comm_barrier(const comm *c) { return c->transport->barrier(c); }
