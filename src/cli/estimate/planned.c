/* The plan of a recorded step for a budget (--memory, or the device's): in words, for programs, and as what
 * applies it in PyTorch. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/estimate/estimate.h"
#include "estimate/emit/emit_recorded.h"
#include "estimate/hardware_files.h"
#include "io/json.h"

enum { FRONT_LINES = 16 };
static const char *const usual_device = "a100-80"; /* whose rates count where none is named */

typedef struct {
    estimate_question *e;
    hardware rates; /* of the named device, else of the usual one */
    recorded_plan plan;
    uint64_t budget; /* of `measure` */
    uint64_t beside; /* of it, what is not the allocator's; more than the budget: nothing fits */
    const char *measure;
    const plan_way *way; /* the plan; NULL: nothing fits */
    bool chooses_types;  /* --allow lets it; else all ways have those of the settings */
} planned;

bool estimate_is_planned(const estimate_question *e) {
    bool asked = e->o->run.memory || e->o->run.memory_auto || e->o->run.away_limit;
    return e->subject.recorded && (asked || e->o->estimate.emit == EMIT_TORCH);
}

/* Nothing says how long a host takes that updates, nor does a policy have words for these. */
static status check_settings(const estimate_question *e) {
    const torch_settings *s = &e->settings.torch;
    const char *said = s->host_keeps    ? "--host-keeps"
                       : s->in_backward ? "--optimizer-in-backward"
                       : s->averages    ? "--average"
                                        : NULL;
    if (said)
        return status_set(
            STATUS_INVALID,
            "a plan has no %s: record the step so and plan it, or leave --memory and --emit out", said);
    return e->o->estimate.emit == EMIT_TORCH ? emit_recorded_check(s) : STATUS_OK;
}

static status check(const estimate_question *e) {
    const options *o = e->o;
    if (o->run.memory_auto)
        return status_set(STATUS_INVALID,
                          "--memory auto is of this machine, and the step runs elsewhere; say a "
                          "size, or --gpu NAME alone");
    if (!o->run.memory && !e->hardware.memory)
        return status_set(STATUS_INVALID,
                          "nothing says how much memory the plan may take; say --memory SIZE or --gpu NAME");
    if (e->settings.torch.checkpointing)
        return status_set(STATUS_INVALID, "a plan chooses which modules are computed again; leave "
                                          "--gradient-checkpointing out");
    TRY(check_settings(e));
    if (o->html) return status_set(STATUS_INVALID, "--html has no page of such a plan; leave it out");
    if (o->estimate.emit && o->estimate.emit != EMIT_TORCH)
        return status_set(STATUS_INVALID, "a plan of a recorded step is for PyTorch; say --emit torch");
    return STATUS_OK;
}

/* --allow: "dtype", "dtype=half" or "all", with commas. */
static status allow(const char *list, unsigned *types) {
    static const struct {
        const char *name;
        unsigned types;
    } known[] = { { "all", 1u << TORCH_AUTOCAST | 1u << TORCH_HALF },
                  { "dtype", 1u << TORCH_AUTOCAST | 1u << TORCH_HALF },
                  { "dtype=autocast", 1u << TORCH_AUTOCAST },
                  { "dtype=half", 1u << TORCH_HALF } };
    for (const char *at = list; at && *at; at += strspn(at, ", ")) {
        size_t length = strcspn(at, ", "), k = 0, count = sizeof known / sizeof *known;
        while (k < count && (strlen(known[k].name) != length || strncmp(known[k].name, at, length) != 0)) k++;
        if (length && k == count)
            return status_set(STATUS_INVALID,
                              "--allow: '%.*s' is nothing that a plan of a recorded step chooses; there are "
                              "dtype, dtype=autocast, dtype=half and all",
                              length < 60 ? (int)length : 60, at);
        if (length) *types |= known[k].types;
        at += length;
    }
    return STATUS_OK;
}

/* Live bytes on a CPU; what the allocator reserves, where no device is named; else all that the process takes
 * of the device. */
static status find_budget(planned *p) {
    estimate_question *e = p->e;
    uint64_t asked = e->o->run.memory ? e->o->run.memory : UINT64_MAX;
    p->measure = !e->settings.torch.cuda ? "live bytes"
                 : !e->hardware.memory   ? "what PyTorch's allocator reserves"
                                         : "the whole device";
    p->budget = asked;
    if (!e->hardware.memory) return STATUS_OK;
    TRY(e->framework->estimate(&e->subject, &e->settings, &e->result));
    const interval *all = &e->result.layers[FRAMEWORK_DEVICE], *own = &e->result.layers[FRAMEWORK_RESERVED];
    bool strict = e->o->estimate.strict;
    p->beside = strict ? all->high - own->high : all->likely - own->likely;
    if (e->hardware.memory < asked) p->budget = e->hardware.memory;
    return STATUS_OK;
}

static status find(planned *p) {
    estimate_question *e = p->e;
    const setup_options *run = &e->o->run;
    TRY(check(e));
    TRY(find_budget(p));
    p->rates = e->hardware;
    if (!e->hardware.memory) TRY(hardware_find(usual_device, &p->rates));
    plan_request q = { .recording = &e->recorded,
                       .settings = e->settings.torch,
                       .micro_is_pinned = run->micro_batch > 0 || run->accumulate > 0,
                       .loss_is_pinned = e->o->estimate.loss_chunks > 0,
                       .surely = e->o->estimate.strict,
                       .most_away = run->away_limit,
                       .hardware = &p->rates };
    q.settings.workspace = e->hardware.workspace;
    TRY(allow(run->allow, &q.types));
    p->chooses_types = q.types != 0;
    TRY(recorded_plan_find(&q, &p->plan));
    if (p->budget > p->beside) p->way = recorded_plan_within(&p->plan, p->budget - p->beside);
    return STATUS_OK;
}

/* ---- words ---- */

static const char *bytes_of(const planned *p, const plan_way *w, char out[UNITS_TEXT_BYTES]) {
    return units_bytes_text(w->bytes + p->beside, out);
}

/* As --dtype has it. */
static const char *word_of(torch_types types) {
    return types == TORCH_HALF ? "half" : types == TORCH_AUTOCAST ? "autocast" : "float32";
}

/* Modules whose results of some operations stay in lines of their own. */
static status add_again(text *t, const recording *r, const plan_way *w) {
    emit_recorded_groups g;
    uint32_t listed = 0;
    text_add(t, "  computed again  %s", w->again ? "" : "nothing\n");
    status result = emit_recorded_groups_find(r, w, &g);
    for (uint32_t i = 0; result == STATUS_OK && i < g.count; i++) {
        if (!i && w->again == w->keeping) continue;
        if (listed++) text_add(t, "%18s", "");
        result = emit_recorded_names(r, g.marks, (uint8_t)(i + 1), t);
        if (i) {
            text_add(t, ", but for ");
            emit_recorded_kinds(r, g.kinds[i], t);
        }
        text_add(t, "\n");
    }
    emit_recorded_groups_close(&g);
    return result;
}

static status add_away(text *t, const recording *r, const plan_way *w) {
    char bytes[UNITS_TEXT_BYTES];
    text_add(t, "  with the host   ");
    if (!w->away) {
        text_add(t, "nothing\n");
        return STATUS_OK;
    }
    text_add(t, "%s, saved by ", units_bytes_text(w->host_bytes, bytes));
    TRY(emit_recorded_names(r, w->action, PLAN_AWAY, t));
    text_add(t, "\n");
    return STATUS_OK;
}

/* Losses are the same but for rounding. */
static void add_pieces(text *t, const plan_way *w) {
    if (!w->pieces) return;
    text_add(t,
             "  head and loss   in %lld pieces of rows, each computed again; added up in another order%s\n",
             (long long)w->pieces, w->types == TORCH_F32 ? "" : ", the head's gradients in 16 bits");
}

static bool has_pieces(const recorded_plan *f) {
    bool has = false;
    for (uint32_t i = 0; i < f->count; i++) has |= f->ways[i].pieces > 0;
    return has;
}

static void add_line(text *t, const planned *p, const plan_way *w) {
    char bytes[UNITS_TEXT_BYTES], seconds[UNITS_TEXT_BYTES], host[UNITS_TEXT_BYTES];
    uint64_t largest = p->plan.ways[p->plan.count - 1].bytes + p->beside;
    text_add(t, "  %12s %12s %8lld %8u %12s", units_column_text(w->bytes + p->beside, largest, bytes),
             units_seconds_text(w->seconds, seconds), (long long)w->batch, w->again,
             units_bytes_text(w->host_bytes, host));
    if (has_pieces(&p->plan)) text_add(t, " %8lld", (long long)(w->pieces ? w->pieces : 1));
    if (p->chooses_types) text_add(t, " %9s", word_of(w->types));
    text_add(t, "%s\n", w == p->way ? "  this plan" : "");
}

/* Some of the front at equal distances, and this plan among them. */
static void add_front(text *t, const planned *p) {
    const recorded_plan *f = &p->plan;
    uint32_t lines = f->count < FRONT_LINES ? f->count : FRONT_LINES;
    const plan_way *before = NULL;
    text_add(t, "\nOther budgets, of %u\n  %12s %12s %8s %8s %12s", f->count, "memory", "a step", "at once",
             "again", "host");
    if (has_pieces(f)) text_add(t, " %8s", "pieces");
    if (p->chooses_types) text_add(t, " %9s", "numbers");
    text_add(t, "\n");
    for (uint32_t i = 0; i < lines; i++) {
        const plan_way *w = &f->ways[lines > 1 ? (uint64_t)i * (f->count - 1) / (lines - 1) : 0];
        if (p->way && before && before < p->way && p->way < w) add_line(t, p, p->way);
        add_line(t, p, w);
        before = w;
    }
}

static void add_head(text *t, const planned *p) {
    estimate_question *e = p->e;
    char name[REPORT_NAME_BYTES];
    framework_result r = { .parameters = p->plan.parameters, .trained = p->plan.trained };
    torch_settings *s = &e->settings.torch;
    int64_t micro = s->batch;
    s->batch = s->step;
    text_add(t, "%s in %s: ", report_name(e->model.name, name), e->framework->title);
    e->framework->describe(&e->subject, &e->settings, &r, t);
    s->batch = micro;
    if (e->notes.length) text_add(t, "%s", e->notes.data);
    text_add(t,
             "seconds are those of each call's operations and bytes at the full rates of %s%s; a real step "
             "takes longer\n",
             p->rates.title, e->hardware.memory ? "" : ", since no device is named");
    if (torch_is_shared(s) && s->shard >= TORCH_ZERO2)
        text_add(t, "what devices send one another has no seconds here, so plans of few micro-batches, which "
                    "send less, are better than they are said to be\n");
    if (p->plan.keeps_batch)
        text_add(t, "the batch is computed at once: batch norm looks at all of it, so parts would train "
                    "something else\n");
    if (!p->plan.knows_modules)
        text_add(t,
                 "the file does not say how often modules run, so none is computed again; record it anew\n");
}

static status say(text *t, const planned *p) {
    char bytes[UNITS_TEXT_BYTES], has[UNITS_TEXT_BYTES], seconds[UNITS_TEXT_BYTES];
    const plan_way *w = p->way;
    add_head(t, p);
    if (!w) {
        add_front(t, p);
        return STATUS_OK;
    }
    text_add(t, "\nWithin %s of %s\n", units_bytes_text(p->budget, has), p->measure);
    if (w->types != p->e->settings.torch.types)
        text_add(t, "  numbers         %s, which was allowed\n", word_of(w->types));
    text_add(t, "  samples at once %lld, %lld times a step\n", (long long)w->batch, (long long)w->accumulate);
    TRY(add_again(t, &p->e->recorded, w));
    TRY(add_away(t, &p->e->recorded, w));
    add_pieces(t, w);
    text_add(t, "  it takes        %s, the most in %s", bytes_of(p, w, bytes), w->peak_in);
    if (p->plan.plain.bytes) text_add(t, "; as asked %s", bytes_of(p, &p->plan.plain, has));
    text_add(t, "\n  a step takes    %s", units_seconds_text(w->seconds, seconds));
    if (p->plan.plain.bytes) text_add(t, "; as asked %s", units_seconds_text(p->plan.plain.seconds, seconds));
    text_add(t, "\n");
    if (w->link_bytes > 0)
        text_add(t, "  from others     %s to each device in a step, whose seconds are not counted\n",
                 units_bytes_text((uint64_t)w->link_bytes, bytes));
    add_front(t, p);
    return STATUS_OK;
}

/* ---- for programs ---- */

static void put_interval(json_writer *w, const char *key, const interval *b) {
    json_begin_object(w, key);
    json_put_unsigned(w, "low", b->low);
    json_put_unsigned(w, "likely", b->likely);
    json_put_unsigned(w, "high", b->high);
    json_end_object(w);
}

static void put_names(json_writer *j, const planned *p, const plan_way *w, plan_action action) {
    json_begin_array(j, action == PLAN_AGAIN ? "again" : "away");
    for (uint32_t m = 0; m < p->e->recorded.modules.count; m++)
        if (w->action[m] == action) json_put_string(j, NULL, p->e->recorded.modules.of[m]);
    json_end_array(j);
}

/* Of each set of operations whose results stay the modules. */
static status put_keeping(json_writer *j, const planned *p, const plan_way *w) {
    const recording *r = &p->e->recorded;
    recorded_kinds known;
    emit_recorded_groups g;
    status result = emit_recorded_groups_find(r, w, &g);
    recorded_kinds_find(r, &known);
    json_begin_array(j, "keeping");
    for (uint32_t i = 1; result == STATUS_OK && i < g.count; i++) {
        json_begin_object(j, NULL);
        json_begin_array(j, "operations");
        for (uint32_t k = 0; k < known.count; k++)
            if (g.kinds[i] & recorded_kind_bit(k + 1)) json_put_string(j, NULL, known.name[k]);
        json_end_array(j);
        json_begin_array(j, "modules");
        for (uint32_t m = 0; m < r->modules.count; m++)
            if (g.marks[m] == i + 1) json_put_string(j, NULL, r->modules.of[m]);
        json_end_array(j);
        json_end_object(j);
    }
    json_end_array(j);
    emit_recorded_groups_close(&g);
    return result;
}

static void put_numbers(json_writer *j, const planned *p, const plan_way *w) {
    json_put_unsigned(j, "bytes", w->bytes + p->beside);
    json_put_number(j, "step_seconds", w->seconds);
    json_put_integer(j, "micro_batch", w->batch);
    json_put_integer(j, "accumulate", w->accumulate);
    json_put_integer(j, "loss_chunks", w->pieces ? w->pieces : 1);
    json_put_unsigned(j, "host_bytes", w->host_bytes);
    json_put_unsigned(j, "link_bytes", (uint64_t)w->link_bytes);
    json_put_string(j, "dtype", word_of(w->types));
}

static status put_way(json_writer *j, const char *key, const planned *p, const plan_way *w) {
    json_begin_object(j, key);
    put_numbers(j, p, w);
    put_interval(j, "live_bytes", &w->live);
    put_interval(j, "reserved_bytes", &w->reserved);
    json_put_string(j, "peak_in", w->peak_in);
    json_begin_object(j, "by_term");
    for (int k = 0; k < TAPE_TERMS; k++)
        if (w->by_term[k]) json_put_unsigned(j, tape_term_name((tape_term)k), w->by_term[k]);
    json_end_object(j);
    put_names(j, p, w, PLAN_AGAIN);
    put_names(j, p, w, PLAN_AWAY);
    TRY(put_keeping(j, p, w));
    json_end_object(j);
    return STATUS_OK;
}

static status put_json(text *t, const planned *p) {
    const recorded_plan *f = &p->plan;
    json_writer j = { .out = t, .lines = true };
    json_begin_object(&j, NULL);
    json_put_string(&j, "model", p->e->model.name);
    json_put_string(&j, "framework", p->e->framework->name);
    json_put_unsigned(&j, "parameters", f->parameters);
    json_put_unsigned(&j, "trained", f->trained);
    json_put_bool(&j, "fits", p->way != NULL);
    json_put_unsigned(&j, "budget_bytes", p->budget);
    json_put_unsigned(&j, "least_budget_bytes", f->ways[0].bytes + p->beside);
    json_put_string(&j, "budget_of", p->measure);
    json_put_string(&j, "rates", p->rates.name);
    TRY(put_way(&j, "plan", p, p->way ? p->way : &f->ways[0]));
    json_begin_array(&j, "front");
    for (uint32_t i = 0; i < f->count; i++) {
        json_begin_object(&j, NULL);
        put_numbers(&j, p, &f->ways[i]);
        json_put_unsigned(&j, "again", f->ways[i].again);
        json_put_unsigned(&j, "away", f->ways[i].away);
        json_put_unsigned(&j, "keeping", f->ways[i].keeping);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_end_object(&j);
    text_add(t, "\n");
    return STATUS_OK;
}

/* ---- the answer ---- */

/* The least budget that works, and what is the most of it. */
static status refuse(const planned *p) {
    const plan_way *least = &p->plan.ways[0];
    char needs[UNITS_TEXT_BYTES], has[UNITS_TEXT_BYTES], most[UNITS_TEXT_BYTES], numbers[32] = "",
                                                                                 pieces[48] = "";
    int term = 0;
    for (int k = 1; k < TAPE_TERMS; k++)
        if (least->by_term[k] > least->by_term[term]) term = k;
    bool other = p->beside > least->by_term[term];
    if (p->chooses_types) snprintf(numbers, sizeof numbers, "--dtype %s, ", word_of(least->types));
    if (least->pieces)
        snprintf(pieces, sizeof pieces, ", head and loss in %lld pieces", (long long)least->pieces);
    return status_set(
        STATUS_NO_FIT,
        "%s does not fit %s: the least that is known to work is %s (%llu bytes), with %s%lld at "
        "once%s, %u modules computed again and %u with the host; the most of it are %s, %s",
        p->e->model.name, units_bytes_text(p->budget, has), bytes_of(p, least, needs),
        (unsigned long long)(least->bytes + p->beside), numbers, (long long)least->batch, pieces,
        least->again, least->away, other ? "the driver and libraries" : tape_term_name((tape_term)term),
        units_bytes_text(other ? p->beside : least->by_term[term], most));
}

static status emit(const planned *p, text *t) {
    char line[160], bytes[UNITS_TEXT_BYTES], has[UNITS_TEXT_BYTES];
    snprintf(line, sizeof line, "takes %s (%llu bytes) of %s, and has %s", bytes_of(p, p->way, bytes),
             (unsigned long long)(p->way->bytes + p->beside), p->measure, units_bytes_text(p->budget, has));
    torch_settings with = p->e->settings.torch;
    with.types = p->way->types, with.loss_chunks = p->way->pieces;
    return emit_recorded(&(emit_recorded_of){ &p->e->recorded, &with, p->way, line }, t);
}

static status answer(planned *p, cli_streams *streams) {
    text t = { 0 };
    status result = find(p);
    if (result == STATUS_OK && streams->people.file) result = say(&t, p);
    output_text(&streams->people, &t);
    if (result != STATUS_OK) return result;
    if (p->e->o->json) result = put_json(&t, p);
    if (result == STATUS_OK && p->way && p->e->o->estimate.emit) result = emit(p, &t);
    output_text(&streams->result, &t);
    return result == STATUS_OK && !p->way ? refuse(p) : result;
}

status estimate_plan(estimate_question *e, cli_streams *streams) {
    planned p = { .e = e };
    status result = answer(&p, streams);
    recorded_plan_close(&p.plan);
    return result;
}
