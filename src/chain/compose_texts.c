/* Plans of continuing texts: forward alone, with whatever forward passes offer without a cost. */
#include "base/memory.h"
#include "chain/compose.h"
#include "chain/compose_graphs.h"
#include "schedule/schedule.h"

static status choose(const compose_choice *pinned, const graph *g, const pass_context *context,
                     compose_choice *c) {
    status result = STATUS_OK;
    uint64_t refused = memory_refused();
    for (int i = 0; pass_table[i] && result == STATUS_OK; i++) {
        pass_without without = PASS_OPTIONAL;
        if (pass_table[i]->stage != PASS_FORWARD) continue;
        if (pinned && pinned->settings[i].text[0]) {
            c->settings[i] = pinned->settings[i];
            if (pass_table[i]->check) result = pass_table[i]->check(g, &c->settings[i], context);
        } else {
            pass_table[i]->settings(g, context, &c->settings[i], 1, &without);
        }
    }
    if (memory_refused() != refused)
        return status_set(STATUS_FAILED, "there is no memory to plan for a token");
    return result;
}

/* The graph of `of`, rewritten, as the kernels of p. */
static status make_program(const compose_run *r, const compose_choice *pinned, const model_run *of,
                           program *p) {
    compose_choice c = { .micro_batch = of->batch };
    graph g;
    model_ports ports = { 0 };
    TRY(graph_open(&g));
    r->model->build(r->model, &g, of, &ports);
    status result = graph_status(&g);
    if (result == STATUS_OK && ports.logits) graph_keep(&g, ports.logits, "logits");
    if (result == STATUS_OK && ports.hidden) graph_keep(&g, ports.hidden, "hidden");
    pass_context context = compose_context(r, &c);
    context.training = false, context.adapters = r->adapters;
    if (result == STATUS_OK) result = choose(pinned, &g, &context, &c);
    if (result == STATUS_OK) result = compose_forward(&c, &context, &g);
    if (result != STATUS_OK) {
        graph_close(&g);
        return result;
    }
    TRY(lower_program(&g, &r->lower, p));
    result = schedule_program(p);
    if (result != STATUS_OK) lower_close(p);
    return result;
}

/* The last of those that were made could not be. */
static status give_up(program *programs, uint32_t made, status result) {
    for (uint32_t k = 0; k + 1 < made; k++) lower_close(&programs[k]);
    return result;
}

static status plan_programs(const compose_run *r, program *programs, uint32_t count, plan *p) {
    plan_options o = compose_plan_options(r);
    TRY(plan_make(programs, count, &o, p));
    plan_reserve(p, r->kept_bytes);
    return STATUS_OK;
}

status compose_predict(const compose_run *r, const compose_choice *pinned, plan *p) {
    program made = { .shape = { "predict", TASK_DECODE, r->batch, 0, 1, 0 } };
    TRY(make_program(r, pinned, &(model_run){ .mode = MODEL_PREDICT, .batch = r->batch, .context = 1 },
                     &made));
    return plan_programs(r, &made, 1, p);
}

static status make_rows(const compose_run *r, const compose_choice *pinned, const paged_sizes *sizes,
                        model_mode mode, int64_t rows, program *p) {
    paged_sizes own = *sizes;
    if (own.wanted > rows) own.wanted = rows;
    model_run of = { .mode = mode, .batch = 1, .context = rows, .paged = &own };
    p->shape = (program_shape){ mode == MODEL_ROWS ? "rows" : "sources", TASK_DECODE, rows, 0, 1, 0 };
    return make_program(r, pinned, &of, p);
}

status compose_rows(const compose_run *r, const compose_choice *pinned, const paged_sizes *sizes,
                    const compose_steps *steps, const compose_steps *sources, plan *p) {
    program programs[2 * COMPOSE_MOST_ROWS] = { 0 };
    uint32_t made = 0, count = steps->count + sources->count;
    status result = STATUS_OK;
    for (; made < count && result == STATUS_OK; made++) {
        bool reads = made >= steps->count;
        int64_t rows = reads ? sources->rows[made - steps->count] : steps->rows[made];
        result = make_rows(r, pinned, sizes, reads ? MODEL_SOURCES : MODEL_ROWS, rows, &programs[made]);
    }
    return result == STATUS_OK ? plan_programs(r, programs, count, p) : give_up(programs, made, result);
}
