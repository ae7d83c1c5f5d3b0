#include "chain/compose_seconds.h"

/* How many of its calls a rank has. Of validation alone ranks have a unit each in turn: then it is the first
 * one, which has the most. What fills no call all run once, be it beside another rank that has the samples or
 * to be rehearsed. */
static double calls_here(const compose_run *r, const program_shape *s) {
    if (r->training || r->ranks < 2 || !r->unit || s->task != TASK_EVALUATE) return (double)s->calls;
    if (s->first) return (double)s->calls; /* what fills no call */
    int64_t each = s->batch < r->unit ? r->unit / s->batch : 1, turn = each * r->ranks,
            rest = s->calls % turn;
    return (double)(s->calls / turn * each + (rest < each ? rest : each));
}

void chain_seconds_add(chain_seconds *s, const compose_run *r, const program *p) {
    double calls = calls_here(r, &p->shape);
    s->all[p->shape.task] += calls * p->seconds;
    s->computing[p->shape.task] += calls * p->computing;
    s->waiting[p->shape.task] += calls * p->waiting;
}

static chain_seconds of_plan(const compose_run *r, const plan *p) {
    chain_seconds seconds = { 0 };
    for (uint32_t k = 0; k < p->program_count; k++) chain_seconds_add(&seconds, r, &p->programs[k].program);
    return seconds;
}

double compose_seconds(const compose_run *r, const plan *p) {
    chain_seconds seconds = of_plan(r, p);
    return chain_seconds_of(seconds.all);
}

double compose_waiting(const compose_run *r, const plan *p) {
    chain_seconds seconds = of_plan(r, p);
    return r->training ? seconds.waiting[TASK_TRAIN] : seconds.waiting[TASK_EVALUATE];
}
