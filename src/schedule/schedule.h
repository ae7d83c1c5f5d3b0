/* The order in which a program's kernels run. On one stream the order of the graph stands, and only nodes
 * that nobody waits for move: a step whose result is first read much later, and that frees nothing, runs
 * right before its reader. (Passes decide all else; streams come with the GPU.) */
#pragma once

#include "lower/lower.h"

status schedule_program(program *p);
