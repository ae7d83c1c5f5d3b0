/* Products by a group of warps with one mistake each, for the emulation to find (device/cuda/mma_group.h),
 * and operands in every layout that a descriptor can say. */
#pragma once

#include <stdbool.h>

typedef struct {
    const char *name;
    const char *said; /* before the emulation ends the program; NULL: numbers are wrong */
} group_mistake;
extern const group_mistake group_mistakes[]; /* the first is none; end with name NULL */

/* Runs a product of 64 x 64 with mistake `which`. Are its numbers right? */
bool group_mistake_run(int which);

enum { GROUP_SWIZZLES = 4 };
/* The same, with a as `swizzle` (0: none, then 128, 64 and 32 bytes) says, along the depth or across. */
bool group_layout_run(int swizzle, bool crossed);
