#include "run/coupled.h"

#include "ir/op.h"

static const op_def *find(const graph *g, uint32_t trait) {
    for (node_id id = 1; id < g->nodes.count; id++)
        if (graph_node(g, id)->op->traits & trait) return graph_node(g, id)->op;
    return NULL;
}

/* Whether micro-batches need the pass, and all that it offers on this graph changes what is trained; then
 * `*first` is what it offers first. */
static status asks(const compose_run *r, const compose_choice *c, int i, pass_setting *first, bool *yes) {
    enum { ROOM = 16 };
    pass_setting offered[ROOM];
    pass_without without = PASS_OPTIONAL;
    pass_context context = compose_context(r, c);
    graph g;
    uint32_t count = 0;
    context.training = true;
    status result = compose_graph(r, c, pass_table[i]->stage, &g);
    if (result == STATUS_OK) count = pass_table[i]->settings(&g, &context, offered, ROOM, &without);
    graph_close(&g);
    *yes = result == STATUS_OK && count && without == PASS_NEEDED;
    for (uint32_t k = 0; k < count; k++) *yes = *yes && offered[k].class == PASS_LOSSY;
    if (count) *first = offered[0];
    return result;
}

static status check_cut(const setup *s, const op_def *op) {
    const compose_run *r = &s->request.run;
    const search_request *q = &s->request;
    compose_choice c = { .micro_batch = q->micro_batch };
    char option[PASS_OPTION_BYTES];
    for (int i = 0; pass_table[i]; i++) {
        pass_setting first;
        bool yes;
        if (pass_table[i]->stage != PASS_STEP || q->pins[i].kind == SEARCH_PINNED || q->lossy[i].given)
            continue;
        TRY(asks(r, &c, i, &first, &yes));
        if (yes)
            return status_set(
                STATUS_INVALID,
                "micro-batches of %lld: in %s samples of a batch see each other (%s), so one in pieces "
                "trains otherwise; say --%s %s where that is meant, or leave it out",
                (long long)q->micro_batch, s->model.name, op->name, pass_option(pass_table[i], option),
                first.text);
    }
    return STATUS_OK;
}

/* Of what trains, before there is a plan. */
static status look(const setup *s, const graph *g) {
    const setup_options *o = &s->options;
    const op_def *coupled = find(g, OP_COUPLES_SAMPLES), *wanting = find(g, OP_WANTS_SAMPLES);
    if (coupled && compose_chained(&s->request.run))
        return status_set(STATUS_INVALID,
                          "%d ranks: in %s samples of a batch see each other (%s), which they would do on "
                          "their rank alone; start one process",
                          s->comm.world, s->model.name, coupled->name);
    if (coupled && compose_units(&s->request.run))
        return status_set(STATUS_INVALID,
                          "--unit %lld: in %s samples of a batch see each other (%s), which they would do in "
                          "their unit alone; leave --unit out",
                          (long long)o->unit, s->model.name, coupled->name);
    if (wanting && o->batch == 1)
        return status_set(
            STATUS_INVALID,
            "--batch 1: %s normalises by the mean and variance of its batch (%s), which wants two samples or "
            "more",
            s->model.name, wanting->name);
    return coupled && o->batch > 1 ? check_cut(s, coupled) : STATUS_OK;
}

status coupled_check(const setup *s) {
    const compose_run *r = &s->request.run;
    int64_t micro = s->request.micro_batch ? s->request.micro_batch : r->batch;
    model_ports ports = { 0 };
    graph g;
    bool whole = r->batch > 1 && micro >= r->batch && compose_unit(r) == r->batch;
    if (s->options.eval_only || whole) return STATUS_OK;
    TRY(graph_open(&g));
    r->model->build(r->model, &g, &(model_run){ .mode = MODEL_TRAIN, .batch = micro, .context = r->context },
                    &ports);
    status result = graph_status(&g);
    if (result == STATUS_OK) result = look(s, &g);
    graph_close(&g);
    return result;
}
