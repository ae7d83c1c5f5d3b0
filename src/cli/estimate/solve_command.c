/* --solve and --fit: how much at most, how few at least, and on what. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/estimate/ask.h"
#include "estimate/hardware_files.h"
#include "estimate/solve.h"
#include "io/json.h"
#include "io/published.h"

/* What was found. */
typedef struct {
    const char *name; /* a model or a device; NULL: a number */
    int64_t value;    /* 0 where there is no name: nothing fits */
    ask_answer with;  /* what it takes; of what is nearest where nothing fits */
    ask_answer more;  /* what one more takes; no bytes: there is no more, or it is not of use */
    int64_t most;     /* no more than this was looked at */
    int64_t least;    /* the first value that was tried */
    int64_t next;     /* the value that `more` is of; 0: none was looked at */
} solution;

typedef struct {
    const char *name;
    bool refused; /* it can't be asked so on this device */
    ask_answer a;
} candidate;

typedef struct {
    const options *o;
    cli_streams *streams;
    solution found;
    candidate *devices; /* of --solve gpu: all, the smallest first */
    uint32_t device_count;
} solving;

static bool is_snug(const options *o) { return o->estimate.framework == FRAMEWORK_SNUG; }

static const char *framework_title(const options *o) {
    const framework *f = framework_of(o->estimate.framework);
    return f ? f->title : "snug";
}

static const char *framework_word(const options *o) {
    const framework *f = framework_of(o->estimate.framework);
    return f ? f->name : "snug";
}

static status need_device(const options *o) {
    const char *name = o->estimate.device;
    if (name && strcmp(name, "cpu") != 0) return STATUS_OK;
    return status_set(STATUS_INVALID, "what fits depends on the device; say --gpu NAME, as --gpu h100-80");
}

/* ---- numbers ---- */

typedef struct {
    const options *o;
    framework_variable variable;
    const device_counts *counts; /* values are places among these; NULL: multiples of `step` */
    int64_t step;
} turning;

static int64_t value_at(const turning *t, int64_t place) {
    return place && t->counts ? t->counts->of[place - 1] : place * t->step;
}

static status fits_with(void *context, int64_t place, bool *fits) {
    const turning *t = context;
    options with = ask_with(t->o, t->variable, value_at(t, place));
    ask_answer a;
    status result = ask(&with, NULL, false, &a);
    text_close(&a.notes);
    *fits = result == STATUS_OK && a.fits;
    return result;
}

static status answer_with(const options *o, framework_variable v, int64_t value, ask_answer *a) {
    options with = ask_with(o, v, value);
    return ask(&with, NULL, true, a);
}

/* Of snug's own ranks bytes need not grow fewer: what moves between them takes memory as well. */
static status least_ranks(turning *t, int64_t *place) {
    bool fits = false;
    for (*place = 1; *place <= t->counts->count; ++*place) {
        TRY(fits_with(t, *place, &fits));
        if (fits) return STATUS_OK;
    }
    *place = 0;
    return STATUS_OK;
}

/* Bytes of a device grow fewer with each number of them that can be, and between those there is no answer. */
static status solve_gpus(solving *s) {
    solution *f = &s->found;
    device_counts counts;
    turning t = { s->o, FRAMEWORK_GPUS, &counts, 1 };
    int64_t place;
    TRY(ask_counts(s->o, &counts));
    TRY(is_snug(s->o) ? least_ranks(&t, &place) : solve_least(counts.count, fits_with, &t, &place));
    f->value = value_at(&t, place);
    TRY(answer_with(s->o, FRAMEWORK_GPUS, value_at(&t, place ? place : counts.count), &f->with));
    bool torch = s->o->estimate.framework <= FRAMEWORK_PYTORCH;
    if (torch && f->value > 1 && s->o->estimate.shard == TORCH_ALONE)
        text_add(&f->with.notes, "several devices share by --shard fsdp, unless another way is named\n");
    return STATUS_OK;
}

/* Bytes grow with batches and contexts; those that the framework refuses are not among the places. */
static status solve_size(solving *s, framework_variable v) {
    solution *f = &s->found;
    device_counts counts = { .count = 0 };
    turning t = { s->o, v, NULL, ask_step(s->o, v) };
    if (v == FRAMEWORK_BATCH) TRY(ask_batches(s->o, &counts));
    if (counts.count) t.counts = &counts;
    int64_t places = counts.count ? counts.count : f->most / t.step, place;
    if (!places)
        return status_set(STATUS_INVALID, "contexts are multiples of %lld here, and the longest one is %lld",
                          (long long)t.step, (long long)f->most);
    TRY(solve_largest(places, fits_with, &t, &place));
    f->value = value_at(&t, place), f->least = value_at(&t, 1);
    TRY(answer_with(s->o, v, place ? f->value : f->least, &f->with));
    if (!place || place == places) return STATUS_OK;
    f->next = value_at(&t, place + 1);
    return answer_with(s->o, v, f->next, &f->more);
}

static status solve_number(solving *s, framework_variable v) {
    static const char *const names[] = { "batch", "context", "gpus" };
    solution *f = &s->found;
    bool ranks = v == FRAMEWORK_GPUS && is_snug(s->o); /* of processors: those that are here */
    if (!ranks) TRY(need_device(s->o));
    TRY(ask_most(s->o, v, &f->most));
    if (!f->most && ranks)
        return status_set(STATUS_INVALID,
                          "--solve gpus: without units each rank has all weights and computes its samples at "
                          "once, so more of them never need less; say --unit N");
    if (!f->most)
        return status_set(STATUS_INVALID, "--solve %s: %s has no such setting", names[v],
                          framework_title(s->o));
    return v == FRAMEWORK_GPUS ? solve_gpus(s) : solve_size(s, v);
}

/* ---- models ---- */

/* "llama-3" is a family of llama-3-8b and llama-3.1-8b, and so is "llama" of all whose model_type that is.
 * None asked for: decoders. */
static bool is_of_family(const published_model *p, const char *family) {
    model_config c;
    const char *name;
    if (family && strncmp(p->name, family, strlen(family)) == 0) return true;
    if (!published_find(p->name, &c, &name)) return false;
    if (c.family == FAMILY_GPT2) return !family;
    return c.family == FAMILY_DECODER && (!family || strcmp(c.decoder.kind->type, family) == 0);
}

static int by_size(const void *a, const void *b) {
    const published_model *const *x = a, *const *y = b;
    double left = published_parameters(*x), right = published_parameters(*y);
    return left != right ? (left < right ? 1 : -1) : strcmp((*x)->name, (*y)->name);
}

static status no_family(const char *family) {
    text names = { 0 };
    for (const published_model *p = published_models; p->name; p++)
        text_add(&names, "%s%s", p == published_models ? "" : ", ", p->name);
    status failed =
        status_set(STATUS_INVALID, "--fit %.40s: no published model's name begins so; there are %.1500s",
                   family, names.data ? names.data : "");
    text_close(&names);
    return failed;
}

/* The first of them that fits; else what the last takes. Those that can't be asked so, whose heads can't be
 * divided by --gpus, say, are passed over; a failure where that goes for all. */
static status first_that_fits(solving *s, const published_model *const *of, uint32_t count) {
    const published_model *last = NULL;
    status result = STATUS_OK;
    for (uint32_t i = 0; i < count && !s->found.name; i++) {
        text_close(&s->found.with.notes);
        result = ask(s->o, of[i]->name, false, &s->found.with);
        if (result == STATUS_INVALID) continue;
        TRY(result);
        last = of[i];
        s->found.name = s->found.with.fits ? last->name : NULL;
    }
    if (!last) return result;
    text_close(&s->found.with.notes);
    return ask(s->o, last->name, true, &s->found.with);
}

/* The largest that fits, from large to small; else what the smallest takes. */
static status solve_model(solving *s) {
    enum { MOST = 256 };
    const published_model *of[MOST];
    uint32_t count = 0;
    bool here = is_snug(s->o) && !s->o->estimate.device;
    if (!here) TRY(need_device(s->o));
    for (const published_model *p = published_models; p->name && count < MOST; p++)
        if (is_of_family(p, s->o->estimate.family)) of[count++] = p;
    if (!count) return no_family(s->o->estimate.family);
    qsort(of, count, sizeof *of, by_size);
    return first_that_fits(s, of, count);
}

/* ---- devices ---- */

static int by_memory(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    uint64_t left = x->a.hardware.memory, right = y->a.hardware.memory;
    return left != right ? (left < right ? -1 : 1) : strcmp(x->name, y->name);
}

static status ask_devices(const options *o, candidate *out, uint32_t count) {
    uint32_t refused = 0;
    for (uint32_t i = 0; i < count; i++) {
        options with = *o;
        with.estimate.device = out[i].name = hardware_name(i);
        status result = ask(&with, NULL, true, &out[i].a);
        out[i].refused = result == STATUS_INVALID;
        refused += out[i].refused;
        if (refused == count || !out[i].refused) TRY(result);
    }
    return STATUS_OK;
}

/* The smallest that fits; where none does, what the largest would take. */
static status solve_device(solving *s) {
    s->device_count = hardware_count();
    s->devices = memory_new(s->device_count, sizeof *s->devices);
    if (!s->devices) return status_set(STATUS_FAILED, "no memory to ask for all devices");
    TRY(ask_devices(s->o, s->devices, s->device_count));
    qsort(s->devices, s->device_count, sizeof *s->devices, by_memory);
    const candidate *last = NULL;
    for (uint32_t i = s->device_count; i-- > 0;) {
        candidate *c = &s->devices[i];
        if (c->refused || (last && !c->a.fits)) continue;
        last = c;
        s->found.with = c->a;
        s->found.name = c->a.fits ? c->name : NULL;
    }
    s->found.with.notes = (text){ 0 }; /* theirs */
    if (last && last->a.notes.length) text_add(&s->found.with.notes, "%s", last->a.notes.data);
    return STATUS_OK;
}

/* ---- what is said ---- */

static const char *bytes_text(const interval *b, char out[128]) {
    char low[UNITS_TEXT_BYTES], likely[UNITS_TEXT_BYTES], high[UNITS_TEXT_BYTES];
    units_bytes_text(b->likely, likely);
    if (b->low == b->high)
        snprintf(out, 128, "%s", likely);
    else
        snprintf(out, 128, "%s (%s to %s)", likely, units_bytes_text(b->low, low),
                 units_bytes_text(b->high, high));
    return out;
}

static bool serves(const options *o) {
    framework_name n = o->estimate.framework;
    return n == FRAMEWORK_VLLM || n == FRAMEWORK_LLAMA_CPP || n == FRAMEWORK_SGLANG || n == FRAMEWORK_TRTLLM;
}

static const char *device_of(const solving *s) {
    const solution *f = &s->found;
    if (f->with.hardware.memory) return f->with.hardware.name;
    return s->o->run.memory ? "--memory" : "this machine";
}

static const char *what_of(const options *o) {
    static const char *const what[] = { [SOLVE_BATCH] = "the largest batch",
                                        [SOLVE_CONTEXT] = "the longest context",
                                        [SOLVE_MODEL] = "the largest published model",
                                        [SOLVE_GPUS] = "the least number of devices",
                                        [SOLVE_GPU] = "the smallest device" };
    if (o->estimate.solve == SOLVE_MODEL && !o->estimate.family) return "the largest published decoder";
    return o->estimate.solve == SOLVE_BATCH && serves(o) ? "the most requests" : what[o->estimate.solve];
}

static void say_value(const solving *s, text *t) {
    const solution *f = &s->found;
    char takes[128], more[128];
    bool ranks = s->o->estimate.solve == SOLVE_GPUS && is_snug(s->o);
    text_add(t, ": %s that fits is ", ranks ? "the least number of ranks" : what_of(s->o));
    if (f->name)
        text_add(t, "%s; it takes %s", f->name, bytes_text(&f->with.bytes, takes));
    else
        text_add(t, "%lld; it takes %s", (long long)f->value, bytes_text(&f->with.bytes, takes));
    if (f->with.hardware.memory) text_add(t, " of %s", f->with.hardware.name);
    if (s->o->estimate.solve == SOLVE_GPUS) {
        text_add(t, "%s", f->value > 1 ? ", each" : "");
    } else if (f->more.bytes.likely > f->with.bytes.likely) {
        text_add(t, ", and %lld would take %s", (long long)f->next, bytes_text(&f->more.bytes, more));
    } else if (!f->name && !f->next) {
        text_add(t, ", and more was not looked at");
    }
    text_add(t, "\n");
}

/* Nothing fits: what was tried at the end, and what it takes. */
static void say_none(const solving *s, text *t) {
    const solution *f = &s->found;
    const char *name = f->with.model, *gpu = device_of(s);
    char takes[128];
    bytes_text(&f->with.bytes, takes);
    switch (s->o->estimate.solve) {
    case SOLVE_BATCH:
        text_add(t, "not even %s of %s fits %s: it takes %s", serves(s->o) ? "one request" : "a batch of one",
                 name, gpu, takes);
        break;
    case SOLVE_CONTEXT:
        if (f->least > 1)
            text_add(t, "not even a context of %lld tokens of %s fits %s: it takes %s", (long long)f->least,
                     name, gpu, takes);
        else
            text_add(t, "not even a context of one token of %s fits %s: it takes %s", name, gpu, takes);
        break;
    case SOLVE_MODEL:
        text_add(t, "no published %s fits %s: the smallest, %s, takes %s",
                 s->o->estimate.family ? "model of that family" : "decoder", gpu, name, takes);
        break;
    case SOLVE_GPUS:
        if (is_snug(s->o)) {
            text_add(t, "on no number of ranks %s fits: of the most that divide its units each takes %s",
                     name, takes);
            break;
        }
        text_add(t, "no number of %s holds %s: of the most that can be asked for each takes %s", gpu, name,
                 takes);
        break;
    case SOLVE_GPU: text_add(t, "no device holds %s: of %s it takes %s", name, gpu, takes); break;
    case SOLVE_MEMORY:
    case SOLVE_FITS: text_add(t, "%s does not fit %s: it takes %s", name, gpu, takes); break;
    }
}

static void say_found(const solving *s, text *t) {
    const solution *f = &s->found;
    char takes[128];
    char name[REPORT_NAME_BYTES];
    if (s->o->estimate.solve != SOLVE_MODEL) text_add(t, "%s ", report_name(f->with.model, name));
    text_add(t, "in %s", framework_title(s->o));
    if (s->o->estimate.solve == SOLVE_MEMORY)
        text_add(t, " takes %s%s\n", bytes_text(&f->with.bytes, takes),
                 f->with.hardware.memory ? " of the device" : "");
    else
        say_value(s, t);
}

static void put_memory(json_writer *w, const hardware *h) {
    json_put_unsigned(w, "reported_bytes", h->memory + h->leaves);
    if (h->leaves) json_put_unsigned(w, "machine_bytes", h->leaves);
}

static void put_found(const solving *s, json_writer *w) {
    static const char *const words[] = { "fits", "memory", "batch", "context", "model", "gpus", "gpu" };
    const solution *f = &s->found;
    json_put_string(w, "model", f->with.model);
    json_put_string(w, "framework", framework_word(s->o));
    json_put_string(w, "solve", words[s->o->estimate.solve]);
    json_put_bool(w, "fits", f->with.fits);
    if (s->o->estimate.solve == SOLVE_MEMORY)
        json_put_unsigned(w, "value", f->with.bytes.likely);
    else if (f->name)
        json_put_string(w, "value", f->name);
    else if (f->value)
        json_put_integer(w, "value", f->value);
    else
        json_put_null(w, "value");
    json_begin_object(w, "bytes");
    json_put_unsigned(w, "low", f->with.bytes.low);
    json_put_unsigned(w, "likely", f->with.bytes.likely);
    json_put_unsigned(w, "high", f->with.bytes.high);
    json_end_object(w);
    if (f->more.bytes.likely) json_put_unsigned(w, "one_more_bytes", f->more.bytes.likely);
    if (f->with.hardware.memory) {
        json_put_string(w, "device", f->with.hardware.name);
        put_memory(w, &f->with.hardware);
    }
}

static int64_t gibibytes(const candidate *c) { return (int64_t)((c->a.hardware.memory + (1u << 29)) >> 30); }

/* All that hold it, a line for each size: "  of 12 GiB: rtx-4070, rtx-4070-super". They come by memory. */
static void say_devices(const solving *s, text *t) {
    int64_t size = -1;
    for (const candidate *c = s->devices; c < s->devices + s->device_count; c++) {
        if (!c->a.fits) continue;
        if (gibibytes(c) == size)
            text_add(t, ", %s", c->name);
        else
            text_add(t, "%s  of %lld GiB: %s", size < 0 ? "" : "\n", (long long)gibibytes(c), c->name);
        size = gibibytes(c);
    }
    if (size >= 0) text_add(t, "\n");
}

static void put_devices(const solving *s, json_writer *w) {
    json_begin_array(w, "devices");
    for (const candidate *c = s->devices; c < s->devices + s->device_count; c++) {
        json_begin_object(w, NULL);
        json_put_string(w, "name", c->name);
        json_put_bool(w, "fits", c->a.fits);
        if (c->refused)
            json_put_null(w, "device_bytes");
        else
            json_put_unsigned(w, "device_bytes", c->a.bytes.likely);
        put_memory(w, &c->a.hardware);
        json_end_object(w);
    }
    json_end_array(w);
}

static status tell(solving *s) {
    text t = { 0 };
    const solution *f = &s->found;
    if (s->streams->people.file) {
        if (f->with.notes.length) text_add(&t, "%s", f->with.notes.data);
        if (f->name || f->value || s->o->estimate.solve == SOLVE_MEMORY) say_found(s, &t);
        say_devices(s, &t);
        output_text(&s->streams->people, &t);
    }
    if (s->o->json) {
        json_writer w = { .out = &t, .lines = true };
        json_begin_object(&w, NULL);
        put_found(s, &w);
        if (s->devices) put_devices(s, &w);
        json_end_object(&w);
        text_add(&t, "\n");
        output_text(&s->streams->result, &t);
    }
    if (f->with.fits) return STATUS_OK;
    say_none(s, &t);
    status result = status_set(STATUS_NO_FIT, "%s", t.data ? t.data : "nothing fits");
    text_close(&t);
    return result;
}

/* The question with what was found in it. */
static options found_options(const solving *s) {
    const solution *f = &s->found;
    options with = *s->o;
    switch (s->o->estimate.solve) {
    case SOLVE_BATCH: with = ask_with(s->o, FRAMEWORK_BATCH, f->value); break;
    case SOLVE_CONTEXT: with = ask_with(s->o, FRAMEWORK_CONTEXT, f->value); break;
    case SOLVE_GPUS: with = ask_with(s->o, FRAMEWORK_GPUS, f->value); break;
    case SOLVE_MODEL: with.subject = f->name; break;
    case SOLVE_GPU: with.estimate.device = f->name; break;
    case SOLVE_MEMORY:
    case SOLVE_FITS: break;
    }
    return with;
}

static status emit_found(const solving *s) {
    options with = found_options(s);
    estimate_question e;
    text t = { 0 }, beside = { 0 };
    status result = estimate_open(&with, with.subject, &e);
    if (result == STATUS_OK) result = e.framework->estimate(&e.subject, &e.settings, &e.result);
    if (result == STATUS_OK) result = estimate_emit(&t, &e, &(framework_advice){ .text = "" }, &beside);
    output_text(&s->streams->people, &beside);
    if (result == STATUS_OK) output_text(&s->streams->result, &t);
    estimate_close(&e);
    text_close(&t);
    return result;
}

status estimate_solve(const options *o, cli_streams *streams) {
    options with = *o;
    solving s = { .o = &with, .streams = streams };
    status result = STATUS_INVALID;
    if (o->estimate.family) with.estimate.solve = SOLVE_MODEL;
    if (o->estimate.family && o->estimate.solve != SOLVE_FITS && o->estimate.solve != SOLVE_MODEL)
        return status_set(STATUS_INVALID, "--fit %.40s asks for the largest model; leave --solve out",
                          o->estimate.family);
    bool here = is_snug(&with) && !with.estimate.device && !with.run.memory;
    if (here && with.estimate.solve != SOLVE_MEMORY) with.run.memory_auto = true;
    if (!o->subject && with.estimate.solve != SOLVE_MODEL)
        return status_set(STATUS_INVALID, "no model named; say snug estimate MODEL");
    TRY(emit_check(o->estimate.emit, framework_of(o->estimate.framework)));
    switch (with.estimate.solve) {
    case SOLVE_BATCH: result = solve_number(&s, FRAMEWORK_BATCH); break;
    case SOLVE_CONTEXT: result = solve_number(&s, FRAMEWORK_CONTEXT); break;
    case SOLVE_GPUS: result = solve_number(&s, FRAMEWORK_GPUS); break;
    case SOLVE_MODEL: result = solve_model(&s); break;
    case SOLVE_GPU: result = solve_device(&s); break;
    case SOLVE_MEMORY:
    case SOLVE_FITS: result = ask(o, NULL, true, &s.found.with); break;
    }
    if (result == STATUS_OK) result = tell(&s);
    if (result == STATUS_OK && o->estimate.emit) result = emit_found(&s);
    for (uint32_t i = 0; i < s.device_count && s.devices; i++) text_close(&s.devices[i].a.notes);
    memory_free(s.devices);
    text_close(&s.found.with.notes);
    text_close(&s.found.more.notes);
    return result;
}
