/* The socket that is listened at, and the thread that accepts: as many connections as are planned. Who comes
 * beyond them is told so at once, and never waits unheard. HTTP gets a connection when something has come
 * from it; until then the listener has it, and closes it when it was silent for too long. */
#pragma once

#include <sys/socket.h>

#include "server/server.h"

/* Takes a socket over; false: it could not, and has closed it. */
typedef bool (*listener_takes)(server *s, int socket, const struct sockaddr *from, socklen_t bytes);

enum { LISTENER_SILENT_SECONDS = 10 };

uint64_t listener_bytes(int64_t connections);
/* Binds and listens: --host is an IPv4 address, or unix:PATH for a socket there, which its owner alone may
 * use. One that a dead server left is replaced. STATUS_INVALID where somebody listens there. */
status listener_open(server *s, listener_takes takes, int64_t *port);
status listener_start(server *s); /* the thread */
void listener_freed(server *s);   /* a connection has ended */
void listener_close(server *s);   /* fine on one that was not opened */
