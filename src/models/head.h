/* Heads that judge a whole sample: classes, or a score. They stand where a model's language head would, with
 * the names, shapes and places of transformers' ...ForSequenceClassification:
 *
 *     BERT        classifier(drop(tanh(pooler x0)))                    x0: the first token
 *     RoBERTa     out_proj(drop(tanh(dense(drop x0))))
 *     DistilBERT  classifier(drop(relu(pre_classifier x0)))
 *     ModernBERT  classifier(drop(norm(gelu(head.dense x0))))          as before words
 *     decoders    score x, without a bias                              x: the last token that is no padding
 *
 * Samples are filled up to one length. What fills an encoder's sample is a segment of its own, which the text
 * does not see; a decoder sees nothing behind a token, so it only has to know where the text ends.
 *
 * Fields of a sample: "tokens" (T) i32; "labels" i32, its class, or "scores" f32, its number; then of
 * encoders "segments" (T) i32, 0 in the text and 1 behind it, of decoders "place" i32, the last
 * token's; where m is typed "types" (T) i32, which of two texts a token is of. */
#pragma once

#include "models/model.h"

enum { HEAD_MOST_OUTPUTS = 1 << 20 };

/* Gives a model of texts another head, before anything is built; HEAD_LANGUAGE: leaves it as it is. The
 * family's builder has to look at m->head. */
void head_attach(model *m, const model_head *h);

/* STATUS_INVALID with a sentence where there is no such head: one class, too many. */
status head_check(const model_head *h);

/* Is this parameter a part of m's head, which files of the model with another head don't have? */
bool head_owns(const model *m, const char *parameter);
/* The module of a head that a parameter of it stands in: "classifier" of "classifier.out_proj.weight",
 * "pooler" of "bert.pooler.dense.weight". */
enum { HEAD_MODULE_BYTES = 32 };
const char *head_module(const char *parameter, char out[HEAD_MODULE_BYTES]);

/* Is this tensor of a file a part of a language head; and has a model with m's head no place for it then? */
bool head_is_language(const char *name);
bool head_replaces(const model *m, const char *name);

/* "classes:3", "score", "language" */
enum { HEAD_TEXT_BYTES = 32 };
const char *head_text(const model_head *h, char out[HEAD_TEXT_BYTES]);

/* ---- for builders ---- */

tensor_id head_segments(graph *g, const model_run *run); /* the input (B,T) */
tensor_id head_first_token(graph *g, tensor_id x);       /* (B,T,C) -> (B,C) */
/* (B,T,C) -> (B,C), by the input "place". */
tensor_id head_last_token(graph *g, tensor_id x, const model_run *run);
/* From logits (B,outputs) to the loss; sets both ports. */
void head_finish(const model *m, graph *g, tensor_id logits, const model_run *run, model_ports *ports);
