/* Operands in a GPU's memory, for programs that time kernels: one block, handed out from its beginning.
 * Whatever goes wrong ends the program with a sentence and exit code 2. */
#pragma once

#include <stdint.h>

#include "device/device.h"
#include "ir/op.h"

extern const device *gpu;
extern uint64_t room_used; /* bytes of the block; set back, what was handed out since is handed out again */

_Noreturn void die(const char *why);

void room_open(const char *device_name, uint64_t bytes);
void room_close(void);

uint64_t room_bytes(const op_arg *x);
op_arg room(dtype type, shape s);
/* Numbers between -most and most, or whole ones from 0 to below `most`: the same at each start. */
op_arg room_numbers(dtype type, shape s, float most);
/* FNV-1a of its bytes, going on from `hash`; ROOM_HASH to begin with. */
uint64_t room_hash(const op_arg *x, uint64_t hash);
#define ROOM_HASH 14695981039346656037ull

void *room_host(uint64_t bytes); /* of the host; free it */
