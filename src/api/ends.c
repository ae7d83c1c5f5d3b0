/* Where networks end: losses and outputs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/network.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/element_loss/element_loss.h"
#include "ops/reshape/reshape.h"
#include "ops/scale/scale.h"
#include "ops/soft_cross_entropy/soft_cross_entropy.h"

/* ---- losses ---- */

/* Is a loss to be added here? Of programs that predict it is no part. */
static bool wants_loss(const snug_graph *g, const char *where) {
    return network_is_open(g, where) && g->mode != MODEL_PREDICT;
}

/* What all losses are multiplied by: an input of the program. */
static tensor_id scale_of(snug_graph *g) {
    tensor_id known = graph_find(g->graph, "loss_scale");
    return known ? known : model_input(g->graph, "loss_scale", SHAPE(1), DTYPE_F32);
}

/* What a loss is added to: those before it. */
static tensor_id before(snug_graph *g) { return g->loss ? g->loss : model_result(g->graph, "loss"); }

void snug_loss_weight(snug_graph *g, double weight) {
    if (!network_is_open(g, "loss_weight")) return;
    g->weight = (float)weight;
    if (!(weight > 0) || !isfinite(g->weight))
        graph_fail(g->graph, "loss_weight: %g; it must be above 0, and finite", weight);
}

void snug_cross_entropy(snug_graph *g, snug_tensor logits, snug_tensor labels) {
    if (!wants_loss(g, "cross_entropy")) return;
    tensor_id scale = scale_of(g);
    if (g->weight != 1) scale = scale_apply(g->graph, scale, 0, g->weight);
    g->loss = cross_entropy_apply(g->graph, logits, labels, scale, before(g));
}

/* Labels that are not counted make other losses no mean of anything. */
static bool counts_samples(const snug_graph *g, const char *where) {
    const char *labels = g->network->description.labels;
    if (!labels) return true;
    graph_fail(g->graph,
               "%s: the network names '%s' as its labels, which snug_cross_entropy alone counts; this loss "
               "has none",
               where, labels);
    return false;
}

/* The targets as the predictions are: a last dimension of 1 may be missing in either. 0: they don't fit. */
static tensor_id fit_targets(snug_graph *g, tensor_id x, tensor_id targets, const char *where) {
    shape is = *graph_shape(g->graph, x), t = *graph_shape(g->graph, targets), longer = t, shorter = is;
    char left[SHAPE_TEXT_BYTES], right[SHAPE_TEXT_BYTES];
    if (shape_equal(&is, &t)) return targets;
    if (is.rank > t.rank) longer = is, shorter = t;
    bool one_more = longer.rank == shorter.rank + 1 && shape_last(&longer) == 1;
    longer.rank--;
    if (one_more && shape_equal(&longer, &shorter)) return reshape_apply(g->graph, targets, is);
    return graph_fail(g->graph, "%s: targets %s do not fit predictions %s", where, shape_text(&t, left),
                      shape_text(&is, right));
}

/* The mean over samples and over the elements of each. */
static void element_loss(snug_graph *g, snug_tensor x, snug_tensor targets, element_loss_function f,
                         const char *where) {
    if (!wants_loss(g, where) || !counts_samples(g, where)) return;
    if (!network_has(g, x, where) || !network_has(g, targets, where)) return;
    element_loss_inputs in = { .prediction = x, .target = fit_targets(g, x, targets, where) };
    if (!in.target) return;
    const shape *s = graph_shape(g->graph, x);
    double each = (double)s->dim[0] / (double)shape_elements(s);
    element_loss_attributes a = { (int32_t)f, (float)((double)g->weight * each) };
    in.scale = scale_of(g);
    in.accumulator = before(g);
    g->loss = element_loss_apply(g->graph, &in, &a);
}

void snug_squared_error(snug_graph *g, snug_tensor x, snug_tensor targets) {
    element_loss(g, x, targets, ELEMENT_LOSS_SQUARED, "squared_error");
}

void snug_absolute_error(snug_graph *g, snug_tensor x, snug_tensor targets) {
    element_loss(g, x, targets, ELEMENT_LOSS_ABSOLUTE, "absolute_error");
}

void snug_binary_cross_entropy(snug_graph *g, snug_tensor logits, snug_tensor targets) {
    element_loss(g, logits, targets, ELEMENT_LOSS_BINARY, "binary_cross_entropy");
}

/* The mean over samples and over the rows of each. */
void snug_soft_cross_entropy(snug_graph *g, snug_tensor logits, snug_tensor targets) {
    const char *where = "soft_cross_entropy";
    if (!wants_loss(g, where) || !counts_samples(g, where)) return;
    if (!network_has(g, logits, where) || !network_has(g, targets, where)) return;
    const shape *s = graph_shape(g->graph, logits);
    soft_cross_entropy_inputs in = { .logits = logits, .targets = targets, .scale = scale_of(g) };
    in.accumulator = before(g);
    double each = (double)s->dim[0] / (double)shape_rows(s);
    g->loss = soft_cross_entropy_apply(g->graph, &in, (float)((double)g->weight * each));
}

/* ---- outputs ---- */

void snug_output(snug_graph *g, snug_tensor x) { snug_output_named(g, "output", x); }

/* Can x be an output of this name? Of several samples each has a part of it. */
static bool may_be_output(const snug_graph *g, const char *name, snug_tensor x) {
    const tensor *t = graph_tensor(g->graph, x);
    char is[SHAPE_TEXT_BYTES];
    if (!name || !*name || strlen(name) >= NETWORK_OUTPUT_BYTES)
        graph_fail(g->graph, "an output cannot have the name '%.80s'", name ? name : "");
    else if (g->output_count == SNUG_MAX_OUTPUTS)
        graph_fail(g->graph, "'%s' is one output too many; the most are %d", name, SNUG_MAX_OUTPUTS);
    else if (!t->producer || t->dtype != DTYPE_F32)
        graph_fail(g->graph, "the output of a network is a f32 value that it computes");
    else if (g->mode == MODEL_PREDICT && g->batch > 1 && t->shape.dim[0] != g->batch)
        graph_fail(g->graph, "output '%s' is %s, and its first dimension should count %lld samples", name,
                   shape_text(&t->shape, is), (long long)g->batch);
    for (uint32_t i = 0; i < g->output_count && !g->graph->failed; i++) {
        if (strcmp(g->outputs[i].name, name) == 0)
            graph_fail(g->graph, "a network has one output '%s'; this is a second one", name);
        else if (g->outputs[i].value == x)
            graph_fail(g->graph, "'%s' and '%s' are the same output", g->outputs[i].name, name);
    }
    return !g->graph->failed;
}

void snug_output_named(snug_graph *g, const char *name, snug_tensor x) {
    if (!network_has(g, x, "output") || !may_be_output(g, name, x)) return;
    network_output *o = &g->outputs[g->output_count++];
    snprintf(o->name, sizeof o->name, "%s", name);
    o->value = x;
}

bool snug_predicting(const snug_graph *g) {
    if (!g) return status_set(STATUS_INVALID, "predicting: there is no graph, but NULL") == STATUS_OK;
    return g->mode == MODEL_PREDICT;
}
