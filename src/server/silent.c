#define _GNU_SOURCE
#include "server/silent.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "base/memory.h"

enum { NONE = -1, AT_ONCE = 64 };

/* In a list in the order in which they came, or of free places, by `next`. */
typedef struct {
    double since;
    int32_t socket, next, previous;
} place;

struct silent_set {
    int poller;
    place *places;
    int32_t free, first, last;
    struct epoll_event spoken[AT_ONCE];
    int count, at; /* of those; that were not told yet */
};

uint64_t silent_bytes(int64_t connections) {
    return sizeof(silent_set) + (uint64_t)connections * sizeof(place);
}

static void free_place(silent_set *s, int32_t i) {
    s->places[i].socket = NONE;
    s->places[i].next = s->free, s->free = i;
}

status silent_open(int64_t connections, silent_set **out) {
    silent_set *s = *out = memory_new(1, sizeof *s);
    if (!s) return status_set(STATUS_FAILED, "no memory for connections");
    *s = (silent_set){ .poller = epoll_create1(EPOLL_CLOEXEC), .free = NONE, .first = NONE, .last = NONE };
    s->places = memory_new((size_t)connections, sizeof *s->places);
    if (!s->places || s->poller < 0)
        return status_set(STATUS_FAILED, "no memory for %lld connections", (long long)connections);
    for (int64_t i = connections; i-- > 0;) free_place(s, (int32_t)i);
    return STATUS_OK;
}

void silent_close(silent_set *s) {
    if (!s) return;
    for (int32_t i = s->first; i != NONE; i = s->places[i].next) close(s->places[i].socket);
    if (s->poller >= 0) close(s->poller);
    memory_free(s->places);
    memory_free(s);
}

int silent_descriptor(const silent_set *s) { return s->poller; }

bool silent_add(silent_set *s, int socket, double now) {
    int32_t i = s->free;
    struct epoll_event asked = { .events = EPOLLIN | EPOLLRDHUP, .data.u32 = (uint32_t)i };
    if (i == NONE || epoll_ctl(s->poller, EPOLL_CTL_ADD, socket, &asked) != 0) return false;
    s->free = s->places[i].next;
    s->places[i] = (place){ .since = now, .socket = socket, .next = NONE, .previous = s->last };
    *(s->last == NONE ? &s->first : &s->places[s->last].next) = i;
    s->last = i;
    return true;
}

static int leave(silent_set *s, int32_t i) {
    place *x = &s->places[i];
    int socket = x->socket;
    epoll_ctl(s->poller, EPOLL_CTL_DEL, socket, &(struct epoll_event){ 0 });
    *(x->previous == NONE ? &s->first : &s->places[x->previous].next) = x->next;
    *(x->next == NONE ? &s->last : &s->places[x->next].previous) = x->previous;
    free_place(s, i);
    return socket;
}

int silent_spoken(silent_set *s) {
    if (s->at == s->count) s->at = 0, s->count = epoll_wait(s->poller, s->spoken, AT_ONCE, 0);
    if (s->count < 0) s->count = 0;
    return s->at < s->count ? leave(s, (int32_t)s->spoken[s->at++].data.u32) : NONE;
}

/* Not while some that have spoken were not told: their places are taken yet. */
int silent_since(silent_set *s, double before) {
    if (s->at < s->count || s->first == NONE || s->places[s->first].since > before) return NONE;
    return leave(s, s->first);
}
