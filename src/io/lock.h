/* A file that says that a folder is in use. The lock is the system's (flock), so it ends with the process
 * that has it, however that ends: a file without a living owner is no lock, and needs no cleaning up. What is
 * written in it is for people and for other programs that look: "PID HOST". */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

#define LOCK_OF_FOLDER "run.lock" /* in a folder that a run, or a model, is written to */

typedef struct {
    int file;
    char *path;
} lock;

/* STATUS_INVALID, with the owner's number in the sentence, while another process (or another lock of this
 * one) has it. */
status lock_open(const char *path, lock *l);
void lock_close(lock *l); /* removes the file; fine on a zeroed or closed lock */

/* Whether a process has it, for who only looks. `who`: "process 4711 on node3", "" where nobody has it. */
bool lock_is_held(const char *path, char *who, size_t bytes);
