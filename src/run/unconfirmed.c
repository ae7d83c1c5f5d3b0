#include "run/unconfirmed.h"

#include <stdio.h>
#include <string.h>

static confirm_kind kind_of(const graph *g, const lower_step *s) {
    const op_def *op = graph_node(g, s->node)->op;
    op_cost cost = lower_cost(g, s);
    if (s->by_host) return CONFIRM_NOTHING;
    if (cost.by_library)
        return work_is_products(cost.kind) ? CONFIRM_LIBRARY_PRODUCTS : CONFIRM_LIBRARY_ATTENTION;
    for (uint32_t i = 0; op->tensor && op->tensor[i].name; i++)
        if (s->kernel == &op->tensor[i]) return op->confirm.tensor[i];
    return s->kernel == op->cuda ? op->confirm.cuda : CONFIRM_NOTHING;
}

uint32_t unconfirmed_of(const plan *p) {
    uint32_t kinds = 0;
    if (p->device->kind == DEVICE_CPU) return 0;
    if (p->beside.captured) kinds |= 1u << CONFIRM_CAPTURE;
    for (uint32_t i = 0; i < p->program_count; i++) {
        const program *one = &p->programs[i].program;
        for (uint32_t k = 0; k < one->count; k++) kinds |= 1u << kind_of(&one->graph, &one->steps[k]);
    }
    for (int kind = 0; kind < CONFIRM_KINDS; kind++)
        if (confirmed_on((confirm_kind)kind, p->device->capability)) kinds &= ~(1u << kind);
    return kinds;
}

const char *unconfirmed_text(uint32_t kinds, uint32_t capability, char said[UNCONFIRMED_BYTES]) {
    said[0] = 0;
    if (!kinds) return said;
    size_t used = (size_t)snprintf(said, UNCONFIRMED_BYTES, "No GPU of capability %u.%u has confirmed ",
                                   capability / 10, capability % 10);
    for (uint32_t left = kinds; left && used < UNCONFIRMED_BYTES; left &= left - 1) {
        const char *before = left == kinds ? "" : left & (left - 1) ? ", " : " and ";
        used += (size_t)snprintf(said + used, UNCONFIRMED_BYTES - used, "%s%s", before,
                                 confirmed_name((confirm_kind)__builtin_ctz(left)));
    }
    if (used < UNCONFIRMED_BYTES)
        snprintf(said + used, UNCONFIRMED_BYTES - used, ": they were tested without one");
    return said;
}

void unconfirmed_put(json_writer *w, uint32_t kinds) {
    json_begin_array(w, "unconfirmed");
    for (uint32_t left = kinds; left; left &= left - 1)
        json_put_string(w, NULL, confirmed_name((confirm_kind)__builtin_ctz(left)));
    json_end_array(w);
}
