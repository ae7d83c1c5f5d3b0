/* The library's attention, and for want of an engine attention_flash's. */
#include "ops/cuda.h"

extern "C" {
#include "ops/attention/attention_view.h"
#include "ops/attention_library/attention_library.h"
}

static const attention_library_attributes *attributes_of(const op_call *c) {
    return (const attention_library_attributes *)c->attributes;
}

static bool library_accepts(const op_call *c) { return attributes_of(c)->chosen != 0; }

template <bool GRADIENT>
static uint64_t library_scratch(const op_call *c, int) {
    library_attention p = attention_library_called(c, GRADIENT);
    return library_attention_scratch(&p, &attributes_of(c)->algorithm);
}

/* All are of 16 bits. */
static void *begin_of(const attention_place &p) { return (uint16_t *)p.arg->data + p.first; }

static library_attention_operands operands_of(const op_call *c, const attention_view &v) {
    library_attention_operands at = {};
    at.q = begin_of(v.q), at.k = begin_of(v.k), at.v = begin_of(v.v);
    at.scale = (float)v.scale;
    at.scratch = c->scratch;
    return at;
}

static void library_run(const op_call *c) {
    library_attention p = attention_library_called(c, false);
    library_attention_operands at = operands_of(c, attention_view_of(c, 3));
    at.y = c->out[0].data, at.logarithms = c->out[1].data;
    library_attention_run(&p, &attributes_of(c)->algorithm, &at);
}

static void library_run_backward(const op_call *c) {
    attention_view v = attention_view_of(c, 6);
    attention_outputs out = attention_view_outputs(&v, c);
    library_attention p = attention_library_called(c, true);
    library_attention_operands at = operands_of(c, v);
    at.y = op_in(c, 3)->data, at.logarithms = op_in(c, 4)->data, at.dy = op_in(c, 5)->data;
    at.dq = begin_of(out.q), at.dk = begin_of(out.k), at.dv = begin_of(out.v);
    library_attention_run(&p, &attributes_of(c)->algorithm, &at);
}

/* Its attributes begin with those of attention_flash. */
static void plain_run(const op_call *c) { attention_flash_cuda[0].run(c); }
static void plain_run_backward(const op_call *c) { attention_flash_backward_cuda[0].run(c); }
static uint64_t plain_scratch_backward(const op_call *c, int threads) {
    return attention_flash_backward_cuda[0].scratch(c, threads);
}

CUDA_KERNELS(attention_library_cuda,
             { "attention_library_cudnn", library_accepts, library_scratch<false>, library_run },
             { "attention_library_plain", cuda_accepts, NULL, plain_run });
CUDA_KERNELS(attention_library_backward_cuda,
             { "attention_library_backward_cudnn", library_accepts, library_scratch<true>,
               library_run_backward },
             { "attention_library_backward_plain", cuda_accepts, plain_scratch_backward,
               plain_run_backward });
