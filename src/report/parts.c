#include "report/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "base/utf8.h"
#include "ir/op.h"
#include "run/unconfirmed.h"

parts_colours parts_colours_of(const report_style *style) {
    if (!style->colour) return (parts_colours){ "", "", "", "", "" };
    return (parts_colours){ "\033[1m", "\033[2m", "\033[32m", "\033[31m", "\033[0m" };
}

const char *parts_phase_name(phase p) {
    static const char *const names[] = { "forward", "backward", "reduce", "update" };
    return names[p];
}

const char *parts_site_text(int32_t site, char buffer[REPORT_NUMBER_BYTES]) {
    if (site >= 0)
        snprintf(buffer, REPORT_NUMBER_BYTES, "block %d", (int)site);
    else
        snprintf(buffer, REPORT_NUMBER_BYTES, "outside of blocks");
    return buffer;
}

const char *report_count(uint64_t n, char buffer[REPORT_NUMBER_BYTES]) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n), at = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) buffer[at++] = ',';
        buffer[at++] = digits[i];
    }
    buffer[at] = 0;
    return buffer;
}

const char *report_rate(double per_second, char buffer[REPORT_NUMBER_BYTES]) {
    if (per_second >= 0 && per_second < 1e18) return report_count((uint64_t)(per_second + 0.5), buffer);
    snprintf(buffer, REPORT_NUMBER_BYTES, "-");
    return buffer;
}

const char *report_duration(double seconds, char buffer[REPORT_NUMBER_BYTES]) {
    if (!(seconds >= 0) || seconds > 1e9) seconds = seconds > 0 ? 1e9 : 0;
    long whole = (long)(seconds + 0.5);
    if (whole >= 86400)
        snprintf(buffer, REPORT_NUMBER_BYTES, "%ld d %ld h", whole / 86400, whole % 86400 / 3600);
    else if (whole >= 3600)
        snprintf(buffer, REPORT_NUMBER_BYTES, "%ld h %02ld min", whole / 3600, whole % 3600 / 60);
    else if (whole >= 60)
        snprintf(buffer, REPORT_NUMBER_BYTES, "%ld min %02ld s", whole / 60, whole % 60);
    else
        snprintf(buffer, REPORT_NUMBER_BYTES, "%ld s", whole);
    return buffer;
}

const char *report_name(const char *name, char buffer[REPORT_NAME_BYTES]) {
    enum { HALF = (REPORT_NAME_BYTES - 4) / 2 };
    size_t length = strlen(name);
    if (length < REPORT_NAME_BYTES)
        memcpy(buffer, name, length + 1);
    else
        snprintf(buffer, REPORT_NAME_BYTES, "%.*s...%s", HALF, name, name + length - HALF);
    utf8_clean(buffer);
    return buffer;
}

bool report_fits(const decision *d) { return d->point.peak_bytes <= d->budget; }

/* ---- parameters ---- */

static bool is_weight(const tensor *x) { return !x->producer && x->role == ROLE_PARAMETER; }

static uint64_t count_numbers(const graph *g, uint16_t flags) {
    uint64_t n = 0;
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        if (is_weight(x) && (x->flags & flags) == flags) n += (uint64_t)shape_elements(&x->shape);
    }
    return n;
}

static bool has_adapters(const decision *d) {
    for (int i = 0; pass_table[i]; i++)
        if (pass_table[i]->adapting && d->point.choice.settings[i].text[0]) return true;
    return false;
}

/* In a program that trains; any of them has all that is trained. */
static uint64_t count_trained(const plan *p) {
    if (!plan_calls(p, TASK_TRAIN)) return 0;
    uint32_t any = plan_call_of(p, TASK_TRAIN, 0).program;
    return count_numbers(&p->programs[any].program.graph, TENSOR_TRAINABLE);
}

parts_parameters parts_parameters_of(const setup *s, const decision *d) {
    parts_parameters n = { 0 };
    graph g;
    model_ports ports;
    if (graph_open(&g) != STATUS_OK) return n;
    model_run run = { .mode = s->request.run.training ? MODEL_TRAIN : MODEL_EVALUATE,
                      .batch = 1,
                      .context = s->request.run.context };
    s->model.build(&s->model, &g, &run, &ports);
    if (graph_status(&g) == STATUS_OK) n.all = count_numbers(&g, 0);
    if (s->request.run.training && n.all) n.trained = count_numbers(&g, TENSOR_TRAINABLE);
    if (has_adapters(d)) n.trained = count_trained(&d->plan);
    graph_close(&g);
    return n;
}

/* ---- measured ---- */

parts_measured parts_measured_of(const decision *d, const train_result *r) {
    uint64_t on_device = r->memory.pools[POOL_MEMORY] + device_parts_sum(&r->memory.beside);
    parts_measured m = { .peak_bytes = d->plan.device->apart ? on_device : r->resident_peak_bytes,
                         .live_bytes = r->memory.arena_live_bytes,
                         .pool_bytes = plan_pool_bytes(&d->plan) };
    memcpy(m.by_category, r->memory.by_category, sizeof m.by_category);
    memcpy(m.pools, r->memory.pools, sizeof m.pools);
    m.beside = r->memory.beside, m.moved_bytes = r->memory.moved_bytes;
    uint64_t sum = 0;
    for (int c = 0; c < CATEGORY_COUNT; c++)
        if (c != CATEGORY_RUNTIME) sum += m.by_category[c];
    m.arena_bytes = m.live_bytes + m.by_category[CATEGORY_GAPS];
    m.persistent_bytes = sum > m.arena_bytes ? sum - m.arena_bytes : 0;
    /* Beside the pool: what the process took at its highest, which may have been before the pool existed. */
    m.by_category[CATEGORY_RUNTIME] = m.peak_bytes > sum ? m.peak_bytes - sum : 0;
    return m;
}

/* ---- who is alive at the peak ---- */

static bool alike(const parts_holder *a, const parts_holder *b) {
    if (a->category != b->category || a->persistent != b->persistent) return false;
    if (a->persistent) return true;
    bool same_maker = a->from && b->from ? strcmp(a->from, b->from) == 0 : a->from == b->from;
    return same_maker && a->dtype == b->dtype && shape_equal(&a->shape, &b->shape);
}

static void gather(parts_holder *list, uint32_t *count, const parts_holder *one) {
    for (uint32_t i = 0; i < *count; i++) {
        parts_holder *x = &list[i];
        if (!alike(x, one)) continue;
        x->count++;
        x->bytes += one->bytes;
        if (one->largest <= x->largest) return;
        x->largest = one->largest;
        x->shape = one->shape;
        x->dtype = one->dtype;
        memcpy(x->name, one->name, sizeof x->name);
        return;
    }
    list[(*count)++] = *one;
}

static void gather_storage(parts_holder *list, uint32_t *count, const program *p, const live_storage *x) {
    const graph *g = &p->graph;
    parts_holder h = { .count = 1, .bytes = x->bytes, .largest = x->bytes, .category = x->category };
    if (x->owner) {
        const tensor *t = graph_tensor(g, x->owner);
        h.shape = t->shape, h.dtype = t->dtype;
        if (t->producer) h.from = graph_node(g, t->producer)->op->name;
        snprintf(h.name, sizeof h.name, "%s", graph_name(g, x->owner));
    } else {
        h.from = graph_node(g, p->steps[x->first].node)->op->name;
    }
    gather(list, count, &h);
}

static int compare_holders(const void *a, const void *b) {
    const parts_holder *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return (x->category > y->category) - (x->category < y->category);
}

status parts_holders(const plan *p, parts_holder *out, uint32_t room, uint32_t *found, uint64_t *rest) {
    const plan_program *pp = p->program_count ? &p->programs[p->peak_program] : NULL;
    uint32_t most = p->persistent_count + (pp ? pp->live.count : 0), count = 0;
    parts_holder *list = memory_new(most ? most : 1, sizeof *list);
    if (rest) *rest = 0;
    if (!list) return status_set(STATUS_FAILED, "no memory for a report");
    for (uint32_t i = 0; i < p->persistent_count; i++) {
        const plan_persistent *x = &p->persistent[i];
        if (x->pool == POOL_FILE) continue;
        parts_holder h = { .count = 1,
                           .bytes = x->bytes,
                           .largest = x->bytes,
                           .category = x->category,
                           .persistent = true,
                           .shape = x->shape,
                           .dtype = x->dtype };
        memcpy(h.name, x->name, sizeof h.name);
        gather(list, &count, &h);
    }
    for (uint32_t i = 0; pp && i < pp->live.count; i++) {
        const live_storage *x = &pp->live.storages[i];
        if (x->first <= pp->peak.step && pp->peak.step <= x->last)
            gather_storage(list, &count, &pp->program, x);
    }
    qsort(list, count, sizeof *list, compare_holders);
    for (uint32_t i = 0; i < count; i++) {
        if (i < room)
            out[i] = list[i];
        else if (rest)
            *rest += list[i].bytes;
    }
    memory_free(list);
    *found = count;
    return STATUS_OK;
}

void parts_alive(const plan_program *pp, uint64_t *alive) {
    for (uint32_t s = 0; s < pp->program.count; s++) alive[s] = 0;
    for (uint32_t i = 0; i < pp->live.count; i++) {
        const live_storage *x = &pp->live.storages[i];
        alive[x->first] += x->bytes;
        if (x->last + 1 < pp->program.count) alive[x->last + 1] -= x->bytes; /* wraps, and back in the sum */
    }
    for (uint32_t s = 1; s < pp->program.count; s++) alive[s] += alive[s - 1];
}

/* ---- what is to be said ---- */

const char *parts_remark(const decision *d, int i) {
    const pass_setting *chosen = &d->point.choice.settings[i];
    bool speaks = chosen->text[0] && pass_table[i]->remark && d->plan.program_count;
    return speaks ? pass_table[i]->remark(chosen, &d->plan.programs[0].program.graph) : NULL;
}

/* What is said may begin with the option as well. */
const char *parts_declined(const search_decline *x, char said[PARTS_SAID_BYTES]) {
    char option[PASS_OPTION_BYTES], few[UNITS_TEXT_BYTES];
    size_t length = strlen(pass_option(pass_table[x->pass], option));
    bool named = strncmp(x->said, "--", 2) == 0 && strncmp(x->said + 2, option, length) == 0 &&
                 strncmp(x->said + 2 + length, ": ", 2) == 0;
    const char *why = named ? x->said + length + 4 : x->said;
    int used = snprintf(said, PARTS_SAID_BYTES, "--%s was allowed and declined: ", option);
    char *to = said + used;
    size_t room = PARTS_SAID_BYTES - (size_t)used;
    if (x->why == SEARCH_NOT_FASTER)
        snprintf(to, room, "it is not faster, %s with it", units_seconds_text(x->seconds, few));
    else if (x->why == SEARCH_TOO_LARGE)
        snprintf(to, room, "with its workspaces the peak is %s, above the budget",
                 units_bytes_text(x->peak_bytes, few));
    else
        snprintf(to, room, "%s", why[0] ? why : search_why_name(x->why));
    return said;
}

const char *parts_unconfirmed(const decision *d, char said[PARTS_SAID_BYTES]) {
    return unconfirmed_text(unconfirmed_of(&d->plan), d->plan.device->capability, said);
}
