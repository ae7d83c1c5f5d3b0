/* Traces of PyTorch's profiler as Kineto writes them for Chrome: what its events "[memory]" tell, with the
 * calls that enclose them in time as frames.
 *
 * Events stand in the file by kind and thread, so all are held until the end: 32 bytes of one that tells of
 * memory, 24 of a call. The profiler's own total tells what was there before the first event.
 *
 * Source: torch/csrc/autograd/profiler_kineto.cpp; the Trace Event Format of Chrome. */
#pragma once

#include "io/json_stream.h"
#include "snapshot/snapshot.h"

/* `list`: events stand in a bare list, of which "[" was taken; else the object's "{" was. */
status kineto_read(json_stream *j, bool list, snapshot *s);
