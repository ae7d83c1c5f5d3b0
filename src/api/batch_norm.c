/* Batch norm, with the averages that run along while training. */
#include <stdio.h>
#include <string.h>

#include "api/network.h"
#include "ops/batch_norm/batch_norm.h"

/* An average, which is none of the trained numbers. */
static tensor_id average(snug_graph *g, const char *name, const char *what, int64_t channels, float begins) {
    network_parameter p = { .mean = begins };
    shape s = SHAPE(channels);
    snprintf(p.name, sizeof p.name, "%.60s.%s", name, what);
    if (!network_take_down(g, &p, &s, false)) return 0;
    return graph_add_source(
        g->graph,
        &(graph_source){
            .name = p.name, .shape = s, .dtype = DTYPE_F32, .role = ROLE_STATE, .flags = TENSOR_OF_MODEL });
}

static bool may_be_normed(const snug_graph *g, const char *name, tensor_id x, double epsilon,
                          double momentum) {
    enum { LONGEST = 60 }; /* and ".running_mean" behind it */
    if (!network_has(g, x, "batch_norm")) return false;
    if (!name || strlen(name) > LONGEST || !network_names_parameter(name))
        graph_fail(g->graph, "batch_norm: its parameters cannot have the name '%.80s'", name ? name : "");
    else if (graph_shape(g->graph, x)->rank < 2)
        graph_fail(g->graph, "batch_norm: its channels are the last dimension, behind that of the samples");
    else if (!(epsilon > 0 && epsilon < 1))
        graph_fail(g->graph, "the epsilon of a norm is %g; it must be in (0, 1)", epsilon);
    else if (!(momentum > 0 && momentum <= 1))
        graph_fail(g->graph, "batch_norm: the momentum is %g; it must be in (0, 1]", momentum);
    return !g->graph->failed;
}

snug_tensor snug_batch_norm(snug_graph *g, const char *name, snug_tensor x, double epsilon, double momentum) {
    if (!may_be_normed(g, name, x, epsilon, momentum)) return 0;
    char part[2 * NETWORK_NAME_BYTES];
    int64_t channels = shape_last(graph_shape(g->graph, x)), rows = shape_rows(graph_shape(g->graph, x));
    snprintf(part, sizeof part, "%s.weight", name);
    tensor_id gamma = snug_parameter(g, part, SNUG_SHAPE(channels), 1, 0);
    snprintf(part, sizeof part, "%s.bias", name);
    tensor_id beta = snug_parameter(g, part, SNUG_SHAPE(channels), 0, 0);
    tensor_id mean = average(g, name, "running_mean", channels, 0),
              variance = average(g, name, "running_var", channels, 1);
    if (g->graph->failed) return 0;
    if (g->mode != MODEL_TRAIN)
        return batch_norm_fixed_apply(g->graph, (tensor_id[]){ x, gamma, beta, mean, variance },
                                      (float)epsilon);
    tensor_id y = batch_norm_apply(g->graph, x, gamma, beta, (float)epsilon);
    batch_norm_running_attributes a = { rows, (float)epsilon, (float)momentum };
    if (y) graph_add(g->graph, &op_batch_norm_running, (tensor_id[]){ mean, variance, y + 1, y + 2 }, 4, &a);
    return y;
}
