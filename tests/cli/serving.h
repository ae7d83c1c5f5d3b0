/* A server of the folder "model" in the working directory, and clients of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cli/command.h"

/* The one that runs. */
extern pid_t serving_pid;
extern int serving_port; /* 0: it has a socket at "here" */

bool serving_left_out(void); /* it was built without its library, and says so */
/* A set-up: a scratch directory with the files of command_make_files, and in "model" one with 64 positions
 * that was trained for so many steps. */
int serving_make_model(void **state, int steps, bool *left_out);
/* Serves "model", or another folder; `more`: further options. */
void serving_start(const char *more);
void serving_start_model(const char *model, const char *more);
/* Ends it as a service manager does, and returns what it said. */
command_result serving_stop(void);

/* With --json: what ran took the bytes that were planned, by category; its largest programs must have run. */
void serving_compare_bytes(const command_result *r);

enum { SERVING_ANSWER = 1 << 16 };

int serving_reach(void); /* a connection; -1: there is none */
/* The whole of it. False: the other side does not take it. */
bool serving_send(int s, const char *bytes, size_t count);
/* All that comes until the other side ends, at most `most` bytes, and a zero behind it. */
size_t serving_receive(int s, char *out, size_t most);
/* One request on a connection of its own: the status, and all of the answer; `head`: further lines. -1: none
 * came. */
int serving_ask(const char *method, const char *path, const char *head, const char *body,
                char out[SERVING_ANSWER]);
int serving_post(const char *path, const char *body, char out[SERVING_ANSWER]);
int serving_get(const char *path, char out[SERVING_ANSWER]);
/* These bytes as they are, and nothing more: the status. */
int serving_say(const char *bytes, size_t count, char out[SERVING_ANSWER]);
const char *serving_body(const char *answer); /* behind its head */
