/* The feed-forward half of a decoder as a mixture of experts: a router sends each token to k of E experts,
 * and the sum of their answers, by the router's weights, is the result; Qwen's have an expert beside that all
 * tokens pass.
 *
 * Nothing is dropped, whatever the router does: k rows a token are computed, in the order of the experts, so
 * a batch of N tokens has N*k rows in every expert product and in everything between, if all tokens choose
 * one expert as well as if they are shared out evenly. That is what plans count.
 *
 * Names are those of transformers (5.23), which keeps the weights of all experts of a layer in one tensor. */
#pragma once

#include "models/model.h"
#include "ops/gated/gated.h"

enum { DECODER_MOST_LAYERS = 1024 };

typedef struct {
    int64_t count, chosen, inner;             /* count 0: no experts */
    int64_t shared;                           /* width of the one that all tokens pass; 0: none */
    bool normalised;                          /* the router's weights add up to 1 */
    bool wide;                                /* they stay f32 among values of 16 bits */
    bool balanced;                            /* training has a loss that spreads the load, ... */
    double balance;                           /* ... times this */
    uint64_t dense[DECODER_MOST_LAYERS / 64]; /* bit per layer: no experts here */
} decoder_experts;

/* Files hold a matrix for each expert and one of three purposes, and not the two tensors of a layer's
 * experts: "LAYER.HALF.experts.7.GATE.weight". The router is "LAYER.HALF.gate.weight". */
typedef struct {
    const char *half, *gate, *up, *down;
} decoder_experts_names;
extern const decoder_experts_names decoder_experts_named, decoder_experts_numbered; /* Qwen's, Mixtral's */

/* What a model_type fixes, and what transformers takes where config.json is silent. */
typedef struct {
    const char *count, *inner; /* keys of config.json */
    bool normalised, asked;    /* asked: norm_topk_prob chooses */
    bool wide;
    bool shared;
    bool dense_layers; /* decoder_sparse_step and mlp_only_layers are read */
    int64_t usual_count, usual_chosen, usual_inner, usual_shared;
    double usual_balance;
    const decoder_experts_names *files;
} decoder_experts_kind;

static inline bool decoder_experts_at(const decoder_experts *e, int64_t layer) {
    return e->count && !(e->dense[layer / 64] >> (layer % 64) & 1u);
}

status decoder_experts_check(const decoder_experts *e, const decoder_experts_kind *kind);

/* What a layer's router said. */
typedef struct {
    tensor_id logits, ends; /* of op_route; 0: the layer has no experts */
} decoder_routed;

/* x (B,T,C) -> (B,T,C). `prefix`: of the layer's names, "model.layers.3.". */
tensor_id decoder_experts_apply(graph *g, const decoder_experts *e, const char *prefix, gated_function f,
                                tensor_id x, decoder_routed *routed);

/* Adds to `loss` (1) how unevenly the experts are used, over all layers together, times e->balance:
 * transformers' load_balancing_loss_func. Where labels are ignored because nothing is there, the router's
 * choice counts all the same. labels, scale: of the loss of the text. */
typedef struct {
    const decoder_routed *layers;
    int64_t count;
    tensor_id labels, scale;
} decoder_balance;
tensor_id decoder_experts_balance(graph *g, const decoder_experts *e, const decoder_balance *of,
                                  tensor_id loss);
