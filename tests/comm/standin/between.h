/* How processes of the stand-in for NCCL reach each other: by MPI, where its launcher has started them, or by
 * pages that they share, where STANDIN_SHARED names their file. So ranks can be started without a launcher
 * that ends all for one. What is begun is over when between_over says so; between two ranks messages come in
 * the order in which they were begun. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

void between_open(int rank, int world); /* waits for all */
void between_close(void);
_Noreturn void between_abort(void); /* ends all of them, or this one */

/* Whom the launcher says this is. */
int between_rank(void);
int between_world(void);

void between_send(const void *from, uint64_t bytes, int to);
void between_receive(void *to, uint64_t bytes, int from);
void between_gather(const void *mine, void *all, uint64_t bytes);
bool between_over(void); /* all that was begun; then nothing is under way */
