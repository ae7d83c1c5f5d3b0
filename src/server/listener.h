/* The socket that is listened at, and the thread that accepts: as many connections as are planned. Who comes
 * beyond them is told so at once, and never waits unheard. */
#pragma once

#include <sys/socket.h>

#include "server/server.h"

/* Takes a socket over; false: it could not, and has closed it. */
typedef bool (*listener_takes)(server *s, int socket, const struct sockaddr *from, socklen_t bytes);

uint64_t listener_bytes(void);
/* Binds and listens: --host is an IPv4 address, or unix:PATH for a socket there, which its owner alone may
 * use. One that a dead server left is replaced. STATUS_INVALID where somebody listens there. */
status listener_open(server *s, listener_takes takes, int64_t *port);
status listener_start(server *s); /* the thread */
void listener_freed(server *s);   /* a connection has ended */
void listener_close(server *s);   /* fine on one that was not opened */
