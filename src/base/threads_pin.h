/* Which processors threads are pinned to. */
#pragma once

#include <sched.h>
#include <stdbool.h>

/* Of the processors in `mask` one for each of `threads`, into cpu[0 .. threads-1]: a core of its own for each
 * as long as there are some, then the cores' other processors. False where there are more threads than
 * processors, and where the threads would not fill the cores: others may be meant to use the rest, and if
 * those are pinned as well they would choose the same cores. `root` stands before the paths that are read
 * ("" but in tests). */
bool threads_pin_choose(const char *root, const cpu_set_t *mask, int threads, unsigned *cpu);
