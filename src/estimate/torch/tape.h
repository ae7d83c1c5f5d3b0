/* The memory of one training step in a framework with eager autograd, as a list of its calls.
 *
 * A call makes one value, may keep values for its gradient, and may need more bytes while it runs. Rules
 * (torch.c) write the list from snug's own forward graph; playing it (tape_play) counts bytes: forward, with
 * values dying as their last reader is done unless something keeps them; backward, with gradients born, added
 * up and let go; then the optimizer. Two steps are played: the optimizer's state comes with the first update,
 * into what the allocator has left over from it. Values are sizes here, never numbers.
 *
 * Storage is counted by reference, as PyTorch does it: a view holds what it is a view of, and a gradient that
 * an addition hands on to both its inputs exists once. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "base/status.h"

typedef uint32_t tape_value; /* 0: none */

typedef enum {
    TAPE_WEIGHTS,
    TAPE_GRADIENTS,
    TAPE_OPTIMIZER,
    TAPE_ACTIVATIONS, /* what forward has made */
    TAPE_LOGITS,      /* the same, as wide as the vocabulary, and its gradients */
    TAPE_TEMPORARIES, /* what backward and the optimizer need for a while */
    TAPE_INPUTS,
    TAPE_REFERENCE, /* weights of a model that is not trained */
    TAPE_CACHE,     /* keys and values of texts that are made */
    TAPE_ENGINE,    /* what makes texts beside the trained model */
    TAPE_TERMS
} tape_term;
const char *tape_term_name(tape_term t);

/* Whose variable a value is, in forward without gradients: it stays until that function returns. */
typedef enum { TAPE_NOBODY, TAPE_BLOCK, TAPE_BODY /* all blocks, one after the other */ } tape_frame;

typedef struct {
    int64_t elements;
    double width; /* bytes of an element; of quantized weights a fraction */
    double whole; /* bytes of it that are never sharded, such as scales */
    tape_term term;
    bool wants;    /* it needs a gradient */
    bool held;     /* stays to the end of forward, whatever reads it */
    bool outlives; /* stays to the end of the step: the training loop holds it */
    /* What it is a norm of, to which what a part of the block makes of it is added: the caller of that part
     * holds it until the part returns. 0: there is no such part. */
    tape_value branches_from;
    tape_frame frame;
    bool for_each; /* is there once for all samples; whoever continues texts makes it for each of them */
} tape_item;

enum { TAPE_IN = 4 };
typedef struct {
    const char *what;
    tape_value in[TAPE_IN];
    tape_value out;
    unsigned keeps_in;            /* bit per input that the gradient reads */
    unsigned clings;              /* those of them that stay until the whole graph is freed */
    bool keeps_out, view, passes; /* view: of in[0]; passes: its gradient is that of its inputs */
    uint64_t kept;                /* bytes made in forward for the gradient alone */
    uint64_t forward, backward;   /* bytes needed while it runs */
    /* Of the gradient of an input that was broadcast, in backward: a buffer for its sum, and the product that
     * is summed, where that is a value of its own. */
    uint64_t sum, summand;
    bool multiplies, biased; /* a product of matrices; with a bias in it */
    int32_t site;            /* block of the model; < 0: outside */
} tape_call;

typedef struct {
    array items, calls; /* tape_item, tape_call; from 1 */
    status failed;
} tape;

status tape_open(tape *t);
void tape_close(tape *t);

static inline tape_item *tape_at(const tape *t, tape_value v) { return (tape_item *)t->items.data + v; }
static inline uint64_t tape_bytes(const tape *t, tape_value v) {
    return (uint64_t)((double)tape_at(t, v)->elements * tape_at(t, v)->width + 0.5);
}

/* An item of so many numbers or more makes the tape fail. */
#define TAPE_MOST (INT64_C(1) << 47)

/* A value that exists before the step and after it: a weight, an input. */
tape_value tape_add_source(tape *t, const tape_item *item);
/* Adds the call; its result is described by `made` and needs a gradient where any input does. Returns the
 * result. */
tape_value tape_add(tape *t, const tape_call *call, const tape_item *made);

/* What is there once for all samples is from now on there for each of so many. */
void tape_make_for_each(tape *t, int64_t samples);

/* ---- playing ---- */

/* Streams of a device on which FSDP and DeepSpeed gather weights, and send gradients to their shares. */
enum { TAPE_COMPUTES, TAPE_GATHERS, TAPE_REDUCES };

/* Gets every allocation: `take` returns a number that `give` gets when it is freed. May be NULL. */
typedef struct {
    uint32_t (*take)(void *context, uint64_t bytes, uint8_t stream);
    void (*give)(void *context, uint32_t block);
    void *context;
} tape_listener;

/* Gets what happens and when, for a picture of the step. Storages go by numbers, which are used again. */
typedef struct {
    /* A call begins: of forward, also of a block that is computed again; of backward; the update. `round`:
     * which step, from 0. */
    void (*call)(void *context, const char *what, int32_t site, const char *phase, uint32_t round);
    void (*born)(void *context, uint32_t storage, uint64_t bytes, tape_term term);
    void (*died)(void *context, uint32_t storage);
    void *context;
    const uint64_t *reserved; /* of the allocator that is told everything first; NULL: there is none */
} tape_watcher;

typedef struct {
    bool checkpointing;       /* blocks keep their inputs only and are computed again */
    bool reentrant;           /* ... by a function that holds their inputs and results until it ends */
    bool lingering;           /* inputs of blocks, and their gradients, stay until backward ends */
    bool accumulates;         /* gradients of earlier micro-batches exist and are added to */
    bool adds_anew;           /* the two gradients of a weight that two calls read stand beside their sum */
    bool evaluates;           /* forward without gradients, after training: nothing is kept for backward */
    bool frames;              /* ... by functions that hold what a block, or a part of it, was given, and
                               * what tape_item.frame says */
    bool within;              /* ... between two micro-batches: gradients of the earlier ones are there */
    bool fills;               /* gradients become zeros before a step, and stay */
    bool clears_late;         /* gradients go when forward of the next step is done */
    uint64_t optimizer_bytes; /* state, made weight by weight in the first update */
    uint64_t update_bytes;    /* while weights are updated, with all gradients there */
    bool update_spread;       /* update_bytes are allocated weight by weight; else for the largest weight */
    double weight_share, gradient_share; /* the part of weights and gradients on one device; 0: all of them */
    uint64_t gathered_bytes;             /* weights gathered from other devices, in forward and backward */
    uint64_t fetched_bytes; /* prefetched beside them while blocks are differentiated, all but the first */
    uint64_t workspace;     /* of products: allocated by the first in forward and in backward, then kept */
    uint64_t unit_bytes;    /* for a moment, after a block was differentiated */
    uint64_t sending_bytes; /* gradients being sent to other devices, from the start of backward ... */
    bool sending_ends;      /* ... to its end; else they stay */
    /* Freed while a stream may still read them, so the allocator gives them to nobody: of gathered weights,
     * and of gradients being sent. */
    uint64_t gathered_pending, sending_pending;
    uint8_t gather_stream, gradient_stream;
    bool synchronises; /* all weights are sent from one device to the others before anything else */
    bool cuts_units;   /* each block arrives whole, is copied into one buffer, and a share of that is kept */
    const tape_listener *listener;
    const tape_watcher *watcher; /* NULL: nobody */
    const tape
        *others; /* the same calls on other sizes: steps of these are played around those of the tape */
    uint32_t other_count;
} tape_settings;

typedef struct {
    uint64_t peak;
    uint64_t at_peak[TAPE_TERMS];
    const char *peak_in; /* "forward", "backward", "update" */
} tape_result;

status tape_play(const tape *t, const tape_settings *s, tape_result *r);
