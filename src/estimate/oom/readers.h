/* The messages that are known, a table for each group of tools. What says more stands before what says less:
 * messages.c takes the first that is found. */
#pragma once

#include "estimate/oom/oom.h"
#include "estimate/oom/span.h"

/* `read` sees what stands behind the mark, flat (span_flat), up to the next such mark, and the whole text.
 * False: it is no message after all. NULL: there is nothing to read. */
typedef struct {
    oom_kind kind;
    const char *mark; /* NULL ends the table */
    bool (*read)(span behind, span all, oom *o);
} oom_message;

extern const oom_message oom_messages_torch[];   /* PyTorch's, with numbers */
extern const oom_message oom_messages_servers[]; /* vLLM's, text-generation-inference's, llama.cpp's */
extern const oom_message oom_messages_graphs[];  /* TensorFlow's, JAX's, PyTorch/XLA's */
extern const oom_message oom_messages_host[];    /* the host's memory and who guards it */
extern const oom_message oom_messages_bare[];    /* CUDA's, its libraries', and words: all without numbers */

oom_place oom_place_of_names(span line); /* by the words of the names of functions */
oom_place oom_place_told(span text);     /* by what people say of it; OOM_NOWHERE: nothing */
bool oom_told_host(span text);           /* whether they say that it was the machine's memory */
bool oom_told_library(span text);        /* whether a title names a library that found no room */
bool oom_frame_is_attention(span line, bool *is_frame);
bool oom_line_makes_scores(span line);
bool oom_tells_growth(span line);
bool oom_grows(span text); /* figures of memory, each larger than the one before */

/* Fills place, each_rank, grew, told_leak. `mark` is where the message stands in `all`. */
void oom_find_place(span all, const char *mark, oom *o);
