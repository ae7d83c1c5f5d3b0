/* Connections that have said nothing yet. They stay with the listener, which asks the system who speaks: what
 * that costs does not grow with those who are silent, as asking all of them does. One thread has the set. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct silent_set silent_set;

uint64_t silent_bytes(int64_t connections); /* that it holds */
status silent_open(int64_t connections, silent_set **out);
void silent_close(silent_set *s); /* and the sockets of all; nothing where it is NULL */

/* Can be read when somebody has said something. */
int silent_descriptor(const silent_set *s);
/* false: it is not in the set, because there is no place or the system has none. */
bool silent_add(silent_set *s, int socket, double now);
/* A socket that something has come from, or that has ended: it is in the set no more. -1: there is none. */
int silent_spoken(silent_set *s);
/* The same of one that was there at `before` already, the longest first. */
int silent_since(silent_set *s, double before);
