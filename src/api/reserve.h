/* What the program around the library holds, so that plans speak of the whole process. One thread plans at a
 * time: what is reserved for the program is the process's, and measured anew for each plan. */
#pragma once

#include <stdint.h>

/* Before planning: waits for other threads' plans, then reserves `program_bytes`, or where that is 0 what is
 * resident now beyond what every plan reserves for code, in steps of 1 MiB. */
void reserve_begin(uint64_t program_bytes);
void reserve_end(void); /* the plan is made */
