/* A training step that was recorded (docs/recording.md): what was called, which storages came and went, and
 * how large they were at some batches and lengths. `snug estimate --recipe` prints the program that writes
 * it.
 *
 * The file is data of strangers: it is read through a small buffer, nothing of it is called, and what is kept
 * is within bounds. After recording_read every number is in its range: indexes point to something, columns
 * are as long as they must be, a storage is made once and dies at most once, after it was made. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { RECORDING_VERSION = 1, RECORDING_MOST_RUNS = 16, RECORDING_MOST_PROGRAMS = 16 };

typedef enum {
    RECORDING_PARAMETER,
    RECORDING_BUFFER,
    RECORDING_INPUT,
    RECORDING_STATE, /* of the optimizer */
    RECORDING_HELD,  /* there before the step, and nobody says what it is */
    RECORDING_GRADIENT,
    RECORDING_MADE, /* within the step */
    RECORDING_ROLES
} recording_role;

typedef enum { RECORDING_FORWARD, RECORDING_BACKWARD, RECORDING_UPDATE, RECORDING_PHASES } recording_phase;

/* Numbers, all within what the column may hold. */
typedef struct {
    int64_t *of;
    uint32_t count, room;
} recording_column;

typedef struct {
    char **of;
    uint32_t count, room;
} recording_texts;

/* Storages are numbered from 1, and so are calls; column i - 1 has number i. Strings and shapes from 0. */
typedef struct {
    recording_column batches, lengths; /* of each run; the sizes below are of each */
    recording_column role, dtype, name;
    recording_column shape[RECORDING_MOST_RUNS], bytes[RECORDING_MOST_RUNS];
    recording_column call_name, phase, module,
        of; /* of: the call of forward that it differentiates; 0: none */
    recording_column operations[RECORDING_MOST_RUNS];
    recording_column reads, makes,
        operands;            /* how many of the operands, which are storages, one after another */
    recording_column events; /* 0: the next call; n: it makes storage n; -n: that one dies */
    recording_column saved;  /* pairs: a module, and a storage that it keeps for backward */
    /* What follows may be missing. How many calls were made before something happened; more than there are:
     * it did not. */
    recording_column left; /* by storage: nobody but autograd has it */
    /* Tensors that autograd keeps, in order; kept, wanted and let go. */
    recording_column save_module, save_storage, save_at, save_used, save_until;
    /* Each time that a module ran in forward, in order of their beginnings; pairs: before it began and ended.
     */
    recording_column visit_module, visit_calls, visit_saves;
    /* Storages that code casts to f32, also where that does nothing. */
    recording_column widened;
    bool tells_widened;           /* else nobody says */
    recording_column widened_for; /* pairs: a storage that some calls alone have in f32, and such a call */
    /* Storages that calls have within themselves. The one behind each stands for it where the call's floats
     * have 16 bits in place of f32, or f32 in place of 16 bits. May be missing. */
    recording_column within;
    bool switched; /* the model's library was told to compute modules again, and each was computed once */
    recording_column shape_ranks, shape_dims;
    recording_column shape_at; /* made from ranks: where in shape_dims a shape begins */
    recording_texts strings;
} recording_program;

typedef struct {
    char *torch, *device, *model, *autocast, *optimizer;
    recording_texts modules,
        classes;              /* "model.layers.0", "LlamaDecoderLayer"; the first is the model itself */
    recording_column entered; /* by module: how often forward runs it; none: the file does not say */
    recording_texts trained;
    recording_column
        again; /* modules that the model's own library computes again, ascending; may be missing */
    recording_program programs[RECORDING_MOST_PROGRAMS];
    uint32_t program_count;
} recording;

/* Does the file begin as a recording does? False also where it cannot be read. */
bool recording_is(const char *path);

/* STATUS_INVALID with a sentence where it is none, is cut, is of another version or contradicts itself. Close
 * it in any case. */
status recording_read(const char *path, recording *r);
void recording_close(recording *r); /* fine on a zeroed one */

static inline uint32_t recording_storages(const recording_program *p) { return p->role.count; }
