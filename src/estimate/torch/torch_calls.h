/* How rules write calls to the tape: a reading under way, and PyTorch's calls by their names. */
#pragma once

#include "estimate/torch/torch.h"

/* What a model is to transformers, whose code differs beyond the mathematics: an encoder of texts (BERT), a
 * decoder, an encoder-decoder with biases by distance (T5), none of these. */
typedef enum { TORCH_OTHER, TORCH_FILLS, TORCH_CONTINUES, TORCH_ANSWERS } torch_kind;

typedef struct {
    const graph *g;
    const torch_settings *s;
    tape *t;
    tape_value *map;  /* by tensor of g */
    tape_value *cast; /* by value: autocast's copy of a weight; 0: none yet */
    uint32_t cast_room;
    tape_value
        masks[2]; /* of scores that are written out: of what came before, and within a window; 0: none yet */
    torch_kind kind;
    int64_t classes;  /* numbers a row of the logits */
    tape_value zeros; /* biases of attention to another text; 0: not made yet */
    int32_t site;
    tape_value repeated; /* of the block's queries, for its keys: cosines and sines; 0: none */
    bool channels_last;  /* a layer norm over the channels of images has laid them out so */
} torch_reading;

typedef struct {
    const op_def *of;
    void (*read)(torch_reading *r, const node *n);
} torch_rule;
/* End with of NULL. */
extern const torch_rule torch_rules[], torch_rules_experts[], torch_rules_images[], torch_rules_distances[];
extern const torch_rule litgpt_rules[]; /* those that differ there */
void torch_look(torch_reading *r);      /* at the whole graph: its kind and classes */
bool torch_is_attention(const node *n);
bool torch_is_convolution(const node *n);
bool torch_attends(const graph *g);                     /* it has attention */
void torch_make_masks(torch_reading *r, const node *n); /* before any block: all of them read these */
const torch_rule *torch_rule_of(const op_def *which);   /* NULL: there is none */

/* What a node of attention adds to its scores, where a model has biases by distance: those, or in attention
 * to another text zeros, which are made before any block; 0 elsewhere. And the mask that fused attention is
 * given of it. */
tape_value torch_bias(const torch_reading *r, const node *n);
void torch_make_zeros(torch_reading *r, const node *n);
tape_value torch_mask_of_bias(torch_reading *r, tape_value bias);

/* How transformers writes the model; of other frameworks, and where no model is known, all is false. */
static inline model_spelling torch_spelling(const torch_reading *r) {
    return r->s->transformers && r->s->of ? r->s->of->spelling : (model_spelling){ 0 };
}

/* What a node's input is there, and that its first output is v. */
tape_value torch_in(const torch_reading *r, const node *n, uint32_t i);
void torch_set(const torch_reading *r, const node *n, tape_value v);

double torch_width(const torch_reading *r, tape_value v);
int64_t torch_elements(const torch_reading *r, tape_value v);
bool torch_wants(const torch_reading *r, tape_value v);

/* a * b * c, which is the most that counts where it would be more: such a tape fails. */
int64_t torch_count(int64_t a, int64_t b, int64_t c);

/* A new value of `elements` numbers made of the call's inputs. */
tape_value torch_call(torch_reading *r, tape_call call, int64_t elements, double width);

tape_value torch_to(torch_reading *r, tape_value x, double width);        /* x.to(): nothing where it is so */
tape_value torch_weight_to(torch_reading *r, tape_value w, double width); /* autocast keeps its copies */
tape_value torch_multiply(torch_reading *r, tape_value a, tape_value b);  /* keeps each for the other */
tape_value torch_scale(torch_reading *r, tape_value x);                   /* by a number: keeps nothing */
tape_value torch_sum(torch_reading *r, tape_value a, tape_value b);       /* a + b */
tape_value torch_function(torch_reading *r, const char *what, tape_value x); /* keeps its input: silu, pow */
tape_value torch_result_function(torch_reading *r, const char *what,
                                 tape_value x); /* keeps its result: tanh */
tape_value torch_softmax(torch_reading *r, const char *what, tape_value x,
                         uint64_t backward); /* keeps its result; of old versions both */
tape_value torch_linear(torch_reading *r, tape_value x, tape_value w, tape_value bias, int64_t out);
tape_value torch_drop(torch_reading *r, tape_value x, double p);
