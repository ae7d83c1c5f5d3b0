/* The library's product, and for want of an algorithm the plain kernel's. */
#include "ops/cuda.h"

extern "C" {
#include "ops/library_matmul/library_matmul.h"
}

static const library_matmul_attributes *attributes_of(const op_call *c) {
    return (const library_matmul_attributes *)c->attributes;
}

static bool library_accepts(const op_call *c) { return attributes_of(c)->chosen != 0; }

static uint64_t library_scratch(const op_call *c, int) { return attributes_of(c)->algorithm.workspace_bytes; }

static void library_run(const op_call *c) {
    const library_matmul_attributes *t = attributes_of(c);
    library_product p = library_matmul_called(c, &t->product);
    const void *residual = op_in(c, MATMUL_RESIDUAL)->data, *sum = op_in(c, MATMUL_ACCUMULATOR)->data;
    library_operands at = { op_in(c, MATMUL_A)->data,  op_in(c, MATMUL_B)->data, op_in(c, MATMUL_BIAS)->data,
                            residual ? residual : sum, c->out[0].data,           c->scratch };
    library_multiply(&p, &t->algorithm, &at);
}

/* Its attributes begin with those of the plain product. */
static void plain_run(const op_call *c) { matmul_cuda[0].run(c); }

CUDA_KERNELS(library_matmul_cuda,
             { "library_matmul_cublaslt", library_accepts, library_scratch, library_run },
             { "library_matmul_plain", cuda_accepts, NULL, plain_run });
