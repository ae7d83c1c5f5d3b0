/* What frames of code tell of an allocation: that a module computes, that backward or an optimizer runs, that
 * weights are brought to the device. */
#pragma once

#include "snapshot/snapshot.h"

typedef enum {
    TRAIT_MODULE = 1,        /* torch.nn.Module calls a forward */
    TRAIT_BACKWARD = 2,      /* a node of autograd, or a function called backward */
    TRAIT_UPDATE = 4,        /* a step of an optimizer */
    TRAIT_LOADING = 8,       /* a module is moved, filled or made */
    TRAIT_RECOMPUTING = 16,  /* checkpointing computes a block again */
    TRAIT_ACCUMULATES = 32,  /* autograd's node that hands a gradient to its weight */
    TRAIT_WORKSPACE = 64,    /* a library asks for a workspace */
    TRAIT_STATE = 128,       /* the optimizer makes its state */
    TRAIT_GATHERS = 256,     /* weights of other devices are gathered, or gradients sent */
    TRAIT_TRIES = 512,       /* kernels are tried and timed */
    TRAIT_DATA = 1024,       /* a batch is brought to the device */
    TRAIT_CLEARS = 2048,     /* gradients are cleared */
    TRAIT_NATIVE = 4096,     /* a frame of C++ */
    TRAIT_MULTIPLIES = 8192, /* a product of matrices */
    TRAIT_MAKES = 32768,     /* an object is made: a module perhaps */
    TRAIT_LOSS = 16384,      /* a loss, or what it is taken of */
} trait;

typedef struct {
    uint32_t *of; /* bits, by stack; those of stack 0 are none */
    uint32_t count;
    bool any;             /* some stack has frames */
    bool native, modules; /* some have frames of C++, of modules */
} traits;

status traits_open(const snapshot *s, traits *t);
void traits_close(traits *t); /* fine on a zeroed one */

/* The frame of the model's own code that asked: the innermost one that is none of PyTorch's or a library's
 * plumbing, in traces without such ones the outermost operator; UINT32_MAX: there is none. */
uint32_t traits_own_frame(const snapshot *s, uint32_t stack);
