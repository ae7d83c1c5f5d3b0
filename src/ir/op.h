/* What an op is: a constant of this type in its folder under ops/, beside those of its gradient. Nothing
 * anywhere switches on ops. */
#pragma once

#include "base/confirmed.h"
#include "base/work.h"
#include "ir/graph.h"

/* Rules for one input, checked by graph_add. */
typedef struct {
    const char *name;
    uint32_t dtypes;            /* bit per dtype; 0: any */
    uint8_t rank_min, rank_max; /* 0: any */
    bool optional;
} op_input;

/* Output `out` may, or must, live where input `in` lived. A must-alias whose input is absent claims nothing.
 * `may` promises that the kernels are right when both are the same memory. */
typedef struct {
    uint8_t out, in;
    bool must;
} op_alias;

typedef enum {
    OP_VIEW = 1,         /* output 0 is a part of input 0 (infer sets base and offset); no kernel */
    OP_GATHER = 2,       /* output 0 is its inputs one after the other, which are born in place; no kernel */
    OP_RANDOM = 4,       /* draws from Philox, keyed by its stream and the key input */
    OP_COLLECTIVE = 8,   /* needs the other ranks */
    OP_ELEMENTWISE = 16, /* output element i depends on input elements i only */
    OP_COUPLES_SAMPLES = 32, /* samples of a batch see each other: micro-batches change the mathematics */
    OP_LOSS = 64,            /* sums up a loss: gradients begin here */
    OP_SOURCE = 128,         /* has no inputs: a constant */
    OP_HALF = 256,         /* takes floats of 16 bits wherever it takes f32 data; its results are then such */
    OP_SCALES_BACK = 1024, /* multiplies its gradient by input 1, the scale of the loss */
    OP_PRODUCT = 512,      /* a product of matrices: reading its operands in 16 bits pays */
    OP_SUMS_SUMS = 2048,   /* a weight's gradient from sums over samples: cut batches add in another order */
    OP_WANTS_SAMPLES = 4096, /* couples them by statistics, which one sample has none of */
    OP_PAIRS = 8192, /* multiplies parts of its first input: of bf16 there are kinds (run/products.h) */
    OP_WIDENED_PAIRS = 16384 /* multiplies codes as the bf16 that they stand for, which there are kinds of */
} op_trait;

/* How what is sent goes: between all at once, or through ranks one after the other (ops/pass_on). */
typedef enum { WAY_ALL, WAY_FROM_BEFORE, WAY_TO_NEXT, WAY_AROUND, WAY_FROM_LAST } op_way;

/* What a node costs, for the model of its time. Multiply-add counts as two. */
typedef struct {
    double flops, bytes_read, bytes_written;
    double bytes_moved,
        bytes_again;         /* between operands and scratch; read again, in further passes over all */
    double draws, functions; /* random numbers; flops of functions beside those of `kind` */
    double sent;             /* bytes to each other rank, which go on beside what follows */
    int64_t ranks, apart;    /* of `sent`: the ranks that do so together, 0: all; and how far it is from the
                                number of one to that of the next, 0: 1 */
    op_way way;
    double work;     /* flops that the kernels really do, waste included; 0: the same */
    work_kind kind;  /* of flops and work */
    uint16_t starts; /* of kernels, by one call on a GPU; 0: one */
    bool joined;     /* the call is started together with others, which its seconds leave out */
    double stretch;  /* of a GPU's work, by multiprocessors that have none (device/launches.h); 0: 1 */
    double tiles;    /* of 64 x 64 results of a product, of 64 queries of a head; 0: it is no such work, or is
                        not done by tiles */
    bool backward;   /* of attention: its gradient */
    bool half;       /* what is multiplied has 16 bits, whatever `kind` says of how */
    bool by_library; /* products that are no kernel's of ours: device_rates.by_library */
    bool reads;      /* a product of few rows, which has the traffic of other ops: it reads on and on */
} op_cost;

/* A buffer as kernels see it. Absent optional inputs have data NULL and dtype DTYPE_NONE. */
typedef struct {
    void *data;
    struct shape shape;
    enum dtype dtype;
} op_arg;

/* One call of a kernel: everything is bound, sized and planned before. */
typedef struct {
    const op_arg *in, *out;
    uint16_t in_count, out_count;
    uint32_t capability; /* of the device that runs it: `accepts` may ask for later instructions */
    const void *attributes;
    void *scratch; /* aligned to 64 bytes; its contents are undefined at entry */
    uint64_t scratch_bytes;
    int64_t first; /* of an update that is run in pieces: the weight's element at which this one begins */
} op_call;

static inline const op_arg *op_in(const op_call *c, uint32_t i) {
    static const op_arg absent = { 0, { { 0 }, 0 }, DTYPE_NONE };
    return i < c->in_count ? &c->in[i] : &absent;
}

/* Of an input of integers that pick rows: they are below this (0: any), or what a loss ignores. */
typedef struct {
    int64_t below;
    bool ignores;
} op_range;

/* One implementation. Lists are ordered by preference and end with name NULL; the last one is the plain
 * reference, which declines nothing that the op's rules allow (f32 and f64 alike). */
typedef struct {
    const char *name;                                   /* says how: "gelu_cpu_vector" */
    bool (*accepts)(const op_call *c);                  /* NULL: everything; data pointers are not set yet */
    uint64_t (*scratch)(const op_call *c, int threads); /* bytes; may be NULL; no pointers yet */
    void (*run)(const op_call *c);                      /* computes; cannot fail, allocate, log or wait */
} op_kernel;

/* A list of kernels for GPUs, where they are built. */
#ifdef SNUG_CUDA
#define OP_CUDA(list) list
#else
#define OP_CUDA(list) NULL
#endif

enum { OP_CASE_INPUTS = 12 };
typedef struct { /* one test case: what the inputs are */
    const char *name;
    struct {
        enum dtype dtype; /* DTYPE_NONE: absent; DTYPE_F32 is replaced by f64 for gradient checks */
        struct shape shape;
        double low, high; /* uniform in between; integers in [low, high) */
    } in[OP_CASE_INPUTS];
    const void *attributes;
    double tolerance; /* of fast kernels against the reference, relative to the largest value; 0: 1e-5 */
    bool no_gradient; /* where finite differences mean nothing */
} op_case;

typedef struct op_update op_update;
typedef struct op_row_sum op_row_sum;

struct op_def {
    const char *name, *paper;
    const op_input *inputs;
    const op_alias *aliases;
    uint8_t in_count; /* of `inputs` */
    uint8_t alias_count;
    uint8_t out_count;        /* or, where it depends on the node, outputs() */
    bool variadic;            /* the last input rule repeats */
    uint16_t attribute_bytes; /* attributes are compared byte by byte: they have no padding */
    uint32_t traits;
    uint32_t constants; /* bit per input: a float that gets no gradient (a scale, a learning rate) */
    uint32_t places;    /* bit per input: it only gives a result its place; what it holds is not read */
    bool pairs;         /* a product of its first inputs: of bf16 there are kinds (run/products.h) */
    uint8_t (*outputs)(const graph *g, const node *n);

    /* Shapes and dtypes of the outputs (zeroed at entry), from checked inputs. */
    status (*infer)(const graph *g, const node *n, tensor *out);

    /* Adds the nodes of the gradient. `dout[o]`: gradient of output o, 0 when nothing flows back there.
     * `din[i]`: at entry what has been gathered for input i so far (0: nothing yet), at return the same with
     * this node's contribution. `want[i]`: skip inputs that are not wanted. Weight gradients first, then
     * gradients of data: that frees the saved activation before the next one is born. NULL: not
     * differentiable. Ops without an accumulating input gather through add_gather (ops/add). */
    void (*grad)(graph *g, node_id n, const tensor_id *dout, const bool *want, tensor_id *din);

    op_cost (*cost)(const graph *g, const node *n);

    /* What a call does once, before its program is run for the first time: what takes time, or the host's
     * memory, beside its runs. Nobody has its data yet. INVALID: it can't be run, with a sentence. NULL:
     * nothing. */
    status (*prepare)(const op_call *c);
    op_range (*range)(const graph *g, const node *n, uint32_t input); /* NULL: anything, in all inputs */
    const op_update *update;   /* of an optimizer's update whose state has rules (ir/update.h); else NULL */
    const op_row_sum *row_sum; /* ir/row_sum.h; else NULL */
    const op_kernel *cpu;      /* of each kind of device, a list of its own */
    const op_kernel *cuda;     /* NULL: none, or not built */
    const op_kernel *tensor;   /* beside `cuda` and before it: products of 16 bits on tensor cores, whose bits
                                * are their own (run/products.h); all but the last are of one capability
                                * alone. NULL: none */
    const op_case *cases;      /* end with name NULL */
    struct {
        confirm_kind cuda, tensor[3]; /* of the first of `cuda`, and of those of `tensor` */
    } confirm;                        /* what GPUs have to confirm (base/confirmed.h) */
};

static inline status op_prepare(const op_def *op, const op_call *c) {
    return op->prepare ? op->prepare(c) : STATUS_OK;
}

/* For `infer`: input i, where given, has this shape and type. */
status op_check_input(const graph *g, const node *n, uint32_t i, const shape *expected, uint8_t type);

/* Fallbacks for `cost`: reads every input, writes every output, `flops` operations per output element. */
op_cost op_cost_elementwise(const graph *g, const node *n, double flops);
op_cost op_cost_functions(const graph *g, const node *n, double flops); /* the same, WORK_FUNCTIONS */

/* WORK_PRODUCTS of the first two inputs, or WORK_PRODUCTS_HALF where both are bf16. */
work_kind op_products_kind(const graph *g, const node *n);

/* The values of t that are valid for all nodes that read it or a view of it. */
op_range op_range_of(const graph *g, tensor_id t);

/* How many states the update has that may be kept elsewhere or in fewer bits; 0 for any other op. */
uint32_t op_state_count(const op_def *op);

/* Can it be run in pieces (lower/pieces.h), cutting its first input and all others of the same shape? */
bool op_in_pieces(const op_def *op);

/* All ops, in the order of ops/ops.def, ending with NULL. */
extern const op_def *const op_table[];
const op_def *op_find(const char *name);
