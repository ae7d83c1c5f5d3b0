#include "cli/estimate/ask.h"

#include <stdio.h>
#include <string.h>

#include "cli/gpu.h"

/* ---- snug ---- */

/* `beside`: what a process takes of the device that the plan does not count. */
static status search(const setup *s, uint64_t limit, int64_t beside, bool whole, ask_answer *a) {
    search_front front;
    TRY(search_within(&s->request, whole ? UINT64_MAX : limit, &(search_wish){ 0 }, &front));
    a->fits = front.count && search_least(&front) <= limit;
    uint64_t least = front.count ? (uint64_t)((int64_t)search_least(&front) + beside) : 0;
    if (front.count) a->bytes = (interval){ least, least, least };
    search_close(&front);
    return STATUS_OK;
}

static status ask_snug(const estimate_question *e, const char *named, bool whole, ask_answer *a) {
    options o = *e->o;
    device_elsewhere at;
    const hardware *h = &e->hardware;
    setup s = { 0 };
    if (e->o->estimate.gpus > 1)
        return status_set(STATUS_INVALID, "--gpus %lld: snug trains on one device",
                          (long long)e->o->estimate.gpus);
    o.run.model = named;
    bool kernels = h->memory && gpu_elsewhere(h, &o, &at);
    status result = setup_open(&o.run, NULL, &s);
    uint64_t beside = !h->memory    ? 0
                      : h->overhead ? h->overhead
                                    : h->context[2],
             limit = !h->memory           ? s.budget
                     : h->memory > beside ? h->memory - beside
                                          : 1;
    int64_t more = (int64_t)beside;
    if (kernels) /* its plans count what they reserve there */
        limit = o.run.memory, more = (int64_t)h->memory - (int64_t)limit;
    if (e->o->run.memory && e->o->run.memory < limit) limit = e->o->run.memory;
    if (result == STATUS_OK) result = search(&s, limit, more, whole, a);
    setup_close(&s);
    return result;
}

/* ---- all ---- */

enum { BATCHES = 1 << 16 }; /* more are not tried */

static status ask_framework(estimate_question *e, ask_answer *a) {
    TRY(e->framework->estimate(&e->subject, &e->settings, &e->result));
    a->bytes = e->result.layers[e->hardware.memory ? FRAMEWORK_DEVICE : FRAMEWORK_RESERVED];
    a->fits = !e->hardware.memory || (e->o->estimate.strict ? e->result.spares : e->result.fits);
    return STATUS_OK;
}

status ask(const options *o, const char *named, bool whole, ask_answer *a) {
    estimate_question e;
    *a = (ask_answer){ 0 };
    if (!named) named = o->subject;
    status result = estimate_open(o, named, &e);
    a->hardware = e.hardware;
    if (result == STATUS_OK) {
        snprintf(a->model, sizeof a->model, "%s", e.model.name);
        result = e.framework ? ask_framework(&e, a) : ask_snug(&e, named, whole, a);
    }
    a->notes = e.notes;
    e.notes = (text){ 0 };
    estimate_close(&e);
    return result;
}

/* Sizes of Megatron-LM and of torchtitan multiply to devices that one copy of the model takes: fewer can't be
 * asked about. */
int64_t ask_least_devices(const options *o) {
    switch (o->estimate.framework) {
    case FRAMEWORK_MEGATRON: return megatron_least_devices(&o->estimate.megatron);
    case FRAMEWORK_TITAN: return titan_least_devices(&o->estimate.titan);
    default: return 1;
    }
}

static bool cuts(const options *o) {
    return o->estimate.framework == FRAMEWORK_MEGATRON || o->estimate.framework == FRAMEWORK_TITAN;
}

int64_t ask_step(const options *o, framework_variable v) {
    const titan_settings *t = &o->estimate.titan;
    if (v == FRAMEWORK_BATCH && o->estimate.framework == FRAMEWORK_TITAN) return t->passes;
    if (v != FRAMEWORK_CONTEXT || !cuts(o)) return 1;
    return o->estimate.framework == FRAMEWORK_TITAN ? t->tensor * t->contexts
                                                    : megatron_context_step(&o->estimate.megatron);
}

/* With a value of it that is accepted wherever one is. */
static options probe(const options *o, framework_variable v) {
    if (v == FRAMEWORK_GPUS) return ask_with(o, v, ask_least_devices(o));
    return cuts(o) ? ask_with(o, v, ask_step(o, v)) : *o;
}

status ask_most(const options *o, framework_variable v, int64_t *most) {
    enum { RECORDED_LENGTHS = 1 << 20 };
    estimate_question e;
    options one = probe(o, v);
    *most = 0;
    status result = estimate_open(&one, o->subject, &e);
    bool has = result == STATUS_OK && (e.framework ? e.framework->variable(&e.settings, v) != NULL
                                                   : v != FRAMEWORK_GPUS || o->run.unit);
    if (has)
        *most = v == FRAMEWORK_BATCH  ? BATCHES
                : v == FRAMEWORK_GPUS ? CHOOSE_MOST_DEVICES
                : e.subject.recorded  ? RECORDED_LENGTHS
                                      : estimate_most_context(&e);
    estimate_close(&e);
    return result;
}

/* Ranks have as many units each. */
static void count_ranks(const options *o, device_counts *out) {
    int64_t units = o->run.unit ? o->run.batch / o->run.unit : 1;
    for (int64_t ranks = 2; ranks <= units && out->count < CHOOSE_MOST_DEVICES; ranks++)
        if (units % ranks == 0) out->of[out->count++] = ranks;
}

status ask_counts(const options *o, device_counts *out) {
    estimate_question e;
    int64_t least = ask_least_devices(o);
    options with = ask_with(o, FRAMEWORK_GPUS, least);
    *out = (device_counts){ .count = 0 };
    status result = estimate_open(&with, o->subject, &e);
    if (result == STATUS_OK && least > CHOOSE_MOST_DEVICES)
        result = status_set(STATUS_INVALID,
                            "a copy of the model takes %lld devices, and numbers up to %d are tried",
                            (long long)least, CHOOSE_MOST_DEVICES);
    if (result == STATUS_OK) out->of[out->count++] = least;
    if (result == STATUS_OK && !e.framework) count_ranks(o, out);
    bool several = result == STATUS_OK && e.framework && e.framework->variable(&e.settings, FRAMEWORK_GPUS);
    for (int64_t gpus = least + 1; several && gpus <= CHOOSE_MOST_DEVICES; gpus++) {
        with = ask_with(o, FRAMEWORK_GPUS, gpus);
        if (estimate_settle(&e, &with) == STATUS_OK) out->of[out->count++] = gpus;
    }
    estimate_close(&e);
    return result;
}

status ask_batches(const options *o, device_counts *out) {
    int64_t step = o->estimate.framework == FRAMEWORK_MEGATRON ? o->estimate.megatron.step : 0;
    estimate_question e;
    options with = probe(o, FRAMEWORK_BATCH);
    *out = (device_counts){ .count = 0 };
    if (!step) return STATUS_OK;
    status result = estimate_open(&with, o->subject, &e);
    for (int64_t batch = 1; result == STATUS_OK && batch <= step && batch <= BATCHES; batch++) {
        if (step % batch || out->count == CHOOSE_MOST_DEVICES) continue;
        with = ask_with(o, FRAMEWORK_BATCH, batch);
        if (estimate_settle(&e, &with) == STATUS_OK) out->of[out->count++] = batch;
    }
    estimate_close(&e);
    return result;
}

options ask_with(const options *o, framework_variable v, int64_t value) {
    options with = *o;
    switch (v) {
    case FRAMEWORK_BATCH:
        with.run.batch = value, with.estimate.batch_assumed = false;
        if (with.run.micro_batch > value || o->estimate.framework != FRAMEWORK_SNUG) with.run.micro_batch = 0;
        with.estimate.requests = value;
        break;
    case FRAMEWORK_CONTEXT: with.run.context = value; break;
    case FRAMEWORK_GPUS:
        if (o->estimate.framework == FRAMEWORK_SNUG) {
            with.run.ranks = value;
            if (with.run.of_host > value) with.run.of_host = value;
            break;
        }
        with.estimate.gpus = value;
        if (cuts(o)) break; /* sizes of its own say who shares what */
        if (value == 1 && !o->estimate.host_keeps) with.estimate.shard = TORCH_ALONE;
        if (value > 1 && o->estimate.shard == TORCH_ALONE) with.estimate.shard = TORCH_FSDP;
        break;
    }
    return with;
}
