#include "models/decoder_experts.h"

#include <stdio.h>

#include "models/check.h"
#include "ops/add/add.h"
#include "ops/column_scale/column_scale.h"
#include "ops/expert_matmul/expert_matmul.h"
#include "ops/expert_rows/expert_rows.h"
#include "ops/expert_shares/expert_shares.h"
#include "ops/gated_halves/gated_halves.h"
#include "ops/matmul/matmul.h"
#include "ops/reshape/reshape.h"
#include "ops/route/route.h"
#include "ops/row_gate/row_gate.h"
#include "ops/softmax/softmax.h"
#include "ops/sum/sum.h"

const decoder_experts_names decoder_experts_named = { "mlp", "gate_proj", "up_proj", "down_proj" };
const decoder_experts_names decoder_experts_numbered = { "block_sparse_moe", "w1", "w3", "w2" };

status decoder_experts_check(const decoder_experts *e, const decoder_experts_kind *kind) {
    const model_range sizes[] = { { kind->count, e->count, 1, ROUTE_MOST_EXPERTS },
                                  { "num_experts_per_tok", e->chosen, 1, ROUTE_MOST_CHOSEN },
                                  { kind->inner, e->inner, 1, 1 << 22 },
                                  { "shared_expert_intermediate_size", e->shared, kind->shared ? 1 : 0,
                                    1 << 22 } };
    TRY(MODEL_CHECK_RANGES(sizes));
    if (e->chosen > e->count)
        return status_set(STATUS_INVALID, "num_experts_per_tok is %lld, and there are %lld experts",
                          (long long)e->chosen, (long long)e->count);
    return STATUS_OK;
}

static tensor_id parameter(graph *g, const char *prefix, const char *name, shape s) {
    char full[128];
    snprintf(full, sizeof full, "%smlp.%s", prefix, name);
    return model_parameter(g, full, s, TENSOR_DECAY);
}

/* x W' */
static tensor_id linear(graph *g, const char *prefix, const char *name, tensor_id x, int64_t out) {
    shape w = SHAPE(out, shape_last(graph_shape(g, x)));
    return matmul_apply(g, &(matmul_inputs){ .a = x, .b = parameter(g, prefix, name, w), .tb = true });
}

/* transformers' routers are modules of their own, and PEFT has adapters for linear layers alone. */
static tensor_id router(graph *g, const char *prefix, tensor_id x, int64_t experts) {
    char full[128];
    snprintf(full, sizeof full, "%smlp.gate.weight", prefix);
    tensor_id w =
        model_parameter(g, full, SHAPE(experts, shape_last(graph_shape(g, x))), TENSOR_DECAY | TENSOR_BARE);
    return matmul_apply(g, &(matmul_inputs){ .a = x, .b = w, .tb = true });
}

/* The expert that all tokens pass. */
static tensor_id shared(graph *g, const decoder_experts *e, const char *prefix, gated_function f,
                        tensor_id x) {
    tensor_id gate = linear(g, prefix, "shared_expert.gate_proj.weight", x, e->shared);
    tensor_id up = linear(g, prefix, "shared_expert.up_proj.weight", x, e->shared);
    return linear(g, prefix, "shared_expert.down_proj.weight", gated_apply(g, gate, up, f),
                  shape_last(graph_shape(g, x)));
}

tensor_id decoder_experts_apply(graph *g, const decoder_experts *e, const char *prefix, gated_function f,
                                tensor_id x, decoder_routed *routed) {
    shape whole = *graph_shape(g, x);
    int64_t width = shape_last(&whole);
    tensor_id beside = e->shared ? shared(g, e, prefix, f, x) : 0;
    tensor_id logits = router(g, prefix, x, e->count);
    tensor_id weights = route_apply(
        g, logits,
        &(route_attributes){ .chosen = (int32_t)e->chosen, .normalised = e->normalised, .wide = e->wide });
    tensor_id places = weights ? weights + 1 : 0, ends = weights ? weights + 2 : 0;
    *routed = (decoder_routed){ logits, ends };
    tensor_id gate_up = parameter(g, prefix, "experts.gate_up_proj", SHAPE(e->count, 2 * e->inner, width));
    tensor_id down = parameter(g, prefix, "experts.down_proj", SHAPE(e->count, width, e->inner));
    tensor_id rows = expert_rows_apply(g, x, places);
    tensor_id inner = gated_halves_apply(g, expert_matmul_apply(g, rows, gate_up, ends, true), f);
    tensor_id y = expert_sum_apply(g, expert_matmul_apply(g, inner, down, ends, true), places, weights);
    y = reshape_apply(g, y, whole);
    if (!beside) return y;
    tensor_id gate = linear(g, prefix, "shared_expert_gate.weight", x, 1); /* how far it is let through */
    return add_apply(g, y, row_gate_apply(g, beside, gate));
}

/* The load of the layers, and of that the shares. */
static tensor_id shares_of(graph *g, const decoder_experts *e, const decoder_balance *of) {
    const expert_shares_attributes a = { .coefficient = (float)e->balance, .chosen = (int32_t)e->chosen };
    int64_t last = of->count - 1;
    tensor_id shares = 0;
    while (last >= 0 && !of->layers[last].ends) last--;
    for (int64_t i = 0; i <= last; i++) {
        expert_shares_inputs in = { .ends = of->layers[i].ends, .before = shares };
        if (i == last) in.labels = of->labels, in.scale = of->scale;
        if (in.ends) shares = expert_shares_apply(g, &in, &a);
    }
    return shares;
}

tensor_id decoder_experts_balance(graph *g, const decoder_experts *e, const decoder_balance *of,
                                  tensor_id loss) {
    tensor_id shares = shares_of(g, e, of);
    for (int64_t i = 0; i < of->count && shares; i++) {
        tensor_id logits = of->layers[i].logits;
        if (logits) loss = sum_apply(g, column_scale_apply(g, softmax_apply(g, logits), shares), loss);
    }
    return loss;
}
