/* What recorded_types.c knows while it changes the types of a recorded step, and recorded_sums.c with it. */
#pragma once

#include <string.h>

#include "estimate/recorded/recorded_attention.h"
#include "estimate/recorded/recorded_types.h"

static const char wide[] = "float32", narrow[] = "bfloat16";

static inline bool is_wide(const recorded_edit *e, uint32_t storage) {
    return strcmp(edit_dtype(e, storage), wide) == 0;
}

typedef struct {
    recorded_edit *e;
    torch_types to;
    bool cuda, own_casts;
    bool *widened;      /* by storage: code casts it to f32 */
    bool *handed;       /* by storage: for some calls alone (recording_program.widened_for) */
    bool *writes_norm;  /* by module: it makes a norm of several calls ... */
    bool *is_of_narrow; /* ... of what has 16 bits, in f32 */
    struct attending {
        recorded_attention a;
        uint32_t made[ATTENTION_GIVEN];     /* in f32, of what it was given in 16 bits; 0: it was not */
        uint32_t gradient[ATTENTION_GIVEN]; /* in f32, of each; 0: not yet */
        uint32_t mask;                      /* in 16 bits; 0: it is not in f32, or nobody casts it */
        uint32_t of_mask;                   /* its gradient, in 16 bits; 0: not yet, or there is none */
    } * attentions;
    uint32_t attention_count, attention; /* the first that is not over */
    uint32_t *attention_of;              /* by call of backward that makes such a gradient, from 1 */
    uint32_t *last_cast;                 /* by call of forward: the last cast behind its node in backward */
    uint32_t *casts;                     /* by call: the first of its casts; 0: none */
    struct cast {
        uint32_t of, made, next;
    } * cast;                              /* from 1 */
    uint32_t cast_count, cast_room, known; /* known: storages that were there */
    uint32_t *copy;                        /* by storage: a copy that serves all calls of forward */
    bool *varies;                          /* by storage: it depends on a weight */
} retyping;

static inline bool is_of_backward(const recorded_edit *e, uint32_t storage) {
    uint32_t born = edit_at(e, storage)->born;
    return born && e->calls[born].phase == RECORDING_BACKWARD;
}

/* Casts `storage` behind a call, as part of the work of `call`. Returns what is made. */
uint32_t recorded_cast(recorded_edit *e, uint32_t behind, uint32_t call, uint32_t storage, const char *kind);

/* ---- backward: recorded_sums.c ---- */

/* Autograd's own sum, by which a node's result meets what came before: it reads that and the result. */
bool recorded_is_sum(const recorded_edit *e, uint32_t call);
/* The last call of a node's own: before its results are added to others. */
uint32_t recorded_end_of_node(const recorded_edit *e, uint32_t call);
/* All calls behind this one have `new` in place of `old`, also where they add to it. */
void recorded_replace_behind(recorded_edit *e, uint32_t call, uint32_t old, uint32_t new);
/* What a norm of several calls reads twice of its f32 copy has two gradients, which are added in f32 and cast
 * before they meet the others. As recorded, without the copy, each of them is added to the others. */
bool recorded_waits_for_sum(const retyping *t, uint32_t call, uint32_t result); /* is it one of them? */
/* At a sum: puts it where it belongs. True: the call is gone. */
bool recorded_add_behind_norm(retyping *t, uint32_t call);
