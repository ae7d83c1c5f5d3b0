#define _GNU_SOURCE
#include "server/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/silent.h"

enum {
    BACKLOG = 4096,     /* that the system keeps until they are accepted */
    LINGERING = 128,    /* sockets of those who were refused, until they have read it */
    LINGER_SECONDS = 2, /* at most */
    OTHER_FILES = 64,   /* open files beside connections */
};
enum { WAKE = LINGERING, SOCKET, SILENT, ASKED = 3 }; /* what is asked behind those who were refused */
#define PATIENCE_SECONDS 0.25                         /* in which nobody has gone */
#define MOST_SECONDS 2.0                              /* even where places get free */

typedef struct {
    int socket;
    double since;
} lingering;

typedef struct listener {
    listener_takes takes;
    int socket, wake[2];
    bool runs;
    pthread_t thread;
    struct sockaddr_un path; /* sun_path[0] 0: it has none */
    ino_t inode;
    silent_set *silent; /* whom it has accepted, and who has said nothing */
    lingering refused[LINGERING];
    uint32_t next; /* the oldest, and the place of the next one */
    struct pollfd asked[LINGERING + ASKED];
} listener;

uint64_t listener_bytes(int64_t connections) { return sizeof(listener) + silent_bytes(connections); }

/* ---- where ---- */

static const char *unix_path(const char *host) { return strncmp(host, "unix:", 5) == 0 ? host + 5 : NULL; }

static status cannot(const serve_options *o) {
    int why = errno;
    if (unix_path(o->host))
        return status_set(STATUS_INVALID, "%s cannot be listened at: %s", unix_path(o->host), strerror(why));
    return status_set(STATUS_INVALID, "%s:%lld cannot be listened at: %s", o->host, (long long)o->port,
                      strerror(why));
}

static status open_address(listener *l, const serve_options *o, int64_t *port) {
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)o->port) };
    socklen_t bytes = sizeof a;
    int yes = 1;
    inet_pton(AF_INET, o->host, &a.sin_addr); /* which serve.c has looked at */
    l->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->socket < 0) return cannot(o);
    setsockopt(l->socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(l->socket, (struct sockaddr *)&a, sizeof a) != 0 || listen(l->socket, BACKLOG) != 0 ||
        getsockname(l->socket, (struct sockaddr *)&a, &bytes) != 0)
        return cannot(o);
    *port = ntohs(a.sin_port);
    return STATUS_OK;
}

static bool answers(const struct sockaddr_un *a) {
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool there = s >= 0 && (connect(s, (const struct sockaddr *)a, sizeof *a) == 0 || errno != ECONNREFUSED);
    if (s >= 0) close(s);
    return there;
}

/* A server that was killed has left its socket behind. */
static void remove_stale(const struct sockaddr_un *a) {
    struct stat about;
    if (lstat(a->sun_path, &about) == 0 && S_ISSOCK(about.st_mode) && !answers(a)) unlink(a->sun_path);
}

static status open_path(listener *l, const serve_options *o, int64_t *port) {
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    struct stat about;
    const char *path = unix_path(o->host);
    if (!*path || strlen(path) >= sizeof a.sun_path)
        return status_set(STATUS_INVALID, "--host %s: the path of a socket has 1 to %zu bytes", o->host,
                          sizeof a.sun_path - 1);
    strcpy(a.sun_path, path);
    remove_stale(&a);
    l->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->socket < 0) return cannot(o);
    mode_t before = umask(0177); /* no other thread makes files yet */
    bool bound = bind(l->socket, (struct sockaddr *)&a, sizeof a) == 0;
    umask(before);
    if (!bound) return cannot(o);
    if (stat(path, &about) == 0) l->path = a, l->inode = about.st_ino;
    *port = 0;
    return listen(l->socket, BACKLOG) == 0 ? STATUS_OK : cannot(o);
}

/* A descriptor for each connection. */
static status raise_limit(int64_t connections) {
    struct rlimit most;
    rlim_t wanted = (rlim_t)connections + LINGERING + OTHER_FILES;
    if (getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur >= wanted) return STATUS_OK;
    if (most.rlim_max != RLIM_INFINITY && most.rlim_max < wanted)
        return status_set(STATUS_INVALID,
                          "--max-connections %lld needs %llu open files, and this process may have %llu "
                          "(ulimit -n)",
                          (long long)connections, (unsigned long long)wanted,
                          (unsigned long long)most.rlim_max);
    most.rlim_cur = wanted;
    setrlimit(RLIMIT_NOFILE, &most);
    return STATUS_OK;
}

status listener_open(server *s, listener_takes takes, int64_t *port) {
    const serve_options *o = s->options;
    listener *l = s->listener = memory_new(1, sizeof *l);
    if (!l) return status_set(STATUS_FAILED, "no memory to listen");
    *l = (listener){ .takes = takes, .socket = -1, .wake = { -1, -1 } };
    for (int i = 0; i < LINGERING; i++) l->refused[i].socket = -1;
    TRY(raise_limit(o->connections));
    TRY(silent_open(o->connections, &l->silent));
    if (pipe2(l->wake, O_CLOEXEC | O_NONBLOCK) != 0) return cannot(o);
    return unix_path(o->host) ? open_path(l, o, port) : open_address(l, o, port);
}

/* ---- those beyond the planned ones ---- */

static void let_go(lingering *x) {
    if (x->socket >= 0) close(x->socket);
    x->socket = -1;
}

/* Closing a socket with bytes unread would take the answer back: it is read until its client ends, or for a
 * while. */
static void refuse(listener *l, int socket) {
    static const char words[] =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
        "Connection: close\r\nContent-Length: 105\r\n\r\n"
        "{\"error\": {\"message\": \"all connections are taken\", \"type\": \"server_error\", "
        "\"param\": null, \"code\": null}}\n";
    lingering *x = &l->refused[l->next];
    l->next = (l->next + 1) % LINGERING;
    let_go(x);
    if (send(socket, words, sizeof words - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        close(socket);
        return;
    }
    shutdown(socket, SHUT_WR);
    *x = (lingering){ socket, clock_seconds() };
}

static void listen_to_refused(listener *l, const struct pollfd *asked, double now) {
    char waste[1024];
    for (int i = 0; i < LINGERING; i++) {
        lingering *x = &l->refused[i];
        if (x->socket < 0) continue;
        ssize_t n = 1;
        for (int k = 0; k < 64 && n > 0 && asked[i].fd == x->socket && asked[i].revents; k++)
            n = recv(x->socket, waste, sizeof waste, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN) || now - x->since > LINGER_SECONDS) let_go(x);
    }
}

/* ---- the thread ---- */

void listener_freed(server *s) {
    pthread_mutex_lock(&s->lock);
    s->connections--;
    pthread_mutex_unlock(&s->lock);
}

static bool take_place(server *s) {
    pthread_mutex_lock(&s->lock);
    bool room = s->connections < (uint64_t)s->options->connections;
    s->connections += room;
    pthread_mutex_unlock(&s->lock);
    return room;
}

static void refuse_one(server *s, int socket) {
    pthread_mutex_lock(&s->lock);
    s->refused_connections++;
    pthread_mutex_unlock(&s->lock);
    refuse(s->listener, socket);
}

/* How the waiting goes: since when some wait, and since when none of them got a place. */
typedef struct {
    bool all; /* none wait */
    double since, stuck_since;
} waiting;

/* To HTTP: it has the socket, or has closed it. */
static void hand_over(server *s, int socket) {
    struct sockaddr_storage from = { 0 };
    socklen_t bytes = sizeof from;
    getpeername(socket, (struct sockaddr *)&from, &bytes);
    if (!s->listener->takes(s, socket, (struct sockaddr *)&from, bytes)) listener_freed(s);
}

/* It has a place. Mostly its request comes with it; else it stays here until something comes. */
static void welcome(server *s, int socket, double now) {
    char byte;
    bool speaks = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
    if (speaks || !silent_add(s->listener->silent, socket, now)) hand_over(s, socket);
}

/* Those who have spoken, and those who were silent for too long. */
static void look_at_silent(server *s, double now) {
    silent_set *all = s->listener->silent;
    for (int socket; (socket = silent_spoken(all)) >= 0;) hand_over(s, socket);
    for (int socket; (socket = silent_since(all, now - LISTENER_SILENT_SECONDS)) >= 0;)
        close(socket), listener_freed(s);
}

/* All that wait while there are places; `beyond`: those too for whom there is none. */
static void accept_all(server *s, waiting *w, double now, bool beyond) {
    listener *l = s->listener;
    for (;;) {
        bool room = take_place(s);
        w->all = room || beyond;
        if (!w->all) return;
        int socket = accept4(l->socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        int why = errno;
        if (room && socket >= 0) w->stuck_since = now, welcome(s, socket, now);
        if (room && socket < 0) listener_freed(s);
        if (!room && socket >= 0) refuse_one(s, socket);
        if (socket >= 0 || why == EINTR || why == ECONNABORTED) continue;
        w->all = why == EAGAIN; /* or there are no more descriptors for now */
        return;
    }
}

/* Who finds no place waits a moment, in which one may get free, and is then refused. */
static void *accept_forever(void *context) {
    server *s = context;
    listener *l = s->listener;
    for (waiting w = { .all = true };;) {
        l->asked[WAKE] = (struct pollfd){ l->wake[0], POLLIN, 0 };
        l->asked[SOCKET] = (struct pollfd){ w.all ? l->socket : -1, POLLIN, 0 };
        l->asked[SILENT] = (struct pollfd){ silent_descriptor(l->silent), POLLIN, 0 };
        for (int i = 0; i < LINGERING; i++) l->asked[i] = (struct pollfd){ l->refused[i].socket, POLLIN, 0 };
        poll(l->asked, LINGERING + ASKED, w.all ? 500 : 10);
        if (l->asked[WAKE].revents) return NULL;
        double now = clock_seconds();
        look_at_silent(s, now);
        listen_to_refused(l, l->asked, now);
        if (w.all) w.since = w.stuck_since = now;
        accept_all(s, &w, now, now - w.stuck_since > PATIENCE_SECONDS || now - w.since > MOST_SECONDS);
    }
}

status listener_start(server *s) {
    listener *l = s->listener;
    if (pthread_create(&l->thread, NULL, accept_forever, s) != 0)
        return status_set(STATUS_FAILED, "no thread to accept connections");
    l->runs = true;
    return STATUS_OK;
}

void listener_close(server *s) {
    listener *l = s->listener;
    struct stat about;
    if (!l) return;
    if (l->runs) {
        ssize_t written = write(l->wake[1], "", 1);
        (void)written;
        pthread_join(l->thread, NULL);
    }
    for (int i = 0; i < LINGERING; i++) let_go(&l->refused[i]);
    silent_close(l->silent);
    for (int i = 0; i < 2; i++)
        if (l->wake[i] >= 0) close(l->wake[i]);
    if (l->socket >= 0) close(l->socket);
    if (l->path.sun_path[0] && lstat(l->path.sun_path, &about) == 0 && about.st_ino == l->inode)
        unlink(l->path.sun_path);
    memory_free(l);
    s->listener = NULL;
}
