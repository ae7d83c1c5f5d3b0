/* A network of the user's as a model like any other: the public description, checked, and what a first
 * building of it showed. */
#pragma once

#include "ir/op.h"
#include "models/model.h"
#include "snug/snug.h"

enum {
    NETWORK_NAME_BYTES = 80, /* of a parameter; optimizers put words in front of it */
    NETWORK_OUTPUT_BYTES = 64
};

typedef struct {
    char name[NETWORK_NAME_BYTES];
    float mean, deviation;
} network_parameter;

typedef struct {
    char name[NETWORK_OUTPUT_BYTES];
    tensor_id value; /* in the graph that is being built */
} network_output;

typedef struct {
    snug_network description; /* texts stay the user's */
    uint32_t field_count;
    int label_field; /* -1: none */
    network_parameter *parameters;
    uint32_t parameter_count, parameter_room;
    op_range ranges[SNUG_MAX_FIELDS]; /* of fields that pick rows, by whatever reads them */
    uint64_t elements;                /* of all parameters */
    int64_t blocks;
    bool has_loss, has_output;
} network;

/* `m` points at `n`, which must stay where it is. STATUS_INVALID with a sentence when the description or what
 * it builds is wrong; then nothing is left open. */
status network_open(const snug_network *description, network *n, model *m);
void network_close(network *n); /* fine on a zeroed or closed one */

/* STATUS_INVALID names a number of a sample's field that picks a row which is not there. For samples whose
 * output is wanted, so no label is ignored. */
status network_check_ids(const network *n, uint32_t field, const int32_t *ids);

/* The outputs of a predictor for `batch` samples, by their names; STATUS_INVALID with a sentence where the
 * network can't be built so. And what a program calls output `index`. */
status network_outputs(const network *n, int64_t batch, network_output outputs[SNUG_MAX_OUTPUTS],
                       uint32_t *count);
const char *network_output_symbol(uint32_t index);

/* Names that the trainer and its programs give to values and buffers of their own. */
bool network_reserves(const char *name);

/* What the public functions build. */
struct snug_graph {
    graph *graph;
    const network *network;
    network *probe; /* not NULL in the first building alone: takes down what there is */
    model_mode mode;
    int64_t batch;
    tensor_id key, loss;
    float weight; /* of the losses that follow */
    network_output outputs[SNUG_MAX_OUTPUTS];
    uint32_t output_count;
    int32_t stream; /* of the next random node */
};

/* For those functions. Is `name` one that a parameter may have? */
bool network_names_parameter(const char *name);
/* In the first building: is what the model's files hold under this name right, and how does it begin? False:
 * the graph has failed. In later ones there is nothing to take down. */
bool network_take_down(snug_graph *g, const network_parameter *p, const shape *s, bool trained);

/* Can anything be added? Not to a graph that has failed, nor to none. */
bool network_is_open(const snug_graph *g, const char *where);
/* Whether x is a value of the graph; the graph fails where it is not. */
bool network_has(const snug_graph *g, tensor_id x, const char *where);
