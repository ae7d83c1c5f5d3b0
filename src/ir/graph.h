/* The graph: everything a program computes, as values in SSA form.
 *
 * Tensors and nodes are named by 32-bit ids into arrays that grow and never move; id 0 means none. A value
 * is written once, also when its memory is not: `w1 = adamw(w0, ...)` says through its op's alias list that
 * w1 lives where w0 lived, and verify_graph proves that nobody reads w0 afterwards. So every pass may reason
 * as if the graph were pure.
 *
 * Building does not return a status at every call: a failure is remembered in the graph (`failed`, with the
 * sentence recorded), every later call does nothing and returns 0, and whoever owns the graph asks
 * graph_status once at the end. That keeps models and gradients as short as their formulas. A graph is a
 * value: graph_close frees all of it at once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/dtype.h"
#include "base/shape.h"
#include "base/status.h"
#include "ir/graph_size.h"

typedef uint32_t tensor_id;
typedef uint32_t node_id;
typedef struct op_def op_def;

/* Where a value comes from and how long it stays. */
typedef enum role {
    ROLE_ACTIVATION, /* made by a node, lives from its producer to its last reader */
    ROLE_INPUT,      /* written by the host before the program runs, dies with its last reader */
    ROLE_PARAMETER,  /* weights: persistent, shared by name between programs */
    ROLE_STATE,      /* optimizer moments, step counts: persistent */
    ROLE_CACHE,      /* keys and values of texts that are continued: persistent */
    ROLE_GRADIENT,   /* a gradient that outlives a program, while micro-batches add to it: persistent */
    ROLE_RESULT,     /* what the host reads, such as the summed loss: persistent */
} role;
static inline bool role_persistent(role r) { return r >= ROLE_PARAMETER; }
/* In the order of a step. REDUCE: what happens once for each unit of samples, to its finished sums. */
typedef enum phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_REDUCE, PHASE_UPDATE, PHASE_COUNT } phase;

enum {
    TENSOR_KEEP = 1,        /* read by the host after the program: alive to its end */
    TENSOR_TRAINABLE = 2,   /* a parameter that wants a gradient */
    TENSOR_DECAY = 4,       /* a parameter under weight decay */
    TENSOR_GRADIENT = 8,    /* (part of) the gradient of a parameter */
    TENSOR_STOCHASTIC = 16, /* a parameter of 16 or 8 bits whose updates are rounded stochastically */
    TENSOR_ROWS = 32,       /* codes of 8 bits with a scale for each row; else for each column */
    TENSOR_WHOLE = 64,      /* a parameter that is trained itself where others have adapters in their place */
    TENSOR_BARE = 128,      /* a parameter outside of linear layers: it has no adapters, and no codes */
    TENSOR_OF_MODEL = 256,  /* state that the model computes with, and its files hold beside the weights */
    TENSOR_PANELS = 512,    /* codes of 4 bits as products of integers read them, of a matrix that lies as
                               (out, in) in files of floats, with TENSOR_ROWS, else as (in, out) */
};

typedef struct {
    struct shape shape;  /* what this rank holds */
    struct shape global; /* of the whole tensor; equal to `shape` until something is sharded */
    int64_t offset;      /* bytes into `base` */
    node_id producer;    /* 0: comes from outside */
    tensor_id base;      /* shares the storage of this tensor; 0: has its own */
    tensor_id owner;     /* the last of the chain of bases when it was made, which may be a part by now */
    uint32_t name;       /* place of the name in `bytes`; 0: none */
    uint16_t flags;
    uint8_t dtype, role, gradient; /* gradient: the dtype that it should have; 0: the tensor's own */
    uint8_t away;                  /* not 0: waits outside of the memory that computes (lower/pieces.h) */
} tensor;

typedef struct {
    const op_def *op;
    uint32_t in, out, attributes; /* places in `edges` and `bytes` */
    uint16_t in_count, out_count;
    int32_t site; /* block of the model; SITE_NONE outside of blocks */
    uint8_t phase;
} node;

enum { SITE_NONE = -1 };

typedef struct {
    array tensors, nodes, edges, bytes;
    enum phase phase; /* given to the nodes that are added */
    int32_t site;     /* likewise */
    status failed;
    int64_t group;     /* ranks that have the shares of one copy of what is shared; 0: all of them */
    graph_room room;   /* a node beyond it fails */
    graph_size parent; /* at least as large as any graph that it was made from */
} graph;

status graph_open(graph *g);
void graph_close(graph *g);

graph_size graph_size_of(const graph *g);

/* STATUS_OK, or the first failure since opening (its sentence is the recorded one). */
static inline status graph_status(const graph *g) { return g->failed; }

/* Marks the graph as failed, unless it is already; returns 0. */
tensor_id graph_fail(graph *g, const char *format, ...) __attribute__((format(printf, 2, 3)));
tensor_id graph_no_memory(graph *g);

static inline tensor *graph_tensor(const graph *g, tensor_id t) { return (tensor *)g->tensors.data + t; }
static inline node *graph_node(const graph *g, node_id n) { return (node *)g->nodes.data + n; }
static inline tensor_id *graph_edges(const graph *g) { return (tensor_id *)g->edges.data; }
static inline tensor_id node_in(const graph *g, const node *n, uint32_t i) {
    return i < n->in_count ? graph_edges(g)[n->in + i] : 0;
}
static inline tensor_id node_out(const graph *g, const node *n, uint32_t i) {
    return graph_edges(g)[n->out + i];
}
static inline const void *node_attributes(const graph *g, const node *n) {
    return (const char *)g->bytes.data + n->attributes;
}
static inline const shape *graph_shape(const graph *g, tensor_id t) { return &graph_tensor(g, t)->shape; }
const char *graph_name(const graph *g, tensor_id t); /* "" when it has none */
static inline uint64_t graph_tensor_bytes(const graph *g, tensor_id t) {
    const tensor *x = graph_tensor(g, t);
    return (uint64_t)shape_elements(&x->shape) * dtype_bytes((dtype)x->dtype);
}

/* What gradients of t are: wider than t where they are summed and t is a narrow copy, say. */
static inline dtype graph_gradient_dtype(const graph *g, tensor_id t) {
    const tensor *x = graph_tensor(g, t);
    return (dtype)(x->gradient ? x->gradient : x->dtype);
}

/* Has another rank other parts of this tensor? The one at place r of a group (graph.group) has those from
 * element r times those of `shape` on; behind the end of the whole it holds zeros. */
static inline bool graph_is_share(const tensor *x) { return !shape_equal(&x->shape, &x->global); }

/* A value that comes from outside. Persistent ones need a name, unique in the graph. */
typedef struct {
    const char *name;
    struct shape shape;
    enum dtype dtype;
    enum role role;
    uint16_t flags;
} graph_source;
tensor_id graph_add_source(graph *g, const graph_source *source);

/* The only way to add work. Checks the op's rules, runs its shape inference, makes the outputs and their
 * aliases. `in` holds `in_count` ids; optional inputs are 0 and trailing ones may be left out. Returns the
 * first output (the others follow: out, out+1, ...); 0 on failure. `attributes` may be NULL when the op has
 * none. */
tensor_id graph_add(graph *g, const op_def *op, const tensor_id *in, uint32_t in_count,
                    const void *attributes);

/* The same with op and attributes of a node of another graph. Where the inputs have the shapes and types that
 * they have there, the results do as well, and no rule is asked again. */
tensor_id graph_add_copy(graph *g, const tensor_id *in, uint32_t in_count, const graph *from, const node *n);

/* Names a node's result that the host reads after the program: it stays alive to the end, through all passes.
 */
void graph_keep(graph *g, tensor_id t, const char *name);

/* The owner of the storage that t lives in; `*offset` (may be NULL) gets t's place in it, for which the whole
 * chain of bases is walked: sums of many parts are long ones. */
static inline tensor_id graph_storage(const graph *g, tensor_id t, int64_t *offset) {
    int64_t place = 0;
    for (tensor_id owner; !offset && (owner = graph_tensor(g, t)->owner); t = owner) continue;
    if (!offset) return t;
    for (tensor_id base; (base = graph_tensor(g, t)->base); t = base) place += graph_tensor(g, t)->offset;
    *offset = place;
    return t;
}

/* The source or kept result with this name; 0 when there is none. Linear: not for inner loops. */
tensor_id graph_find(const graph *g, const char *name);
