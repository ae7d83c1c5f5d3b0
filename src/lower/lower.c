#include "lower/lower.h"

#include "base/memory.h"
#include "ir/verify.h"
#include "lower/predict.h"

static op_arg argument(const graph *g, tensor_id t) {
    if (!t) return (op_arg){ 0 };
    const tensor *x = graph_tensor(g, t);
    return (op_arg){ .shape = x->shape, .dtype = x->dtype };
}

void lower_call(const graph *g, const node *n, op_arg *args, op_call *call) {
    for (uint32_t i = 0; i < n->in_count; i++) args[i] = argument(g, node_in(g, n, i));
    for (uint32_t i = 0; i < n->out_count; i++) args[n->in_count + i] = argument(g, node_out(g, n, i));
    *call = (op_call){ .in = args,
                       .out = args + n->in_count,
                       .in_count = n->in_count,
                       .out_count = n->out_count,
                       .attributes = node_attributes(g, n) };
}

static const op_kernel *pick(const op_call *call, const op_def *op, bool reference) {
    const op_kernel *k = op->cpu;
    if (reference) {
        while (k[0].name && k[1].name) k++;
        return k;
    }
    while (k->name && k->accepts && !k->accepts(call)) k++;
    return k;
}

static status lower_node(const lower_options *o, const graph *g, node_id id, lower_step *step) {
    enum { FEW = 64 };
    const node *n = graph_node(g, id);
    uint32_t sides = (uint32_t)n->in_count + n->out_count;
    op_arg few[FEW], *args = sides <= FEW ? few : memory_new(sides, sizeof *args);
    if (!args) return status_set(STATUS_FAILED, "no memory to lower a graph");
    op_call call;
    lower_call(g, n, args, &call);
    const op_kernel *k = pick(&call, n->op, o->reference);
    status result = STATUS_OK;
    if (!k->name) {
        result = status_set(STATUS_INVALID, "no kernel of %s takes these inputs", n->op->name);
    } else {
        *step = (lower_step){ .node = id,
                              .kernel = k,
                              .scratch_bytes = k->scratch ? k->scratch(&call, o->threads) : 0 };
    }
    if (args != few) memory_free(args);
    return result;
}

status lower_program(graph *g, const lower_options *o, program *p) {
    *p = (program){ .graph = *g };
    *g = (graph){ 0 };
    status result = verify_graph(&p->graph);
    if (result != STATUS_OK) goto failed;
    p->steps = memory_new(p->graph.nodes.count, sizeof *p->steps);
    if (!p->steps) {
        result = status_set(STATUS_FAILED, "no memory to lower a graph");
        goto failed;
    }
    for (node_id id = 1; id < p->graph.nodes.count; id++) {
        if (graph_node(&p->graph, id)->op->traits & (OP_VIEW | OP_GATHER)) continue;
        TRY_OR(failed, lower_node(o, &p->graph, id, &p->steps[p->count]));
        p->count++;
    }
    TRY_OR(failed, predict_program(p, &o->rates));
    return STATUS_OK;
failed:
    lower_close(p);
    return result;
}

void lower_close(program *p) {
    memory_free(p->steps);
    graph_close(&p->graph);
    *p = (program){ 0 };
}
